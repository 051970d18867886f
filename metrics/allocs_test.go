//go:build !race

package metrics

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
)

// TestAllocationsOfTheObserver: for a reconcile there are none.
func TestAllocationsOfTheObserver(t *testing.T) {
	o := &observer{metrics: New()}
	o.Attach("sites", func() controller.Stats { return controller.Stats{} })
	failed := errors.New("failed")
	n := 0
	got := testing.AllocsPerRun(1000, func() {
		n++
		ctx := o.Begin(context.Background(), controller.Beginning{Key: "home", Waited: time.Duration(n) * time.Microsecond})
		o.End(ctx, controller.Ending{Key: "home", Took: time.Duration(n) * time.Millisecond})
		o.End(ctx, controller.Ending{Key: "home", Took: time.Duration(n) * time.Nanosecond, Err: failed})
	})
	if got > 0 {
		t.Errorf("%v allocations", got)
	}
}
