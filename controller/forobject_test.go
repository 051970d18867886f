package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAReconcilerIsGivenTheObject: a copy with its status while it exists, and the last one once it is gone.
func TestAReconcilerIsGivenTheObject(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var told toldOf[string]
		r := ForObject(func(ctx context.Context, s *site) (Result, error) {
			told.add(fmt.Sprintf("%s %q %q", s.Name, s.Spec.Title, s.Status.Note))
			s.Status.Note = "seen " + s.Spec.Title
			err := SetStatus(ctx, s)
			s.Spec.Title = "scribbled upon"
			return Result{}, err
		}).WhenDeleted(func(_ context.Context, last *site) (Result, error) {
			told.add(fmt.Sprintf("gone %s %q", last.Name, last.Spec.Title))
			return Result{}, nil
		})
		c, err := New("sites", sites, r, WithResyncInterval(0))
		must(t, err)
		w.run(c)
		ctx := t.Context()
		must(t, sites.Create(ctx, newSite("home", "one")))
		time.Sleep(time.Second)
		must(t, sites.Patch(ctx, "home", []byte(`{"spec":{"title":"two"}}`)))
		time.Sleep(time.Second)
		must(t, sites.Delete(ctx, "home"))
		c.Enqueue("never", OperationManual) // it is not there, and nothing is known of it
		time.Sleep(time.Second)
		want := []string{`home "one" ""`, `home "two" "seen one"`, `gone home "two"`}
		if got := told.all(); strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("it was given %q, want %q", got, want)
		}
		if s := c.Stats(); s.TornDown != 2 || s.Failures != 0 { // never, too
			t.Errorf("torn down %d, failed %d", s.TornDown, s.Failures)
		}
	})
}

// TestAnErrorSaysWhenItsKeyIsDueAgain: never, after a time of its own, or after the backoff.
func TestAnErrorSaysWhenItsKeyIsDueAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var mu sync.Mutex // guards both
		began := map[string][]time.Time{}
		ids := map[string]bool{}
		r := ForObject(func(ctx context.Context, s *site) (Result, error) {
			mu.Lock()
			defer mu.Unlock()
			began[s.Name] = append(began[s.Name], time.Now())
			ids[ReconcileIDFromContext(ctx)] = true
			return Result{}, errors.New("the world is unwell")
		}).OnError(func(_ context.Context, s *site, err error) error {
			switch s.Spec.Title {
			case "never":
				return TerminalError(err)
			case "after":
				return fmt.Errorf("wrapped: %w", RetryAfter(err, 7*time.Second))
			case "both":
				return RetryAfter(TerminalError(err), time.Second)
			case "nothing":
				return nil
			}
			return RetryAfter(err, 0)
		})
		c, err := New("sites", sites, r, WithResyncInterval(0), WithBackoff(time.Minute, time.Minute),
			WithErrorPolicy(func(key string, _ error, _ int) Result {
				if key == "nothing" {
					return Result{RequeueAfter: 10 * time.Second}
				}
				return Result{RequeueAfter: time.Duration(-1)}
			}))
		must(t, err)
		w.run(c)
		for _, name := range []string{"never", "after", "both", "nothing", "backoff"} {
			must(t, sites.Create(t.Context(), newSite(name, name)))
		}
		time.Sleep(30 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		for name, want := range map[string]time.Duration{"after": 7 * time.Second, "nothing": 10 * time.Second} {
			for i, at := range began[name][1:] {
				if got := at.Sub(began[name][i]); got != want {
					t.Errorf("%s was tried again after %v", name, got)
				}
			}
		}
		if len(began["never"]) != 1 || len(began["both"]) != 1 || len(began["backoff"]) != 1 || len(began["after"]) != 5 {
			t.Errorf("attempts: %d, %d, %d, %d", len(began["never"]), len(began["both"]), len(began["backoff"]),
				len(began["after"]))
		}
		if e := c.Explain("after"); !strings.Contains(e.Error, "wrapped: the world is unwell") || e.Failures != 5 {
			t.Errorf("%+v", e)
		}
		if all := len(began["never"]) + len(began["both"]) + len(began["backoff"]) + len(began["after"]) +
			len(began["nothing"]); len(ids) != all || ids[""] {
			t.Errorf("%d attempts have %d ids", all, len(ids))
		}
	})
}

// TestADocumentThatIsBackIsNotTakenForOneThatIsGone, though its delete is among the reasons.
func TestADocumentThatIsBackIsNotTakenForOneThatIsGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		got := make(chan string, 1)
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) { return Result{}, nil }))
		must(t, err)
		r, err := c.bound(ForObject(func(_ context.Context, s *site) (Result, error) {
			got <- "reconciled " + s.Name
			return Result{}, nil
		}).WhenDeleted(func(_ context.Context, s *site) (Result, error) {
			got <- "cleaned up after " + s.Name
			return Result{}, nil
		}))
		must(t, err)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		_, err = r.Reconcile(t.Context(), Request{Key: "home", Operations: operation.Of(OperationDelete)})
		must(t, err)
		if got := <-got; got != "reconciled home" {
			t.Error(got)
		}
		// It comes back after the cache has shown that it is gone, and before the last one is asked for.
		behind := *c
		behind.client = goneClient{sites}
		bound := *r.(*ObjectReconciler[*site])
		bound.of = &behind
		if _, err := bound.Reconcile(t.Context(), Request{Key: "home", Operations: operation.Of(operation.Delete)}); err != nil {
			t.Error(err)
		}
		select {
		case got := <-got:
			t.Error(got)
		default:
		}
	})
}

// goneClient has a cache that shows nothing.
type goneClient struct{ entity.IEntityClient[*site] }

func (c goneClient) Lister() entity.Lister[*site] { return goneLister{c.IEntityClient.Lister()} }

type goneLister struct{ entity.Lister[*site] }

func (goneLister) Get(key string) (*site, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, key)
}

func TestAReconcilerOfObjectsIsForItsPrimary(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		other := ForObject(func(context.Context, *entity.None) (Result, error) { return Result{}, nil })
		for says, r := range map[string]Reconciler{
			"ForObject is for *entity.None":     other,
			"ForObject(nil)":                    ForObject[*site](nil),
			"the reconciler is nil":             (*ObjectReconciler[*site])(nil),
			"does not know where to read home:": nil,
		} {
			var err error
			if r != nil {
				_, err = New("sites", sites, r)
			} else {
				_, err = other.Reconcile(t.Context(), Request{Key: "home", Operations: 1})
			}
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		if RetryAfter(nil, time.Second) != nil || ReconcileIDFromContext(t.Context()) != "" {
			t.Error("an error of nothing, or an id")
		}
	})
}
