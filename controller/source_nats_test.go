package controller

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setStatus writes a status as the controller of the page would, in another process.
func setStatus(t *testing.T, pages *entity.Client[*page], key string, status siteStatus) {
	t.Helper()
	p, err := pages.Get(t.Context(), key)
	must(t, err)
	p.Status = status
	must(t, pages.UpdateStatus(t.Context(), p))
}

func TestASecondarysStatusWakesItsOwner(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages, theirs := w.pages(), w.away().pages()
		var seen calls
		c, _, _ := w.runningSites(&seen, Owns(pages))
		must(t, theirs.Create(t.Context(), w.ownedPage("page", "home")))
		natstest.Eventually(t, "created", func() bool { return seen.with("home", OperationSecondary) == 1 })
		setStatus(t, theirs, "page", siteStatus{Note: "on its way"})
		natstest.Eventually(t, "its first status", func() bool { return seen.with("home", OperationSecondary) == 2 })
		setStatus(t, theirs, "page", siteStatus{Ready: true})
		natstest.Eventually(t, "its next status", func() bool { return seen.with("home", OperationSecondary) == 3 })
		p, err := pages.Lister().Get("page")
		must(t, err)
		if !p.Status.Ready {
			t.Error("the owner was woken before the cache has the status")
		}
		must(t, theirs.Delete(t.Context(), "page"))
		natstest.Eventually(t, "its delete", func() bool { return seen.with("home", OperationSecondary) == 4 })
		idle(t, c)
		if n := seen.count("away"); n != 1 {
			t.Errorf("another site was woken %d times: %v", n-1, seen.of("away"))
		}
	})
}

// TestPredicatesSeeTheStatusBeforeAndAfter: a predicate that waits for a transition passes that one and no other.
func TestPredicatesSeeTheStatusBeforeAndAfter(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages, theirs := w.pages(), w.away().pages()
		becomesReady := PredicateFuncs{
			CreateFunc: func(metav1.Object) bool { return false },
			UpdateFunc: func(oldObj, newObj metav1.Object) bool {
				return !oldObj.(*page).Status.Ready && newObj.(*page).Status.Ready
			},
			DeleteFunc: func(obj metav1.Object) bool { return obj.(*page).Status.Ready },
		}
		var seen calls
		var updates atomic.Int32
		c, _, _ := w.runningSites(&seen, Owns(pages, WithPredicate(becomesReady), WithPredicate(PredicateFuncs{
			UpdateFunc: func(metav1.Object, metav1.Object) bool { updates.Add(1); return true },
		})), Watches(pages, func(_ context.Context, p *page) ([]string, error) {
			if p.Name == "last" {
				return []string{"away"}, nil
			}
			return nil, nil
		}))
		woken := func(n int) func() bool {
			return func() bool { return seen.with("home", OperationSecondary) == n }
		}
		// Documents and records are two streams, and of a record that is written twice in a row only the last may be
		// delivered.
		shown := func(status siteStatus) {
			natstest.Eventually(t, "the cache shows it", func() bool {
				p, err := pages.Lister().Get("page")
				return err == nil && p.Status == status
			})
		}
		becomes := func(status siteStatus) {
			setStatus(t, theirs, "page", status)
			shown(status)
		}
		must(t, theirs.Create(t.Context(), w.ownedPage("page", "home")))
		shown(siteStatus{})
		becomes(siteStatus{Note: "on its way"})
		becomes(siteStatus{Ready: true})
		natstest.Eventually(t, "it became ready", woken(1))
		becomes(siteStatus{Ready: true, Note: "still"})
		must(t, theirs.Patch(t.Context(), "page", []byte(`{"spec":{"pages":1}}`)))
		becomes(siteStatus{Note: "no more"})
		becomes(siteStatus{Ready: true})
		natstest.Eventually(t, "it became ready again", woken(2))
		if updates.Load() != 2 {
			t.Errorf("%d updates passed the first predicate, want the two in which it became ready", updates.Load())
		}
		must(t, theirs.Delete(t.Context(), "page"))
		natstest.Eventually(t, "it was deleted while it was ready", woken(3))
		must(t, theirs.Create(t.Context(), w.ownedPage("never", "home")))
		must(t, theirs.Delete(t.Context(), "never"))
		must(t, theirs.Create(t.Context(), named("last")))
		natstest.Eventually(t, "the last event", func() bool { return seen.with("away", OperationTertiary) >= 1 })
		idle(t, c)
		if !woken(3)() {
			t.Errorf("woken by a delete of one that was not ready: %v", seen.of("home"))
		}
	})
}

func TestMapperSeesTheStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages, theirs := w.pages(), w.away().pages()
		var seen calls
		c, _, _ := w.runningSites(&seen, Watches(pages, func(_ context.Context, p *page) ([]string, error) {
			if p.Status.Note == "" {
				return nil, nil
			}
			return []string{p.Status.Note}, nil
		}))
		// An object and its status come by two informers, and one change may wake twice.
		wakes := func(what string, change func(), keys ...string) {
			before := map[string]int{}
			for _, key := range keys {
				before[key] = seen.with(key, OperationTertiary)
			}
			change()
			for _, key := range keys {
				natstest.Eventually(t, what+": "+key, func() bool {
					return seen.with(key, OperationTertiary) > before[key]
				})
			}
			idle(t, c)
		}
		wakes("whom the status names", func() {
			must(t, theirs.Create(t.Context(), named("page")))
			setStatus(t, theirs, "page", siteStatus{Note: "home"})
		}, "home")
		wakes("the same for a change of the document", func() {
			must(t, theirs.Patch(t.Context(), "page", []byte(`{"spec":{"pages":1}}`)))
		}, "home")
		if n := seen.with("away", OperationTertiary); n != 0 {
			t.Errorf("one that it does not name was woken %d times", n)
		}
		wakes("the one it named and the one it names", func() {
			setStatus(t, theirs, "page", siteStatus{Note: "away"})
		}, "home", "away")
	})
}

// TestBookkeepingInASecondarysRecordWakesNobody: its own controller writes its anchor there before each reconcile.
func TestBookkeepingInASecondarysRecordWakesNobody(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages, theirs := w.pages(), w.away().pages()
		var seen calls
		c, _, _ := w.runningSites(&seen, Owns(pages))
		must(t, theirs.Create(t.Context(), w.ownedPage("page", "home")))
		natstest.Eventually(t, "created", func() bool { return seen.with("home", OperationSecondary) == 1 })
		record := &entity.Record{Controller: "pages", DocumentRevision: 1, LastDocument: []byte(`{"spec":{}}`)}
		must(t, theirs.Records().Put(t.Context(), "page", record))
		record.DocumentRevision++
		must(t, theirs.Records().Put(t.Context(), "page", record))
		must(t, theirs.Create(t.Context(), w.ownedPage("last", "away")))
		// or the two events may be one run
		natstest.Eventually(t, "created", func() bool { return seen.with("away", OperationSecondary) == 1 })
		setStatus(t, theirs, "last", siteStatus{Ready: true})
		natstest.Eventually(t, "a status that came later", func() bool {
			return seen.with("away", OperationSecondary) == 2
		})
		idle(t, c)
		if n := seen.with("home", OperationSecondary); n != 1 {
			t.Errorf("woken %d times, want once, when it was created: %v", n, seen.of("home"))
		}
	})
}
