package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// crashStep is a moment between two steps of a teardown, at which a process dies, and what it leaves.
type crashStep struct {
	name   string
	pages  int  // of three
	anchor bool // without one nobody has to be told of the delete again
}

// crashSteps are the moments of the teardown of a site with three pages, in order.
var crashSteps = []crashStep{
	{"before the reconciler", 3, true},
	{"at the reconciler's end", 3, true},
	{"before the leader is asked", 3, true},
	{"after the leader was asked", 3, true},
	{"before delete 1", 3, true},
	{"after delete 1", 2, true},
	{"before delete 2", 2, true},
	{"after delete 2", 1, true},
	{"before delete 3", 1, true},
	{"after delete 3", 0, true},
	{"before the anchor's removal is sent", 0, true},
	{"after the anchor's removal was sent", 0, false},
	{"after the anchor was removed", 0, false},
}

// doomed is a controller that dies when the teardown of a site comes to a moment.
type doomed struct {
	*mortal
	moment    string
	tearsDown atomic.Bool
	deletes   atomic.Int64
}

func (d *doomed) at(moment string) {
	if moment == d.moment && d.tearsDown.Load() {
		d.dies()
	}
}

// removal watches what the process sends: the engine has no place of its own where the removal of an anchor could be
// caught.
func (d *doomed) removal(m *natstest.Message) natstest.Fate {
	const before, after = "before the anchor's removal is sent", "after the anchor's removal was sent"
	removes := natstest.To("$KV.sites-status.home")(m) && m.Header.Get("KV-Operation") == "PURGE"
	if !removes || d.moment != before && d.moment != after {
		return natstest.Fate{}
	}
	time.AfterFunc(time.Nanosecond, d.dies)
	return natstest.Fate{Lost: d.moment == before, Cut: true}
}

// askedBefore is a client that also tells when the leader is about to be asked.
type askedBefore struct {
	*hooked
	doomed *doomed
}

func (a *askedBefore) EnginePort() entity.EnginePort[*site] {
	return confirms{a.Client.EnginePort(), a.Confirm}
}

func (a *askedBefore) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	a.doomed.at("before the leader is asked")
	return a.hooked.Confirm(ctx, key)
}

// startDoomed runs a controller whose sites own as many pages as their spec says.
func (w *world) startDoomed(moment string) *doomed {
	w.t.Helper()
	d := &doomed{mortal: w.mortal(), moment: moment}
	d.proxy.Tamper(d.removal)
	sites, pages := &askedBefore{&hooked{Client: d.sites()}, d}, &hooked{Client: d.pages()}
	sites.afterConfirm = func(string, entity.Presence) { d.at("after the leader was asked") }
	pages.onDelete = func(_ string, remove func() error) error {
		n := d.deletes.Add(1)
		d.at(fmt.Sprint("before delete ", n))
		err := remove()
		d.at(fmt.Sprint("after delete ", n))
		return err
	}
	work := pagesOf(sites, pages)
	c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		d.tearsDown.Store(req.Operations.Has(OperationDelete))
		d.at("before the reconciler")
		result, err := work(ctx, req)
		d.at("at the reconciler's end")
		return result, err
	}), Owns(pages), WithGracePeriod(0), WithOnResult(func(r ReconcileResult) {
		d.at("after the anchor was removed")
	}))
	must(w.t, err)
	d.live(c)
	return d
}

// TestATeardownSurvivesACrashAtEachStep has a process die between each two steps of a teardown, and another one finish,
// as soon as the lease of the dead one is over: nothing that the site owned is left, nor a record, and the reconciler
// is told Delete once more where the anchor stood, and nothing where it did not.
func TestATeardownSurvivesACrashAtEachStep(t *testing.T) {
	for _, step := range crashSteps {
		t.Run(step.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := w.startDoomed(step.name)
				sites, pages := w.sites(), w.pages()
				must(t, sites.Create(t.Context(), siteWithPages("home", 3)))
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				must(t, sites.Delete(t.Context(), "home"))
				first.bury()
				if n, gone := count(t, pages), noRecord(t, sites, "home")(); n != step.pages || gone == step.anchor {
					t.Fatalf("it left %d pages, want %d, and no anchor: %v", n, step.pages, gone)
				}
				var seen calls
				c, err := New("sites", sites, seen.reconciler(pagesOf(sites, pages)), Owns(pages))
				must(t, err)
				w.run(c)
				natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
				natstest.Eventually(t, "the teardown is finished", func() bool {
					return noRecord(t, sites, "home")() && count(t, pages) == 0
				})
				must(t, sites.Create(t.Context(), siteWithPages("other", 1)))
				eventuallyReason(t, sites, "other", entity.ReasonSynced)
				idle(t, c)
				told, want := seen.of("home"), 0
				if step.anchor {
					want = 1
				}
				// The delete may come together with an event of a page.
				if len(told) != want || seen.with("home", OperationDelete) != want {
					t.Errorf("the second process was told %v, want %d deletes", told, want)
				}
				if n := count(t, pages); n != 1 {
					t.Errorf("%d pages are there, want the one of the other site", n)
				}
				if held := c.Stats().Brake; held.Engaged {
					t.Errorf("the brake is engaged: %+v", held)
				}
			})
		})
	}
}
