package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/taking"
	"k8s.io/client-go/tools/record"
)

// inside runs functions in reconciles of the site "home".
type inside struct {
	t     *testing.T
	c     *Controller[*site]
	calls chan func(context.Context)
}

func (w *world) inside(sites *entity.Client[*site], opts ...Option) *inside {
	w.t.Helper()
	i := &inside{t: w.t, calls: make(chan func(context.Context), 1)}
	c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		select {
		case call := <-i.calls:
			call(ctx)
		default:
		}
		return Result{}, nil
	}), opts...)
	must(w.t, err)
	i.c = c
	w.run(c)
	must(w.t, sites.Create(w.t.Context(), newSite("home", "")))
	return i
}

// do calls f in a reconcile, and returns its error.
func (i *inside) do(f func(context.Context) error) error {
	i.t.Helper()
	done := make(chan error, 1)
	i.calls <- func(ctx context.Context) { done <- f(ctx) }
	i.c.Enqueue("home", OperationManual)
	return receive(i.t, "the reconcile", done)
}

// TestWhatExistsIsTakenOnlyWhereAnOptionSaysSo, inside and outside of a reconcile: the table of who may write what.
func TestWhatExistsIsTakenOnlyWhereAnOptionSaysSo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		in := w.inside(sites, Owns(pages))
		must(t, in.do(func(context.Context) error { return nil }))
		for n, c := range taking.Cases() {
			for _, where := range []string{"inside", "outside, named before", "outside, named by mutate"} {
				name := strings.ReplaceAll(where, ", ", "-") + string(rune('a'+n%26)) + string(rune('a'+n/26))
				if err := in.takes(w, pages, strings.ReplaceAll(name, " ", "-"), c, where); err != nil {
					t.Errorf("%s, %s: %v", c.Name, where, err)
				}
			}
		}
	})
}

// takes plays one case with a page of a name, and returns what is not as it should be.
func (i *inside) takes(w *world, pages *entity.Client[*page], name string, c taking.Case, where string) error {
	i.t.Helper()
	instance := i.c.Instance()
	var theirs map[string]any
	if !c.Absent {
		p := newPage(name, "theirs")
		c.Mark(p, instance)
		w.put("pages", name, withUnknown(i.t, p))
		theirs = w.raw("pages", name)
	}
	write := func(ctx context.Context) error {
		obj := named(name)
		if where == "outside, named before" {
			i.c.SetOwner(obj, taking.Key)
		}
		_, err := CreateOrUpdateWith(ctx, pages, obj, func(p *page) error {
			if where == "outside, named by mutate" {
				i.c.SetOwner(p, taking.Key)
			}
			p.Spec.Title = "mine"
			return nil
		}, writeOptions(c.Option)...)
		return err
	}
	var err error
	if where == "inside" {
		err = i.do(write)
	} else {
		err = write(i.t.Context())
	}
	if got := taking.OutcomeOf(err); got != c.Want {
		return fmt.Errorf("%s, want %s: %w", got, c.Want, err)
	}
	if c.Want != taking.Written {
		if now := w.raw("pages", name); !reflect.DeepEqual(now, theirs) {
			return fmt.Errorf("it is refused, and is now %v", now)
		}
		return nil
	}
	p, err := pages.Get(i.t.Context(), name)
	switch {
	case err != nil:
		return err
	case p.Spec.Title != "mine" || !entity.IsOwnedBy(p, taking.Kind, taking.Key) || entity.InstanceOf(p) != instance:
		return fmt.Errorf("it is %+v of %v", p.Spec, p.Annotations)
	case !c.Absent && p.Spec.Pages != 7:
		return fmt.Errorf("what mutate left is %+v", p.Spec)
	}
	return nil
}

func writeOptions(option taking.Option) []WriteOption {
	switch option {
	case taking.Adopt:
		return []WriteOption{WithAdopt()}
	case taking.HandOver:
		return []WriteOption{WithHandOverFrom(taking.Kind, taking.Other)}
	}
	return nil
}

// withUnknown is the document of a page that has more than mutate sets.
func withUnknown(t *testing.T, p *page) string {
	t.Helper()
	p.Spec.Pages = 7
	data, err := json.Marshal(p)
	must(t, err)
	return string(data)
}

// TestMutateMovesNothing: inside of a reconcile an own entity stays the primary's, and the error says how it is moved.
func TestMutateMovesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		events := record.NewFakeRecorder(100)
		in := w.inside(sites, Owns(pages), WithEventRecorder(butLease{events}))
		move := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := CreateOrUpdate(ctx, pages, named(name), func(p *page) error {
					in.c.SetOwner(p, "another")
					return nil
				})
				return err
			}
		}
		must(t, in.do(func(ctx context.Context) error {
			_, err := CreateOrUpdate(ctx, pages, named("mine"), titled("mine"))
			return err
		}))
		for _, name := range []string{"mine", "new"} {
			err := in.do(move(name))
			owned, ok := errors.AsType[*AlreadyOwnedError](err)
			if !ok || owned.OwnerKey != "home" || owned.WantedKey != "another" {
				t.Fatalf("%s: %v, want an AlreadyOwnedError", name, err)
			}
			says(t, err, "WithHandOverFrom")
		}
		if p, err := pages.Get(t.Context(), "mine"); err != nil || !entity.IsOwnedBy(p, "Site", "home") {
			t.Errorf("it is of %v, %v", p.Annotations, err)
		}
		if w.raw("pages", "new") != nil {
			t.Error("a page was created all the same")
		}
	})
}

// TestAToolChangesWhatItDoesNotOwn: outside of a reconcile, who names no owner changes what is there, leaves its owner,
// and may give it up.
func TestAToolChangesWhatItDoesNotOwn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		must(t, pages.Create(t.Context(), foreignPage("page", "home")))
		createOrUpdateIs(t, pages, named("page"), titled("edited"), OperationResultUpdated)
		p, err := pages.Get(t.Context(), "page")
		must(t, err)
		if p.Spec.Title != "edited" || !entity.IsOwnedBy(p, "Site", "home") {
			t.Errorf("it is %+v of %v", p.Spec, p.Annotations)
		}
		createOrUpdateIs(t, pages, named("page"), func(p *page) error {
			p.Labels, p.Annotations = nil, nil
			return nil
		}, OperationResultUpdated)
		if p, err = pages.Get(t.Context(), "page"); err != nil || entity.IsOwnedBy(p, "Site", "home") {
			t.Errorf("it is still of %v, %v", p.Annotations, err)
		}
	})
}

// TestARefusalIsToldOnce, and again when something else is in the way.
func TestARefusalIsToldOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		must(t, pages.Create(t.Context(), foreignPage("home", "elsewhere")))
		events := record.NewFakeRecorder(1000)
		var attempts atomic.Int64
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			attempts.Add(1)
			_, err := CreateOrUpdate(ctx, pages, named(req.Key), titled("ours"))
			return Result{}, err
		}), WithEventRecorder(butLease{events}), WithBackoff(time.Millisecond, 5*time.Millisecond))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		told := func(reason string) {
			t.Helper()
			if event := receive(t, "the event", events.Events); !strings.HasPrefix(event, "Warning "+reason+" ") {
				t.Fatalf("the event is %q, want %s", event, reason)
			}
			before := attempts.Load()
			natstest.Eventually(t, "it is tried again", func() bool { return attempts.Load() > before+20 })
			select {
			case event := <-events.Events:
				t.Fatalf("it is told again: %q", event)
			default:
			}
		}
		told(ReasonAlreadyOwned)
		p, err := pages.Get(t.Context(), "home")
		must(t, err)
		p.Labels, p.Annotations = nil, nil
		must(t, pages.Update(t.Context(), p))
		told(ReasonResourceExists)
		natstest.Eventually(t, "the condition says why", func() bool {
			record, err := sites.Record(t.Context(), "home")
			return err == nil && len(record.Conditions) == 1 &&
				strings.Contains(record.Conditions[0].Message, "names no owner")
		})
	})
}

// TestAPrimaryWakesWhenTheNameIsFree: it does not wait for its backoff.
func TestAPrimaryWakesWhenTheNameIsFree(t *testing.T) {
	for name, free := range map[string]func(*testing.T, *entity.Client[*page]){
		"deleted": func(t *testing.T, pages *entity.Client[*page]) { must(t, pages.Delete(t.Context(), "home")) },
		"purged": func(t *testing.T, pages *entity.Client[*page]) {
			must(t, pages.Delete(t.Context(), "home", entity.Purge()))
		},
		"given to it": func(t *testing.T, pages *entity.Client[*page]) {
			p, err := pages.Get(t.Context(), "home")
			must(t, err)
			entity.SetOwner(p, "Site", "home", "")
			must(t, pages.Update(t.Context(), p))
		},
	} {
		for standing, p := range map[string]*page{
			"nobody's": newPage("home", "theirs"), "another's": foreignPage("home", "elsewhere"),
		} {
			t.Run(standing+", "+name, func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					sites, pages := w.sites(), w.pages()
					must(t, pages.Create(t.Context(), p.DeepCopyObject().(*page)))
					outcome := make(chan error, 1000)
					c, err := New("sites", sites, homePage(pages, outcome), Watches(pages,
						func(context.Context, *page) ([]string, error) { return nil, nil }),
						WithBackoff(time.Hour, time.Hour))
					must(t, err)
					w.run(c)
					must(t, sites.Create(t.Context(), newSite("home", "")))
					if err := receive(t, "the reconcile", outcome); err == nil {
						t.Fatal("it was taken over")
					}
					free(t, pages)
					must(t, receive(t, "the reconcile once the name is free", outcome))
					eventuallyReason(t, sites, "home", entity.ReasonSynced)
				})
			})
		}
	}
}

// TestAPrimaryLooksOnceMoreWhenItBeginsToWait: the name may have become free before it was waited for, and no event
// will tell.
func TestAPrimaryLooksOnceMoreWhenItBeginsToWait(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		must(t, pages.Create(t.Context(), foreignPage("home", "elsewhere")))
		leaving := leavingClient{pages, make(chan struct{}, 1)}
		leaving.reads <- struct{}{}
		outcome := make(chan error, 1000)
		c, err := New("sites", sites, homePage(leaving, outcome), Owns(pages), WithBackoff(time.Hour, time.Hour))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, receive(t, "the reconcile", outcome))
	})
}

// leavingClient deletes an entity right after it was first read live.
type leavingClient struct {
	*entity.Client[*page]
	reads chan struct{}
}

func (c leavingClient) Get(ctx context.Context, key string) (*page, error) {
	p, err := c.Client.Get(ctx, key)
	select {
	case <-c.reads:
		err = errors.Join(err, c.Client.Delete(ctx, key))
	default:
	}
	return p, err
}
