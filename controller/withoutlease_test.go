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
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// shared are replicas of one controller that all reconcile.
type shared struct {
	*world
	sites   []*entity.Client[*site]
	seen    []*calls
	c       []*Controller[*site]
	running []*running
}

// sharing runs n replicas, of which the first leads. f, which may be nil, is their reconciler.
func (w *world) sharing(n int, f func(i int, req Request) error, opts ...Option) *shared {
	w.t.Helper()
	s := &shared{world: w}
	for i := range n {
		s.another(func(req Request) error {
			if f == nil {
				return nil
			}
			return f(i, req)
		}, opts...)
		natstest.Eventually(w.t, "the first leads", func() bool { return s.c[0].Stats().Leading })
	}
	return s
}

func (s *shared) another(f func(req Request) error, opts ...Option) {
	s.t.Helper()
	sites, seen := s.away().sites(), &calls{}
	c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
		return Result{}, f(req)
	}), append([]Option{WithoutLease(), WithLeaseTiming(quickLease)}, opts...)...)
	must(s.t, err)
	s.sites, s.seen, s.c = append(s.sites, sites), append(s.seen, seen), append(s.c, c)
	s.running = append(s.running, s.run(c))
}

// counts are how often each replica was called for a key with an operation.
func (s *shared) counts(key string, op Operation) (n []int) {
	for _, seen := range s.seen {
		n = append(n, seen.with(key, op))
	}
	return n
}

func (s *shared) wants(what, key string, op Operation, n ...int) {
	s.t.Helper()
	if got := s.counts(key, op); fmt.Sprint(got) != fmt.Sprint(n) {
		s.t.Errorf("%s: the replicas were called %v times for %s of %s, want %v", what, got, op, key, n)
	}
}

// leads has a replica lead, and returns its identity.
func (s *shared) leads(i int) (identity string) {
	for !s.c[i].Stats().Leading {
		s.leaseTo("another", time.Second)
		time.Sleep(5 * time.Second)
	}
	return s.lease().HolderIdentity
}

const aWhile = 3 * time.Second

// TestWithoutLeaseEachReplicaReconcilesAndOneRecords each document that comes and changes, and its end, once.
func TestWithoutLeaseEachReplicaReconcilesAndOneRecords(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.sharing(3, nil)
		must(t, s.sites[0].Create(t.Context(), newSite("home", "a")))
		time.Sleep(aWhile)
		s.wants("it comes", "home", OperationPut, 1, 1, 1)
		changed := newSite("home", "b")
		must(t, s.sites[0].Patch(t.Context(), changed.Name, []byte(`{"spec":{"title":"b"}}`)))
		time.Sleep(aWhile)
		s.wants("it changes", "home", OperationPut, 2, 2, 2)
		record, err := s.sites[0].Record(t.Context(), "home")
		must(t, err)
		live, err := s.sites[0].Get(t.Context(), "home")
		must(t, err)
		if fmt.Sprint(record.ObservedRevision) != live.GetResourceVersion() {
			t.Errorf("observed is %d of %s", record.ObservedRevision, live.GetResourceVersion())
		}
		must(t, s.sites[0].Delete(t.Context(), "home"))
		time.Sleep(aWhile)
		s.wants("it ends", "home", OperationDelete, 1, 1, 1)
		if !noRecord(t, s.sites[0], "home")() {
			t.Error("the record is still there")
		}
		leading, errs := 0, uint64(0)
		for i, c := range s.c {
			stats := c.Stats()
			if errs += stats.RecordErrors; stats.Leading {
				leading++
			}
			if stats.Remembered != 0 || len(stats.Degraded) > 0 {
				t.Errorf("replica %d remembers %d keys, degraded by %v", i, stats.Remembered, stats.Degraded)
			}
		}
		if leading != 1 || errs > 0 {
			t.Errorf("%d replicas lead, and %d records were refused", leading, errs)
		}
	})
}

// TestWithoutLeaseAReplicaThatStartsReconcilesAll what there is, and is told nothing of what is gone.
func TestWithoutLeaseAReplicaThatStartsReconcilesAll(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newWorld(t).sharing(1, nil)
		s.make(s.sites[0], 3)
		s.settled(s.c[0], s.sites[0], 3)
		must(t, s.sites[0].Delete(t.Context(), siteName(0)))
		natstest.Eventually(t, "one is torn down", noRecord(t, s.sites[0], siteName(0)))
		s.another(func(Request) error { return nil })
		time.Sleep(aWhile)
		s.wants("what is there", siteName(1), OperationPut, 1, 1)
		if n := s.seen[1].count(siteName(0)); n > 0 {
			t.Errorf("%d calls for what is gone", n)
		}
	})
}

// TestWithoutLeaseNothingIsReconciledBeforeItsDeleteIsSafe: no replica goes ahead of the record, and all do once it can
// be written.
func TestWithoutLeaseNothingIsReconciledBeforeItsDeleteIsSafe(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newWorld(t).sharing(2, nil, WithBackoff(time.Second, time.Second))
		s.limitMessages("sites-status", 10)
		must(t, s.sites[0].Create(t.Context(), newSite("home", "a")))
		time.Sleep(10 * time.Second)
		if n := s.seen[0].count("home") + s.seen[1].count("home"); n > 0 {
			t.Errorf("%d reconciles without a record", n)
		}
		s.limitMessages("sites-status", -1)
		time.Sleep(aWhile)
		s.wants("it is mended", "home", OperationPut, 1, 1)
	})
}

// TestWithoutLeaseEndsFollowTheLeader: others are told of the end when the leader has torn down, and nothing of what the
// brake holds.
func TestWithoutLeaseEndsFollowTheLeader(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		s := newWorld(t).sharing(2, func(i int, req Request) error {
			if i == 0 && req.Operations.Has(OperationDelete) && fails.Load() {
				return errors.New("cannot yet")
			}
			return nil
		}, WithBackoff(time.Second, time.Second))
		s.make(s.sites[0], many)
		s.settled(s.c[0], s.sites[0], many)
		time.Sleep(aWhile)
		must(t, s.sites[0].Delete(t.Context(), siteName(0)))
		time.Sleep(10 * time.Second)
		if n := s.seen[1].with(siteName(0), OperationDelete); n > 0 || s.seen[0].with(siteName(0), OperationDelete) < 5 {
			t.Errorf("before the leader has torn down: %v", s.counts(siteName(0), OperationDelete))
		}
		fails.Store(false)
		time.Sleep(aWhile)
		if n := s.seen[1].with(siteName(0), OperationDelete); n != 1 {
			t.Errorf("after it has: %d calls", n)
		}
		s.emptied("sites")
		time.Sleep(5 * time.Minute)
		if !s.c[0].Stats().Brake.Engaged {
			t.Fatal("the brake holds nothing")
		}
		for i := 1; i < many; i++ {
			s.wants("the brake holds it", siteName(i), OperationDelete, 0, 0)
		}
	})
}

// TestWithoutLeaseTheEndOfALeaderLosesNoEnd: what ends while no replica leads is told of to each that is left, once.
func TestWithoutLeaseTheEndOfALeaderLosesNoEnd(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newWorld(t).sharing(3, nil)
		s.make(s.sites[0], 2)
		s.settled(s.c[0], s.sites[0], 2)
		time.Sleep(aWhile)
		s.leaseTo("another", 20*time.Second) // no replica leads for as long
		natstest.Eventually(t, "the first does not lead", func() bool { return !s.c[0].Stats().Leading })
		must(t, s.sites[0].Delete(t.Context(), siteName(0)))
		must(t, s.sites[0].Patch(t.Context(), siteName(1), []byte(`{"spec":{"title":"b"}}`)))
		time.Sleep(aWhile)
		s.wants("it changes without a leader", siteName(1), OperationPut, 2, 2, 2)
		s.wants("it ends without a leader", siteName(0), OperationDelete, 0, 0, 0)
		time.Sleep(time.Minute)
		s.wants("a replica leads again", siteName(0), OperationDelete, 1, 1, 1)
		record, err := s.sites[0].Record(t.Context(), siteName(1))
		must(t, err)
		live, err := s.sites[0].Get(t.Context(), siteName(1))
		must(t, err)
		if fmt.Sprint(record.ObservedRevision) != live.GetResourceVersion() {
			t.Errorf("observed is %d of %s", record.ObservedRevision, live.GetResourceVersion())
		}
	})
}

// TestWithoutLeaseOnlyALeaderPrunesAndSetsTheStatus, and writes records: a replica that has led, and reconciles on.
func TestWithoutLeaseOnlyALeaderPrunesAndSetsTheStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			s, err := sites.Lister().Get(req.Key)
			if err != nil {
				return Result{}, ignoreNotFound(err)
			}
			p := newSite(s.Spec.Title, "")
			if _, err := CreateOrUpdate(ctx, pages, p, func(*page) error { return nil }); err != nil {
				return Result{}, err
			}
			s = s.DeepCopyObject().(*site)
			s.Status.Note = s.Spec.Title
			return Result{}, SetStatus(ctx, s)
		}), Owns(pages, WithPrune()), WithoutLease(), WithLeaseTiming(quickLease))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "a")))
		time.Sleep(aWhile)
		w.losesTheLease(c)
		sent := w.sent("home")
		must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"b"}}`)))
		time.Sleep(aWhile)
		if !exists(t, pages, "b") || !exists(t, pages, "a") {
			t.Error("it does not reconcile on, or prunes")
		}
		if stats := c.Stats(); stats.Running > 0 || stats.Delayed > 0 { // for a brake that admits no prune
			t.Errorf("%d reconciles go on and %d keys are delayed, though all was done", stats.Running, stats.Delayed)
		}
		if got := sent(); len(got) > 0 {
			t.Errorf("it writes %d records, the first is %s", len(got), got[0].Data)
		}
		w.leaseTo("", time.Second)
		time.Sleep(aWhile)
		live, err := sites.Get(t.Context(), "home")
		must(t, err)
		if exists(t, pages, "a") || live.Status.Note != "b" {
			t.Errorf("as the leader it does not prune, or the status is %q", live.Status.Note)
		}
	})
}

// TestWithoutLeaseALeaderThatIsDeafLosesNoEnd: its lease is lost, a reconcile does not return, and meanwhile another
// replica tears down.
func TestWithoutLeaseALeaderThatIsDeafLosesNoEnd(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newWorld(t).sharing(2, func(i int, req Request) error {
			if i == 0 && req.Key == "slow" {
				time.Sleep(20 * time.Second)
			}
			return nil
		}, WithWorkers(2))
		s.make(s.sites[0], 1)
		s.settled(s.c[0], s.sites[0], 1)
		must(t, s.sites[0].Create(t.Context(), newSite("slow", "")))
		time.Sleep(time.Second)
		s.leaseTo("another", time.Second)
		natstest.Eventually(t, "the second leads", func() bool { return s.c[1].Stats().Leading })
		must(t, s.sites[0].Delete(t.Context(), siteName(0)))
		time.Sleep(time.Minute)
		s.wants("the deaf one has returned", siteName(0), OperationDelete, 1, 1)
	})
}

// TestWithoutLeaseADocumentThatComesBackIsReconciled, also by a replica that has not come to its end yet.
func TestWithoutLeaseADocumentThatComesBackIsReconciled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newWorld(t).sharing(2, func(i int, req Request) error {
			if i == 1 && req.Operations.Has(OperationDelete) {
				return errors.New("cannot yet")
			}
			return nil
		}, WithBackoff(time.Minute, time.Minute), WithResyncInterval(0))
		must(t, s.sites[0].Create(t.Context(), newSite("home", "a")))
		time.Sleep(aWhile)
		must(t, s.sites[0].Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is torn down", noRecord(t, s.sites[0], "home"))
		must(t, s.sites[0].Create(t.Context(), newSite("home", "b")))
		time.Sleep(aWhile)
		s.wants("it comes back", "home", OperationPut, 2, 2)
	})
}

// TestWithoutLeaseAnEndThatFailsBesideTheLeaderIsRetried, also where the replica has led, and failed then; and a terminal
// error of it stays one.
func TestWithoutLeaseAnEndThatFailsBesideTheLeaderIsRetried(t *testing.T) {
	for name, test := range map[string]struct {
		led, beside error // of the replica that led
		calls       int   // while it does not lead
	}{
		"it failed":             {errors.New("cannot yet"), nil, 1},
		"it failed, and fails":  {errors.New("cannot yet"), errors.New("cannot"), 6},
		"it gave up":            {TerminalError(errors.New("never")), nil, 1},
		"it gave up, and again": {TerminalError(errors.New("never")), TerminalError(errors.New("never")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				var beside atomic.Bool
				s := newWorld(t).sharing(2, func(i int, req Request) error {
					switch {
					case i == 1 || !req.Operations.Has(OperationDelete):
						return nil
					case beside.Load():
						return test.beside
					}
					return test.led
				}, WithBackoff(10*time.Second, 10*time.Second))
				second := s.leads(1)
				s.leads(0)
				s.make(s.sites[0], 1)
				s.settled(s.c[0], s.sites[0], 1)
				time.Sleep(aWhile)
				must(t, s.sites[0].Delete(t.Context(), siteName(0)))
				time.Sleep(aWhile)
				before := s.seen[0].with(siteName(0), OperationDelete)
				beside.Store(true)
				s.leaseTo(second, time.Minute) // it finds its name there
				natstest.Eventually(t, "the second leads", func() bool { return s.c[1].Stats().Leading })
				time.Sleep(50 * time.Second)
				calls := s.seen[0].with(siteName(0), OperationDelete) - before
				if s.c[0].Stats().Leading || calls < test.calls-1 || calls > test.calls || calls == 0 {
					t.Errorf("it was called %d times beside the leader, want %d", calls, test.calls)
				}
				if n := s.seen[1].with(siteName(0), OperationDelete); n != 1 {
					t.Errorf("the leader was called %d times", n)
				}
			})
		})
	}
}

// TestWithoutLeaseWhatVanishesWithItsRecordsIsNoEnd: both buckets are emptied while no replica leads, which would write
// the records again.
func TestWithoutLeaseWhatVanishesWithItsRecordsIsNoEnd(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newWorld(t).sharing(2, nil)
		s.make(s.sites[0], many)
		s.settled(s.c[0], s.sites[0], many)
		time.Sleep(aWhile)
		s.leaseTo("another", time.Hour)
		time.Sleep(aWhile)
		s.emptied("sites-status")
		s.emptied("sites")
		time.Sleep(time.Minute)
		for i := range many {
			s.wants("it vanished", siteName(i), OperationDelete, 0, 0)
		}
	})
}

// TestWithoutLeaseATermEndsWithWhatBeganBeforeIt, a reconcile that heeds its context, and the replica works on.
func TestWithoutLeaseATermEndsWithWhatBeganBeforeIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		w.make(sites, 1)
		cause := make(chan error, 1)
		var waits atomic.Bool
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if !waits.CompareAndSwap(true, false) {
				return Result{}, nil
			}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return Result{}, ctx.Err()
		}), WithoutLease(), WithLeaseTiming(quickLease))
		must(t, err)
		w.run(c)
		w.settled(c, sites, 1)
		w.leaseTo("another", 5*time.Second)
		natstest.Eventually(t, "it does not lead", func() bool { return !c.Stats().Leading })
		waits.Store(true)
		must(t, sites.Patch(t.Context(), siteName(0), []byte(`{"spec":{"title":"b"}}`)))
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		time.Sleep(time.Minute)
		w.leaseTo("another", 5*time.Second)
		if got := <-cause; !errors.Is(got, ErrLeaseLost) {
			t.Errorf("it ended because of %v", got)
		}
		must(t, sites.Create(t.Context(), newSite("later", "")))
		natstest.Eventually(t, "it leads again, and works", func() bool { return !noRecord(t, sites, "later")() })
	})
}

// TestWithoutLeaseAReplicaSaysHowItWorks, resyncs by itself, and tells what is stuck.
func TestWithoutLeaseAReplicaSaysHowItWorks(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var once atomic.Bool
		s := newWorld(t).sharing(2, func(i int, req Request) error {
			if i == 1 && req.Key == "stuck" && once.CompareAndSwap(false, true) {
				time.Sleep(3 * time.Minute)
			}
			return nil
		}, WithResyncInterval(time.Minute), WithWorkers(2))
		s.make(s.sites[0], 1)
		s.settled(s.c[0], s.sites[0], 1)
		time.Sleep(2 * time.Minute)
		if n := s.seen[1].with(siteName(0), OperationResync); n < 1 || n > 2 {
			t.Errorf("%d resyncs in two minutes, of one each", n)
		}
		must(t, s.sites[0].Create(t.Context(), newSite("stuck", "")))
		time.Sleep(2 * time.Minute)
		if why := s.c[1].Stats().Degraded; len(why) != 1 || len(s.c[0].Stats().Degraded) > 0 {
			t.Errorf("a reconcile is stuck, and it says %v", why)
		}
		says := s.c[1].Explain(siteName(0)).Says
		if !strings.Contains(says, "reconciles it without the lease") || strings.Contains(says, "waits") {
			t.Errorf("the other replica says %q", says)
		}
		time.Sleep(2 * time.Minute) // until it is stuck no more
		if why := s.c[1].Stats().Degraded; len(why) > 0 {
			t.Errorf("then it says %v", why)
		}
	})
}

func TestWithoutLeaseIsRefusedWhereItCannotBe(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.client("Site", "bare", func(cfg *entity.Config) {
			cfg.StatusBucket, cfg.Storage = entity.NoStatusBucket, jetstream.MemoryStorage
		})
		none := (&calls{}).reconciler(nil)
		if _, err := New("bare", client, none, WithoutTeardown(), WithoutLease()); err == nil ||
			!strings.Contains(err.Error(), "WithoutLease would do nothing") {
			t.Errorf("without a teardown: %v", err)
		}
		disks := func() Option {
			driver := cloudtest.NewDriver("http://127.0.0.1:1")
			return OwnsExternal(external.Configure(cloudtest.Client{Driver: driver}, external.Config{}))
		}
		const says = "is behind an API, whose rate and outages one replica keeps"
		if _, err := New("sites", w.sites(), none, WithoutLease(), disks()); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("with an API: %v", err)
		}
		c, err := New("sites", w.sites(), none, WithoutLease())
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		if _, err := c.AddSource(t.Context(), disks()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("with an API that is added: %v", err)
		}
	})
}
