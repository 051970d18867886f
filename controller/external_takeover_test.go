package controller

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/turn"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// heldList holds one list back after it has read what there is.
type heldList struct {
	*cloudtest.Listed
	hold       atomic.Bool
	read, goOn chan struct{}
}

func (h *heldList) List(ctx context.Context) ([]external.Resource, error) {
	found, err := h.Listed.List(ctx)
	if h.hold.CompareAndSwap(true, false) {
		close(h.read)
		<-h.goOn
	}
	return found, err
}

// TestCascadeTakesNoListThatBeganBeforeTheTeardown, neither where what external.Reconcile has created lately had a
// list asked for before: what the list has read may be somebody else's when it ends.
func TestCascadeTakesNoListThatBeganBeforeTheTeardown(t *testing.T) {
	for name, created := range map[string]bool{"created by hand": false, "created lately": true} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				api := &heldList{
					Listed: cloudtest.NewListed(external.Resource{ID: "disk", OwnerKey: "old", Version: "1"}),
					read:   make(chan struct{}), goOn: make(chan struct{}),
				}
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil),
					OwnsExternal(external.Configure(api, withInterval(notInATest))), WithResyncInterval(0))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), sized("old", 1)))
				natstest.Eventually(t, "it is reconciled", func() bool { return seen.count("old") > 0 })
				at := time.Now()
				if created {
					entry := external.Entry{Applied: "x", Created: &external.Creation{At: at, Settle: time.Millisecond}}
					must(t, c.engine.APIs.Store("old", turn.New()).Save(t.Context(), "Thing", external.Entry{},
						entry))
				}
				time.Sleep(10 * time.Millisecond) // it has settled
				api.hold.Store(true)
				c.engine.APIs.Source("Thing").WantList(time.Now())
				<-api.read
				api.Resources.Store(&[]external.Resource{{ID: "disk", OwnerKey: "new", Version: "2"}})
				must(t, sites.Delete(t.Context(), "old"))
				natstest.Eventually(t, "the teardown waits", func() bool {
					return seen.with("old", OperationDelete) > 0 && c.Stats().Delayed > 0
				})
				close(api.goOn)
				natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
				if n := len(api.Deleted); n > 0 {
					t.Errorf("the disk that another one owns was deleted %d times", n)
				}
			})
		})
	}
}

// TestOneResourceThatCannotBeDeletedDoesNotKeepAnAPIAway: that its teardown has had to wait for a list is no success.
func TestOneResourceThatCannotBeDeletedDoesNotKeepAnAPIAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), leaveDisks)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		w.run(w.c)
		natstest.Eventually(t, "it is reconciled", func() bool { return w.reconciled("home") })
		w.cloud.Add(w.diskFor("home", ""))
		w.listNow(1)
		w.cloud.Failing("DELETE disks", http.StatusServiceUnavailable)
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is known that the fault is its own", func() bool {
			return w.c.Stats().Failures > 10
		})
		if opened := w.c.Stats().BreakerOpened; opened > 3 {
			t.Errorf("the breaker has opened %d times", opened)
		}
		w.cloud.Failing("DELETE disks", 0)
		natstest.Eventually(t, "it is torn down", func() bool { return w.c.Stats().TornDown == 1 })
	})
}
