package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestAReconcilerThatReturnsNotFoundOfItsOwnPrimaryIsToldSo: its teardown would never be over. NotFound of anything else
// is a failure like others.
func TestAReconcilerThatReturnsNotFoundOfItsOwnPrimaryIsToldSo(t *testing.T) {
	const advice = "NotFound error of its own primary"
	for name, c := range map[string]struct {
		key  string // of which NotFound is returned
		told bool
	}{"its own": {"home", true}, "another's": {"away", false}} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				ctx, w := t.Context(), newWorld(t)
				sites := w.sites()
				var reported toldOf[error]
				ctrl, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
					if !req.Operations.Has(OperationDelete) {
						return Result{}, nil
					}
					_, err := sites.Lister().Get(c.key)
					return Result{}, fmt.Errorf("reading the site: %w", err)
				}), WithResyncInterval(0), WithBackoff(time.Second, time.Second),
					WithOnResult(func(r ReconcileResult) {
						if r.Err != nil {
							reported.add(r.Err)
						}
					}))
				must(t, err)
				w.run(ctrl)
				must(t, sites.Create(ctx, newSite("home", "one")))
				explained(t, ctrl, "home", StateCalm)
				must(t, sites.Delete(ctx, "home"))
				time.Sleep(10 * time.Second)
				rec, err := sites.Record(ctx, "home")
				must(t, err)
				e := ctrl.Explain("home")
				if message := messageOf(rec, entity.ConditionDeleting); strings.Contains(message, advice) != c.told ||
					strings.Contains(e.Says, advice) != c.told || rec.Phase() != entity.PhaseDeleting {
					t.Errorf("the record says %q, Explain %q", message, e.Says)
				}
				if e.Failures < 2 {
					t.Errorf("it stays a failure, and is tried again: %+v", e)
				}
				if all := reported.all(); len(all) == 0 || !apierrors.IsNotFound(all[0]) {
					t.Errorf("reported: %v", all)
				}
			})
		})
	}
}
