package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// events records what an event recorder is told.
type events struct {
	mu  sync.Mutex
	all []event
}

type event struct{ kind, object, eventType, reason, message string }

func (e *events) Event(object runtime.Object, eventType, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kind := object.GetObjectKind().GroupVersionKind().Kind
	e.all = append(e.all, event{kind, object.(metav1.Object).GetName(), eventType, reason, message})
}

// with returns the events of a reason, in order.
func (e *events) with(reason string) (found []event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if one.reason == reason {
			found = append(found, one)
		}
	}
	return found
}

// slowed waits until a reconcile that wakes itself is told of and slowed down, and returns the event.
func slowed(t *testing.T, told *events, seen *calls, c *Controller[*site]) event {
	t.Helper()
	natstest.Eventually(t, "an event tells of the loop", func() bool { return len(told.with("ReconcileLoop")) > 0 })
	if n := c.Stats().Looping; n != 1 {
		t.Errorf("%d keys loop, want 1", n)
	}
	natstest.Eventually(t, "it comes to rest", func() bool {
		before := seen.count("home")
		time.Sleep(300 * time.Millisecond)
		return seen.count("home")-before <= 1
	})
	loops := told.with("ReconcileLoop")
	if len(loops) != 1 || loops[0].object != "home" || loops[0].kind != "Site" || loops[0].eventType != "Warning" {
		t.Errorf("the events are %v, want one about the primary", loops)
	}
	if n := c.Stats().Loops; n != 1 {
		t.Errorf("%d loops were counted, want 1", n)
	}
	return loops[0]
}

// everNew reconciles a site to a page that has another title each time.
func everNew(pages *entity.Client[*page]) func(context.Context, Request) (Result, error) {
	var n atomic.Int64
	return func(ctx context.Context, _ Request) (Result, error) {
		_, err := CreateOrUpdate(ctx, pages, newPage("home-page", ""), func(p *page) error {
			p.Spec.Title = fmt.Sprintf("secret-%d", n.Add(1))
			return nil
		})
		return Result{}, err
	}
}

func TestASecondaryThatChangesWithEachReconcileIsToldAndSlowedDownUntilSomebodyElseChangesSomething(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		var told events
		var seen calls
		c, err := New("sites", sites, seen.reconciler(everNew(pages)), Owns(pages), WithEventRecorder(&told))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		loop := slowed(t, &told, &seen, c)
		if !strings.Contains(loop.message, `spec.title of Page "home-page"`) || strings.Contains(loop.message, "secret") {
			t.Errorf("the event says %q, want the object and the path, and no value", loop.message)
		}

		puts := seen.with("home", OperationPut)
		must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"two"}}`)))
		natstest.Eventually(t, "a change of the primary is reconciled", func() bool {
			return seen.with("home", OperationPut) > puts
		})
		natstest.Eventually(t, "the loop goes on, and is told once more", func() bool {
			return len(told.with("ReconcileLoop")) == 2
		})

		other := w.pages() // of another process
		natstest.Eventually(t, "somebody else changes the secondary", func() bool {
			err := other.Patch(t.Context(), "home-page", []byte(`{"spec":{"pages":7}}`))
			if !apierrors.IsConflict(err) { // the loop writes it, too
				must(t, err)
			}
			return err == nil
		})
		natstest.Eventually(t, "which counts as a change: it loops as before, and is noticed", func() bool {
			return c.Stats().Loops == 3
		})
	})
}

// TestAReconcileThatWakesItselfIsToldAndSlowedDown, and reconciles at once what somebody asks for.
func TestAReconcileThatWakesItselfIsToldAndSlowedDown(t *testing.T) {
	type reconcile = func(*entity.Client[*site], *calls) ReconcilerFunc
	for says, reconcile := range map[string]reconcile{
		`spec.pages of Site "home"`: func(sites *entity.Client[*site], seen *calls) ReconcilerFunc {
			return func(ctx context.Context, req Request) (Result, error) {
				return Result{}, sites.Patch(ctx, req.Key, fmt.Appendf(nil, `{"spec":{"pages":%d}}`, seen.count(req.Key)))
			}
		},
		"RequeueAfter": func(*entity.Client[*site], *calls) ReconcilerFunc {
			return func(context.Context, Request) (Result, error) { return Result{RequeueAfter: 1}, nil }
		},
	} {
		t.Run(says, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				var told events
				var seen calls
				c, err := New("sites", sites, seen.reconciler(reconcile(sites, &seen)), WithEventRecorder(&told))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("home", "one")))
				if loop := slowed(t, &told, &seen, c); !strings.Contains(loop.message, says) {
					t.Errorf("the event says %q, want what wakes it", loop.message)
				}
				c.Enqueue("home", OperationManual)
				natstest.Eventually(t, "a request by hand is reconciled at once", func() bool {
					return seen.with("home", OperationManual) == 1
				})
			})
		})
	}
}

// TestTheControllerOfASecondaryIsSomebodyElse: it writes the status as often as it likes, and the owner hears of each.
func TestTheControllerOfASecondaryIsSomebodyElse(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		var told events
		var seen calls
		const steps = 40
		c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			// It goes one step further when the other controller has done the last one.
			_, err := CreateOrUpdate(ctx, pages, newPage("log", ""), func(p *page) error {
				if p.Spec.Pages == 0 || p.Spec.Pages < steps && p.Status.Note == fmt.Sprint(p.Spec.Pages) {
					p.Spec.Pages++
				}
				return nil
			})
			return Result{}, err
		}), Owns(pages), WithEventRecorder(&told))
		must(t, err)
		// The other controller works on the same page whenever the first one has written it.
		other := w.pages()
		var status calls
		d, err := New("pages", other, status.reconciler(func(ctx context.Context, req Request) (Result, error) {
			p, err := other.Lister().Get(req.Key)
			if err != nil {
				return Result{}, err
			}
			p.Status.Note = fmt.Sprint(p.Spec.Pages)
			return Result{}, SetStatus(ctx, p)
		}))
		must(t, err)
		w.run(d)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "both go on as fast as they can", func() bool {
			p, err := pages.Lister().Get("log")
			return err == nil && p.Spec.Pages == steps
		})
		if loops := told.with("ReconcileLoop"); len(loops) != 0 {
			t.Errorf("told %v, though another controller is in it", loops)
		}
	})
}

// TestWhatIsSuspendedLoopsNoMore: that is what an operator does about a loop.
func TestWhatIsSuspendedLoopsNoMore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		c, err := New("sites", sites, ReconcilerFunc(everNew(pages)), Owns(pages))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "it loops", func() bool { return c.Stats().Looping == 1 })
		must(t, sites.Patch(t.Context(), "home", []byte(`{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)))
		natstest.Eventually(t, "it loops no more", func() bool { return c.Stats().Looping == 0 })
	})
}
