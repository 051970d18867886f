//go:build !race

package kube

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
)

// TestAllocationsOfApplyThatChangesNothing holds how much a reconcile allocates for each Kubernetes object when all is
// well. A limit is the measured value and a tenth more. The race detector allocates too, so this runs without it.
func TestAllocationsOfApplyThatChangesNothing(t *testing.T) {
	w := newWorld(t)
	maps := w.maps()
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		if _, err := maps.Apply(ctx, w.configMap("settings", "one")); err != nil {
			return err
		}
		w.shows(maps, "settings", w.liveMap("settings").ResourceVersion)
		allocations := testing.AllocsPerRun(1000, func() {
			result, err := maps.Apply(ctx, w.configMap("settings", "one"))
			if err != nil || result != controller.OperationResultNone {
				t.Errorf("%v, %v", result, err)
			}
		})
		t.Logf("%v allocations", allocations)
		if limit := 101.0; allocations > limit {
			t.Errorf("Apply allocates %v times, want at most %v", allocations, limit)
		}
		return nil
	}, maps.Owns()))
}
