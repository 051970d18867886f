package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// shortSync makes a source that cannot sync known soon, but not before a busy machine has synced the others.
func shortSync() Option { return WithCacheSyncTimeout(5 * time.Second) }

// failed waits for Run to end and returns its error, which it must have.
func (r *running) failed() error {
	r.t.Helper()
	receive(r.t, "Run ends", r.done)
	err := r.err
	r.err = nil // expected, so halt has nothing to say
	if err == nil {
		r.t.Fatal("Run returned nil, want an error")
	}
	return err
}

// says checks that an error names what it is about.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
}

// stillInformer is a Kubernetes informer that nobody starts.
func stillInformer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
}

// started starts the caches of a client, and waits until each has synced or failed. Else shortSync could end while a
// sound cache is still being filled.
func started[T entity.IEntity](w *world, client *entity.Client[T]) *entity.Client[T] {
	w.t.Helper()
	stop, err := client.Start()
	must(w.t, err)
	w.t.Cleanup(stop)
	informers := []natsinformer.Informer{client.Informer()}
	if records := client.Records(); records != nil {
		informers = append(informers, records.Informer())
	}
	for _, i := range informers {
		natstest.Eventually(w.t, "it has synced or failed", func() bool {
			return i.HasSynced() || i.Status().Err != nil
		})
	}
	return client
}

func TestSourceThatDoesNotSyncFailsRunByName(t *testing.T) {
	tests := []struct {
		name  string
		build func(*world) (*Controller[*site], error)
		words []string
	}{
		{"primary", func(w *world) (*Controller[*site], error) {
			sites := w.sites()
			must(w.t, w.js.DeleteKeyValue(w.t.Context(), "sites"))
			return New("sites", started(w, sites), noReconciler, shortSync())
		}, []string{"not synced: primary Site (bucket sites)", "not found"}},
		{"secondary", func(w *world) (*Controller[*site], error) {
			sites, pages := w.sites(), w.pages()
			must(w.t, w.js.DeleteKeyValue(w.t.Context(), "pages"))
			return New("sites", started(w, sites), noReconciler, Owns(started(w, pages)), shortSync())
		}, []string{"not synced: Owns Page (bucket pages)", "not found"}},
		{"status of a secondary", func(w *world) (*Controller[*site], error) {
			sites, pages := w.sites(), w.pages()
			must(w.t, w.js.DeleteKeyValue(w.t.Context(), "pages-status"))
			return New("sites", started(w, sites), noReconciler, Owns(started(w, pages)), shortSync())
		}, []string{"not synced: Owns Page (bucket pages)", "pages-status", "not found"}},
		{"tertiary", func(w *world) (*Controller[*site], error) {
			sites, pages := w.sites(), w.pages()
			must(w.t, w.js.DeleteKeyValue(w.t.Context(), "pages"))
			return New("sites", started(w, sites), noReconciler, Watches(started(w, pages), noPages), shortSync())
		}, []string{"not synced: Watches Page (bucket pages)"}},
		{"status of the primary", func(w *world) (*Controller[*site], error) {
			sites := w.sites()
			must(w.t, w.js.DeleteKeyValue(w.t.Context(), "sites-status"))
			return New("sites", started(w, sites), noReconciler, shortSync())
		}, []string{"status bucket sites-status", "did not sync in time"}},
		{"informer that nobody started", func(w *world) (*Controller[*site], error) {
			sites, pages := started(w, w.sites()), started(w, w.pages())
			return New("sites", sites, noReconciler, Owns(pages), WatchesKube(stillInformer(), noObjects), shortSync())
		}, []string{"not synced: WatchesKube PartialObjectMetadata (informer 2)"}},
		{"all that are missing", func(w *world) (*Controller[*site], error) {
			sites := started(w, w.sites())
			owns, watches := OwnsKube(stillInformer()), WatchesKube(stillInformer(), noObjects)
			return New("sites", sites, noReconciler, owns, watches, shortSync())
		}, []string{"not synced: ", "OwnsKube PartialObjectMetadata (informer 1) (the informer was not started",
			"WatchesKube PartialObjectMetadata (informer 2) (the informer was not started"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c, err := test.build(w)
				must(t, err)
				says(t, w.run(c).failed(), append(test.words, `controller "sites"`, "WithCacheSyncTimeout")...)
			})
		})
	}
}

func TestInformerThatHasBeenStoppedFailsRunByName(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		informer := stillInformer()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		informer.RunWithContext(ended)
		c, err := New("sites", w.sites(), noReconciler, OwnsKube(informer))
		must(t, err)
		says(t, w.run(c).failed(), `controller "sites"`, "OwnsKube PartialObjectMetadata (informer 1)", "stopped already",
			"give the controller a new one")
	})
}

func TestCancelDuringTheSyncIsNoError(t *testing.T) {
	reason := errors.New("the operator said so")
	for _, test := range []struct {
		name  string
		build func(*world) (*Controller[*site], error)
	}{
		{"while sources sync", func(w *world) (*Controller[*site], error) {
			return New("sites", w.sites(), noReconciler, OwnsKube(stillInformer()))
		}},
		{"while the status bucket does not answer", func(w *world) (*Controller[*site], error) {
			sites := w.sites()
			must(w.t, w.js.DeleteKeyValue(w.t.Context(), "sites-status"))
			return New("sites", sites, noReconciler)
		}},
		{"while a bucket is missing", func(w *world) (*Controller[*site], error) {
			sites := w.sites()
			must(w.t, w.js.DeleteKeyValue(w.t.Context(), "sites"))
			return New("sites", sites, noReconciler, WithoutTeardown())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c, err := test.build(w)
				must(t, err)
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- c.Run(ctx) }()
				natstest.Eventually(t, "Run has begun", func() bool { return c.Explain("home").State != StateStopped })
				cancel(reason)
				if err := receive(t, "Run ends", ended); err != nil {
					t.Errorf("Run: %v, want nil", err)
				}
			})
		})
	}
	t.Run("before it began", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c, err := New("sites", w.sites(), noReconciler)
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			must(t, c.Run(ctx))
		})
	})
	t.Run("by a deadline", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			c, err := New("sites", w.sites(), noReconciler, OwnsKube(stillInformer()))
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			must(t, c.Run(ctx))
		})
	})
}

func TestSecondRunIsAnError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil))
		must(t, err)
		r := w.run(c)
		natstest.Eventually(t, "it runs", func() bool { return c.Stats().Leading })
		again := func(when string) {
			t.Helper()
			err := c.Run(t.Context())
			if err == nil {
				t.Fatalf("a second Run %s is no error", when)
			}
			says(t, err, `controller "sites"`, "runs once", "make a new one")
		}
		again("while the first runs")
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "the first still works", func() bool { return seen.count("home") == 1 })
		r.halt()
		again("after the first")
	})
}

func TestNoReconcileBeforeEveryHandlerSawTheWholeInitialList(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages, themes := w.sites(), w.pages(), w.client("Theme", "themes")
		const each = 20
		for n := range each {
			name := fmt.Sprint("n-", n)
			must(t, sites.Create(t.Context(), newSite(name, "one")))
			must(t, pages.Create(t.Context(), newSite(name, "one")))
			must(t, themes.Create(t.Context(), newSite(name, "one")))
		}
		release := make(chan struct{})
		var begun, mapped, early atomic.Int32
		look := func(ctx context.Context) {
			if begun.Add(1) == 2*each { // the last of all, of whichever source
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			mapped.Add(1)
		}
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(context.Context, Request) (Result, error) {
			if mapped.Load() < 2*each {
				early.Add(1)
			}
			return Result{}, nil
		}), WithWorkers(4),
			Watches(pages, func(ctx context.Context, _ *page) ([]string, error) { look(ctx); return nil, nil }),
			Watches(themes, func(ctx context.Context, _ *theme) ([]string, error) { look(ctx); return nil, nil }))
		must(t, err)
		c.Enqueue("n-0", OperationManual)
		w.run(c)
		natstest.Eventually(t, "all but the last object were seen, and the primaries wait", func() bool {
			n := c.engine.QueueCounts()
			return mapped.Load() == 2*each-1 && n.Ready[queue.BandBackground] == each-1 && n.Ready[queue.BandLive] == 1
		})
		if s := c.Stats(); s.Reconciles != 0 || s.Running != 0 || s.Leading {
			t.Errorf("%d reconciles, %d running, leading %v, before the last object was seen", s.Reconciles, s.Running,
				s.Leading)
		}
		close(release)
		natstest.Eventually(t, "every primary is reconciled", func() bool {
			for n := range each {
				if seen.count(fmt.Sprint("n-", n)) == 0 {
					return false
				}
			}
			return true
		})
		if n := early.Load(); n != 0 {
			t.Errorf("%d reconciles before every handler saw the whole initial list", n)
		}
	})
}

func TestSourceThatFailsLaterDegradesAndTheRestGoesOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		type news struct {
			source string
			err    error
		}
		told := make(chan news, 100)
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithOnSourceError(func(source string, err error) {
			told <- news{source, err}
			panic("a callback that panics stops nothing")
		}))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it runs", func() bool { return c.Stats().Leading })
		const name = "Owns Page (bucket pages)"
		must(t, w.js.DeleteKeyValue(t.Context(), "pages"))
		natstest.Eventually(t, "the source is degraded", func() bool { return c.Stats().Degraded[name] != nil })
		first := receive(t, "the callback", told)
		for first.source != name { // another source may have been away for a moment
			first = receive(t, "the callback about the source", told)
		}
		if first.err == nil {
			t.Error("the callback is told that the source works, before that it does not")
		}
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "primaries are reconciled all the same", func() bool {
			return seen.with("home", OperationPut) == 1
		})
		again := w.client("Page", "pages") // makes the bucket anew
		natstest.Eventually(t, "the source works again", func() bool { return len(c.Stats().Degraded) == 0 })
		p := newSite("page", "one")
		c.SetOwner(p, "home")
		must(t, again.Create(t.Context(), p))
		natstest.Eventually(t, "and is heard", func() bool { return seen.with("home", OperationSecondary) == 1 })
		var last news
		natstest.Eventually(t, "the callback is told that it works again", func() bool {
			select {
			case last = <-told:
			default:
			}
			return last.source == name && last.err == nil
		})
	})
}
