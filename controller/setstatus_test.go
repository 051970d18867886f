package controller

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// changingStatus is a reconciler that sets what change makes of the status of each primary.
func changingStatus(
	sites *entity.Client[*site], change func(ctx context.Context, s *site) error, result func() error,
) ReconcilerFunc {
	return func(ctx context.Context, req Request) (Result, error) {
		s, err := sites.Lister().Get(req.Key)
		if err != nil {
			return Result{}, err
		}
		if err := errors.Join(change(ctx, s), SetStatus(ctx, s)); err != nil {
			return Result{}, err
		}
		return Result{}, result()
	}
}

// settingNote sets the note.
func settingNote(sites *entity.Client[*site], note func() string, result func() error) ReconcilerFunc {
	return changingStatus(sites, func(_ context.Context, s *site) error {
		s.Status.Note = note()
		return nil
	}, result)
}

func done() error { return nil }

// TestSetStatusIsWrittenWithTheOutcome watches everything that is sent to a record: an anchor, then status and
// outcome at once, whether the reconcile succeeded or not, and nothing more when a reconcile changes nothing.
func TestSetStatusIsWrittenWithTheOutcome(t *testing.T) {
	for reason, outcome := range map[string]error{
		entity.ReasonSynced:   nil,
		entity.ReasonTerminal: TerminalError(errors.New("bad")),
		entity.ReasonRetrying: errors.New("not yet"),
	} {
		t.Run(reason, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				sent := make(chan *nats.Msg, 100)
				sub, err := w.js.Conn().ChanSubscribe("$KV.sites-status.home", sent)
				must(t, err)
				t.Cleanup(func() { _ = sub.Unsubscribe() })
				must(t, w.js.Conn().Flush())
				var seen calls
				note, result := func() string { return "seen" }, func() error { return outcome }
				c, err := New("sites", sites, seen.reconciler(settingNote(sites, note, result)),
					WithResyncInterval(0), WithBackoff(time.Millisecond, time.Millisecond))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("home", "one")))
				eventuallyReason(t, sites, "home", reason)
				s, err := sites.Get(t.Context(), "home")
				must(t, err)
				if s.Status.Note != "seen" {
					t.Errorf("status %+v beside the outcome", s.Status)
				}
				before := seen.count("home")
				c.Enqueue("home", OperationManual)
				natstest.Eventually(t, "a second reconcile", func() bool { return seen.count("home") > before })
				natstest.Eventually(t, "what it sent would have been seen", func() bool {
					must(t, w.js.Conn().Publish("$KV.sites-status.home", []byte("{}")))
					return len(sent) > 2
				})
				var anchor, both entity.Record
				must(t, json.Unmarshal((<-sent).Data, &anchor))
				must(t, json.Unmarshal((<-sent).Data, &both))
				if !anchor.Anchor() || len(anchor.Status) > 0 || len(anchor.Conditions) > 0 {
					t.Errorf("the first record is no bare anchor: %+v", anchor)
				}
				if len(both.Conditions) != 1 || both.Conditions[0].Reason != reason ||
					!strings.Contains(string(both.Status), "seen") || both.StatusRevision != 1 ||
					len(both.LastDocument) == 0 {
					t.Errorf("status and outcome are not together: %+v", both)
				}
				if third := <-sent; string(third.Data) != "{}" {
					t.Errorf("one record more was sent: %s", third.Data)
				}
			})
		})
	}
}

// TestSetStatusLeavesWhatAnotherHasUpdated since it was read: the primary is reconciled again, and sees it; also
// where the reconcile ends with a terminal error, which else would park it.
func TestSetStatusLeavesWhatAnotherHasUpdated(t *testing.T) {
	for reason, outcome := range map[string]error{entity.ReasonSynced: nil,
		entity.ReasonTerminal: TerminalError(errors.New("bad"))} {
		t.Run(reason, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				ctx := t.Context()
				other := w.away().sites()
				var interfere atomic.Bool
				var seen calls
				interfere.Store(true)
				change := func(ctx context.Context, s *site) error {
					s.Status.Note = "ours"
					if !interfere.Swap(false) {
						return nil
					}
					return markReady(ctx, other, s.Name)
				}
				result := func() error { return outcome }
				c, err := New("sites", sites, seen.reconciler(changingStatus(sites, change, result)),
					WithResyncInterval(0), WithBackoff(time.Millisecond, 10*time.Millisecond))
				must(t, err)
				w.run(c)
				must(t, sites.Create(ctx, newSite("home", "one")))
				natstest.Eventually(t, "both statuses are there", func() bool {
					s, err := sites.Get(ctx, "home")
					return err == nil && s.Status.Ready && s.Status.Note == "ours"
				})
				eventuallyReason(t, sites, "home", reason)
				if n := seen.count("home"); n < 2 {
					t.Errorf("reconciled %d times, and knows of a status that came in between", n)
				}
			})
		})
	}
}

// markReady is another writer of a status.
func markReady(ctx context.Context, other *entity.Client[*site], key string) error {
	theirs, err := other.Get(ctx, key)
	if err != nil {
		return err
	}
	theirs.Status.Ready = true
	return other.UpdateStatus(ctx, theirs)
}

// TestSetStatusOfWhatWasReadLive knows more than the cache does, which is no reason to refuse it.
func TestSetStatusOfWhatWasReadLive(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		other := w.away().sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			if err := markReady(ctx, other, req.Key); err != nil {
				return Result{}, err
			}
			s, err := sites.Get(ctx, req.Key)
			if err != nil {
				return Result{}, err
			}
			s.Status.Note = "ours"
			return Result{}, SetStatus(ctx, s)
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		s, err := sites.Get(ctx, "home")
		must(t, err)
		if !s.Status.Ready || s.Status.Note != "ours" || seen.count("home") != 1 {
			t.Errorf("status %+v after %d reconciles", s.Status, seen.count("home"))
		}
	})
}

// TestSetStatusWhereNothingIsRecordedWritesAtOnce is about controllers without teardown, and reconciles of a delete.
func TestSetStatusWhereNothingIsRecordedWritesAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		notes := make(chan string, 10)
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			s, err := sites.Lister().Get(req.Key)
			if err != nil {
				return Result{}, err
			}
			s.Status.Note = "at once"
			if err := SetStatus(ctx, s); err != nil {
				return Result{}, err
			}
			stored, err := sites.Get(ctx, req.Key)
			if err != nil {
				return Result{}, err
			}
			notes <- stored.Status.Note
			return Result{}, nil
		}), WithoutTeardown())
		must(t, err)
		r := w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		if note := <-notes; note != "at once" {
			t.Errorf("status %q before the reconcile returns", note)
		}
		r.halt()

		deleted := make(chan error, 10)
		w = newWorld(t)
		sites = w.sites()
		c, err = New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if !req.Operations.Has(OperationDelete) {
				return Result{}, nil
			}
			gone := newSite(req.Key, "")
			gone.Status.Note = "going"
			err := SetStatus(ctx, gone)
			if record, readErr := sites.Record(ctx, req.Key); err == nil &&
				(readErr != nil || !strings.Contains(string(record.Status), "going")) {
				err = errors.New("it is not written")
			}
			deleted <- err
			return Result{}, nil
		}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, sites.Delete(ctx, "home"))
		must(t, <-deleted)
	})
}

// TestSetStatusSaysWhatItCannotDo tries everything that is no status of the reconciled primary.
func TestSetStatusSaysWhatItCannotDo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		if err := SetStatus(ctx, newSite("home", "one")); err == nil || !strings.Contains(err.Error(), "UpdateStatus") {
			t.Errorf("outside a reconcile: %v", err)
		}
		errs := make(chan error, 10)
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			errs <- SetStatus(ctx, newSite("another", "one"))
			errs <- SetStatus(ctx, &entity.Object[int, int]{ObjectMeta: newSite(req.Key, "").ObjectMeta})
			large := newSite(req.Key, "one")
			large.Status.Note = strings.Repeat("x", 2<<20)
			errs <- SetStatus(ctx, large)
			return Result{}, nil
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		for _, want := range []string{"another", "its type is"} {
			if err := <-errs; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want an error with %q, got %v", want, err)
			}
		}
		if err := <-errs; !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("a status of 2 MiB: %v", err)
		}
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
	})
}

// besideTheRest is as long as a note can be that fits a record alone, and not with what else is in it.
const besideTheRest = 1<<20 - 512 - 100 // the server takes a megabyte, of which the headers may have 512 bytes

// TestSetStatusTooLargeBesideTheRest is told in the record, tried again with a backoff of its own, and does not cost
// the last document, until it fits.
func TestSetStatusTooLargeBesideTheRest(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var size atomic.Int64
		var attempts atomic.Int64
		note := func() string { return strings.Repeat("x", int(size.Load())) }
		c, err := New("sites", sites, settingNote(sites, note, done), WithResyncInterval(0),
			WithBackoff(time.Millisecond, 10*time.Millisecond), WithOnResult(func(r ReconcileResult) {
				if r.Err != nil {
					t.Errorf("the reconcile failed: %v", r.Err) // SetStatus would have to accept it
				}
				attempts.Store(max(attempts.Load(), int64(r.Attempt)))
			}))
		must(t, err)
		w.run(c)
		size.Store(besideTheRest)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonRetrying)
		natstest.Eventually(t, "it is refused again and again", func() bool {
			return c.Explain("home").Failures > 5
		})
		record, err := sites.Record(t.Context(), "home")
		must(t, err)
		if len(record.LastDocument) == 0 {
			t.Error("the last document is gone")
		}
		size.Store(1000)
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		s, err := sites.Get(t.Context(), "home")
		must(t, err)
		if len(s.Status.Note) != 1000 {
			t.Errorf("status of %d bytes", len(s.Status.Note))
		}
		if n := attempts.Load(); n != 1 {
			t.Errorf("attempt %d was reported, but none failed that another would follow", n)
		}
		natstest.Eventually(t, "the backoff is over", func() bool {
			return c.Explain("home").Failures == 0
		})
	})
}

// TestARefusedStatusOfAFailedReconcileLeavesItsRetryAlone: it counts once, and when it is tried again is the policy's
// business.
func TestARefusedStatusOfAFailedReconcileLeavesItsRetryAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		numbers := make(chan int, 100)
		note := func() string { return strings.Repeat("x", besideTheRest) }
		result := func() error { return errors.New("not yet") }
		c, err := New("sites", sites, settingNote(sites, note, result),
			WithResyncInterval(0), WithBackoff(time.Millisecond, time.Millisecond),
			WithOnResult(func(r ReconcileResult) { numbers <- r.Attempt }),
			WithErrorPolicy(func(string, error, int) Result { return Result{RequeueAfter: time.Hour} }))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		for attempt := 1; attempt <= 3; attempt++ {
			natstest.Eventually(t, "the refusal is noted", func() bool {
				return c.Stats().RecordErrors == uint64(attempt) && c.engine.QueueCounts().InProgress == 0
			})
			if n := c.Explain("home").Failures; n != attempt {
				t.Errorf("the refusal has made the key due %d times, beside its retry", n-attempt)
			}
			if n := <-numbers; n != attempt {
				t.Errorf("attempt %d was reported as %d", attempt, n)
			}
			if len(numbers) > 0 {
				t.Error("it was tried again before its time")
			}
			c.Enqueue("home", OperationManual)
		}
	})
}

// TestSetStatusKnowsItsPrimaryAndWhenItIsOver: a secondary may have the primary's name and type, and a goroutine may
// outlive its reconcile.
func TestSetStatusKnowsItsPrimaryAndWhenItIsOver(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		errs := make(chan error, 10)
		over := make(chan struct{})
		late := make(chan error, 10)
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			p := newSite(req.Key, "page")
			if _, err := CreateOrUpdate(ctx, pages, p, func(*page) error { return nil }); err != nil {
				return Result{}, err
			}
			errs <- SetStatus(ctx, p)
			p = newSite(req.Key, "page")
			p.Kind = "Page"
			errs <- SetStatus(ctx, p)
			go func() {
				<-over
				late <- SetStatus(ctx, newSite(req.Key, "late"))
			}()
			return Result{}, nil
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		for range 2 {
			if err := <-errs; err == nil || !strings.Contains(err.Error(), "its client") {
				t.Errorf("status of a secondary: %v", err)
			}
		}
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		close(over)
		if err := <-late; err == nil || !strings.Contains(err.Error(), "over") {
			t.Errorf("after the reconcile: %v", err)
		}
	})
}
