package controller

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// tieredSpec is a wish with a field that JSON gives another type.
type tieredSpec struct {
	Size   int `json:"size"`
	Labels map[string]any
}

// typedDriver makes disks, and needs an int where it gave one.
type typedDriver struct {
	external.Driver[cloudtest.Spec, cloudtest.Disk]
	mu      sync.Mutex
	applied []any
}

func (d *typedDriver) Diff(desired tieredSpec, observed cloudtest.Disk) []external.Change {
	return d.Driver.Diff(cloudtest.Spec{Size: desired.Size}, observed)
}

func (d *typedDriver) Apply(
	ctx context.Context, req external.ApplyRequest[tieredSpec, cloudtest.Disk],
) (external.Outcome, error) {
	d.mu.Lock()
	d.applied = append(d.applied, req.Desired.Labels["tier"])
	d.mu.Unlock()
	return d.Driver.Apply(ctx, external.ApplyRequest[cloudtest.Spec, cloudtest.Disk]{
		Target: req.Target, Desired: cloudtest.Spec{Size: req.Desired.Size}, Observed: req.Observed,
		Changes: req.Changes,
	})
}

func TestApplyGetsTheVeryValueThatIsDesiredAlsoWhenItIsTriedAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		d := &typedDriver{}
		w := apart(t, func(w *cloudWorld) ReconcilerFunc {
			d.Driver = w.driver
			return func(ctx context.Context, _ Request) (Result, error) {
				_, err := external.Reconcile(ctx, external.Driver[tieredSpec, cloudtest.Disk](d),
					tieredSpec{Size: 1, Labels: map[string]any{"tier": 3}}, quickly...)
				return Result{}, err
			}
		})
		status := w.cloud.Failing("POST disks", http.StatusInternalServerError)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is tried again", func() bool { return w.cloud.Called("POST disks") > 2 })
		status.Store(0)
		natstest.Eventually(t, "created", func() bool { return w.reconciled("home") })
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, tier := range d.applied {
			if tier != 3 {
				t.Fatalf("Apply got %T %v, want the int 3", tier, tier)
			}
		}
	})
}

func TestAnOperationThatTheAPIHasForgottenIsOverAndWhatCameOfItIsObserved(t *testing.T) {
	for name, failure := range map[string]string{"done": "", "failed": "no space"} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := apart(t, nil)
				w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
				w.run(w.c)
				must(t, w.sites.Create(t.Context(), sized("home", 1)))
				natstest.Eventually(t, "its handle is written down", func() bool {
					kept := w.intentOf("home")
					return kept != nil && kept.Operation != ""
				})
				w.cloud.Set(func(c *cloudtest.Cloud) {
					for _, operation := range c.Operations {
						if failure == "" {
							operation.Do()
						}
					}
					clear(c.Operations)
					c.Async = false
				})
				natstest.Eventually(t, "created", func() bool {
					return w.cloud.Of("home") == "=1" && w.reconciled("home")
				})
				if n := w.cloud.CreatedFor("home"); n != 1 {
					t.Errorf("created %d times", n)
				}
				if polls := w.cloud.Called("GET operations"); w.c.Stats().Failures != 0 {
					t.Errorf("%d failures after %d polls", w.c.Stats().Failures, polls)
				}
			})
		})
	}
}

func TestADriversKindHasNoSlash(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		said := make(chan error, 1)
		w := apart(t, func(w *cloudWorld) ReconcilerFunc {
			return func(ctx context.Context, _ Request) (Result, error) {
				_, err := external.Reconcile(ctx, external.Driver[cloudtest.Spec, cloudtest.Disk](slashed{w.driver}),
					cloudtest.Spec{Size: 1})
				said <- err
				return Result{}, nil
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		if err := <-said; err == nil || !strings.Contains(fmt.Sprint(err), "without a slash") {
			t.Errorf("error %v", err)
		}
	})
}

type slashed struct{ *cloudtest.Driver }

func (slashed) Kind() string { return "cloud/Disk" }
