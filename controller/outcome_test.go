package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAnOutcomeThatCannotBeWrittenIsWrittenLater with the status, a terminal one too, and does not count as a failed
// attempt of the reconciler.
func TestAnOutcomeThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	for reason, outcome := range map[string]error{entity.ReasonSynced: nil,
		entity.ReasonTerminal: TerminalError(errors.New("bad"))} {
		t.Run(reason, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				var once atomic.Bool
				var most atomic.Int64
				note := func() string { return "seen" }
				c, err := New("sites", sites, settingNote(sites, note, func() error {
					if once.CompareAndSwap(false, true) {
						w.limitMessages("sites-status", 10)
					}
					return outcome
				}), WithResyncInterval(0), WithBackoff(time.Millisecond,
					10*time.Millisecond), WithOnResult(func(r ReconcileResult) {
					most.Store(max(most.Load(), int64(r.Attempt)))
				}))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("home", "one")))
				natstest.Eventually(t, "the outcome was refused some times", func() bool {
					return c.Stats().RecordErrors > 3
				})
				w.limitMessages("sites-status", -1)
				eventuallyReason(t, sites, "home", reason)
				if s, err := sites.Get(t.Context(), "home"); err != nil || s.Status.Note != "seen" {
					t.Errorf("its status is %+v, %v", s, err)
				}
				if n := most.Load(); n != 1 {
					t.Errorf("attempt %d was reported, but none failed that another would follow", n)
				}
			})
		})
	}
}

// TestATerminalErrorThatCannotBeRecordedDoesNotPark: the record is all that tells of it, so the key is tried again until
// it does.
func TestATerminalErrorThatCannotBeRecordedDoesNotPark(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(context.Context, Request) (Result, error) {
			if seen.count("home") == 1 {
				w.limitMessages("sites-status", 10)
			}
			return Result{}, TerminalError(errors.New("bad"))
		}), WithResyncInterval(0), WithBackoff(time.Millisecond, 10*time.Millisecond), WithLeaseTiming(longLease))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "the outcome was refused", func() bool { return c.Stats().RecordErrors > 0 })
		w.limitMessages("sites-status", -1)
		eventuallyReason(t, sites, "home", entity.ReasonTerminal)
		natstest.Eventually(t, "it is parked", func() bool { return c.Stats().Parked == 1 })
		if n := seen.count("home"); n < 2 {
			t.Errorf("it was tried %d times", n)
		}
	})
}

// TestAnOutcomeIsOfTheStreamThatItsAttemptBeganWith: the stream is made anew while the reconciler runs, and has another
// document of the same revision. No record says that this one is reconciled.
func TestAnOutcomeIsOfTheStreamThatItsAttemptBeganWith(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		sites := w.sites()
		begun, goOn := make(chan string), make(chan struct{})
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			s, err := sites.Lister().Get(req.Key)
			if err != nil {
				return Result{}, err
			}
			begun <- s.Spec.Title
			<-goOn
			return Result{}, nil
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		if title := receive(t, "the attempt begins", begun); title != "one" {
			t.Fatalf("it is of %q", title)
		}
		time.Sleep(time.Second) // a stream is known by the second that it was made in
		stream, err := w.js.Stream(ctx, "KV_sites")
		must(t, err)
		settings := stream.CachedInfo().Config
		must(t, w.js.DeleteStream(ctx, "KV_sites"))
		_, err = w.js.CreateStream(ctx, settings)
		must(t, err)
		must(t, sites.Create(ctx, newSite("home", "two")))
		natstest.Eventually(t, "the cache has the new one", func() bool {
			status := sites.Informer().Status()
			return status.StreamChanges == 1 && !status.Relisting && sites.Informer().Cursor() == 1
		})
		goOn <- struct{}{}
		if title := receive(t, "it is reconciled again", begun); title != "two" {
			t.Errorf("it is of %q", title)
		}
		r, err := sites.Record(ctx, "home")
		if err != nil || r.ObservedRevision != 0 {
			t.Errorf("while its first attempt runs the record has observed %d of the stream %s: %v",
				r.ObservedRevision, r.Stream, err)
		}
		goOn <- struct{}{}
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
	})
}
