package kubesource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/owner"
	"k8s.io/client-go/tools/cache"
)

// following is an informer that is synced, and moves when the test says so.
type following struct {
	cache.SharedIndexInformer
	version atomic.Int64
	shown   atomic.Int64 // by its store; 0: all of version
	stopped atomic.Bool
}

func (f *following) HasSynced() bool                 { return true }
func (f *following) IsStopped() bool                 { return f.stopped.Load() }
func (f *following) LastSyncResourceVersion() string { return strconv.FormatInt(f.version.Load(), 10) }
func (f *following) GetStore() cache.Store {
	return followingStore{f.SharedIndexInformer.GetStore(), f}
}

// followingStore is the store of such an informer. It shows all that the informer has read, unless shown is set.
type followingStore struct {
	cache.Store
	informer *following
}

func (s followingStore) LastStoreSyncResourceVersion() string {
	if shown := s.informer.shown.Load(); shown != 0 {
		return strconv.FormatInt(shown, 10)
	}
	return s.informer.LastSyncResourceVersion()
}

// watched is the health of a source over such an informer, on the clock of a bubble.
type watched struct {
	*watchHealth
	informer *following
	answer   atomic.Pointer[func(context.Context) error] // of the API server to a probe

	stopping atomic.Bool // the controller

	probes, changed, answered atomic.Int64
}

func watchInformer(t *testing.T) *watched {
	w := watchOnly(t)
	w.answers(nil)
	w.errors.ProbeWith(answers(func(ctx context.Context) error {
		w.probes.Add(1)
		return (*w.answer.Load())(ctx)
	}))
	return w
}

// watchOnly is where nobody can probe the API server.
func watchOnly(t *testing.T) *watched {
	return watchAlso(t, &following{SharedIndexInformer: stillInformer()})
}

// watchAlso is another source over the same informer.
func watchAlso(t *testing.T, informer *following) *watched {
	w := &watched{informer: informer}
	w.watchHealth = newWatchHealth(informer, WatchErrorsOf(informer), nil, sitesHere)
	w.start(t.Context(), healthEvents{
		changed: func() { w.changed.Add(1) }, answered: func() { w.answered.Add(1) }, stopping: w.stopping.Load,
	})
	return w
}

func sitesHere() owner.Claim { return owner.Claim{Kind: "Site", Instance: "here"} }

func (w *watched) answers(err error) {
	answer := func(context.Context) error { return err }
	w.answer.Store(&answer)
}

func lost(err error) error { return &url.Error{Op: "Get", URL: "https://server", Err: err} }

// TestWhichRequestAnAPIServerDoesNotAnswerIsNoNews: a reflector lists and watches in turn, with another timeout and
// another port each time.
func TestWhichRequestAnAPIServerDoesNotAnswerIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.answers(lost(syscall.ECONNREFUSED))
		reasons := map[string]bool{}
		for i := range 10 {
			request := &url.Error{Op: "Get", URL: fmt.Sprint("https://server/pages?timeoutSeconds=", i), Err: syscall.ECONNRESET}
			w.errors.report(request)
			reasons[notify.Reason(w.err())] = true
			advance(probeInterval)
			reasons[notify.Reason(w.err())] = true
		}
		if len(reasons) != 1 {
			t.Errorf("%d reasons: %v", len(reasons), reasons)
		}
		w.errors.report(errors.New("forbidden"))
		if reason := notify.Reason(w.err()); reasons[reason] {
			t.Errorf("%q is the same", reason)
		}
	})
}

// TestALostRequestIsNoNews: the API server answers a probe, so it was not away.
func TestALostRequestIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		for range 10 {
			_ = w.errors.NoteUnanswered(lost(syscall.ECONNRESET))
			advance(probeInterval)
			w.informer.version.Add(1)
			advance(probeInterval)
			if err := w.err(); err != nil {
				t.Fatalf("degraded: %v", err)
			}
		}
		if n := w.answered.Load(); n > 0 {
			t.Errorf("%d times it is said to be back", n)
		}
	})
}

// TestAnAbsenceMayBeShort: who failed in it is due when it is over.
func TestAnAbsenceMayBeShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.answers(lost(syscall.ECONNREFUSED))
		_ = w.errors.NoteUnanswered(lost(syscall.ECONNREFUSED))
		advance(10 * time.Millisecond)
		w.answers(nil)
		advance(3 * probeInterval)
		if n := w.answered.Load(); n != 1 {
			t.Errorf("it is said to be back %d times, want once", n)
		}
	})
}

func TestManyLostRequestsCostFewProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		for range 1000 {
			_ = w.errors.NoteUnanswered(lost(syscall.ECONNRESET))
			advance(10 * time.Millisecond)
		}
		if n := w.probes.Load(); n > int64(10*time.Second/probeInterval)+1 {
			t.Errorf("probed %d times in 10 s", n)
		}
	})
}

// TestAnAbsenceIsOverOnceTheAPIServerAnswers, and not because the informer moves, which may have another way to it.
func TestAnAbsenceIsOverOnceTheAPIServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.answers(lost(syscall.ECONNREFUSED))
		_ = w.errors.NoteUnanswered(lost(syscall.ECONNREFUSED))
		advance(2 * probeInterval)
		for range 100 {
			w.informer.version.Add(1)
			says(t, w.err(), "the API server cannot be reached")
			if n := w.answered.Load(); n > 0 {
				t.Fatal("it is said to be back")
			}
			advance(time.Second)
		}
		w.answers(nil)
		advance(2 * probeIntervalMost)
		if n := w.answered.Load(); n != 1 {
			t.Errorf("it is said to be back %d times, want once", n)
		}
		w.informer.version.Add(1)
		advance(time.Second)
		if err := w.err(); err != nil {
			t.Errorf("it has not healed: %v", err)
		}
	})
}

func TestAnAbsenceIsSettledWhateverTheWatchFailedOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.errors.report(errDone)
		w.answers(lost(syscall.ECONNREFUSED))
		_ = w.errors.NoteUnanswered(lost(syscall.ECONNREFUSED))
		advance(time.Minute)
		w.answers(nil)
		advance(2 * probeIntervalMost)
		if n := w.answered.Load(); n != 1 {
			t.Errorf("it is said to be back %d times, want once", n)
		}
	})
}

// TestAnAPIServerThatIsSilentIsAway, but one that was not even asked, as of a client's rate limit, is not.
func TestAnAPIServerThatIsSilentIsAway(t *testing.T) {
	for name, test := range map[string]struct {
		wrap func(error) error
		away bool
	}{
		"silent":    {lost, true},
		"not asked": {func(err error) error { return err }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := watchInformer(t)
			defer w.stop()
			answer := func(ctx context.Context) error {
				<-ctx.Done()
				return test.wrap(ctx.Err())
			}
			w.answer.Store(&answer)
			_ = w.errors.NoteUnanswered(lost(context.DeadlineExceeded))
			advance(time.Minute)
			if err := w.err(); (err != nil) != test.away {
				t.Errorf("%s: %v", name, err)
			}
			w.answers(nil)
			advance(time.Minute)
			if n := w.answered.Load(); (n == 1) != test.away {
				t.Errorf("%s: it is said to be back %d times", name, n)
			}
		})
	}
}

// TestAWatchThatTimesOutIsNoSignOfHealth: while the API server does not answer, the time that passes heals nothing.
func TestAWatchThatTimesOutIsNoSignOfHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.answers(lost(context.DeadlineExceeded))
		w.errors.report(lost(context.DeadlineExceeded))
		advance(10 * healAfter)
		says(t, w.err(), "the API server did not answer in time")
		w.answers(nil)
		advance(2 * probeIntervalMost)
		says(t, w.err(), "the API server did not answer in time") // the watch has yet to be made again
		advance(healAfter)
		if err := w.err(); err != nil {
			t.Errorf("it has not healed: %v", err)
		}
	})
}

// TestWhereNobodyCanProbeTheInformerTells that the API server is away, and is back.
func TestWhereNobodyCanProbeTheInformerTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchOnly(t)
		defer w.stop()
		w.errors.report(lost(syscall.ECONNREFUSED))
		_ = w.errors.NoteUnanswered(lost(syscall.ECONNREFUSED))
		advance(healAfter / 2)
		says(t, w.err(), "the API server cannot be reached")
		w.informer.version.Add(1)
		advance(time.Second)
		if err := w.err(); err != nil || w.answered.Load() != 1 {
			t.Errorf("%v; it is said to be back %d times, want once", err, w.answered.Load())
		}
	})
}

// TestAnAPIServerThatIsAwayInAQuietWorldIsNoticed: nobody writes, and the watch tries again by itself and tells nobody.
func TestAnAPIServerThatIsAwayInAQuietWorldIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.answers(lost(syscall.ECONNREFUSED))
		advance(followSilence + 2*time.Second)
		says(t, w.err(), "the API server cannot be reached")
	})
}

// TestAnInformerThatMovesIsNotProbed: the API server sends a bookmark each minute. Without any it is probed at times.
func TestAnInformerThatMovesIsNotProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		for range 60 {
			advance(time.Minute)
			w.informer.version.Add(1)
		}
		if n := w.probes.Load(); n > 0 {
			t.Errorf("probed %d times in an hour of bookmarks", n)
		}
		advance(time.Hour)
		if n := w.probes.Load(); n == 0 || n > 40 {
			t.Errorf("probed %d times in an hour of silence", n)
		}
		if n := w.changed.Load(); n > 60 {
			t.Errorf("told %d times how it is", n)
		}
	})
}

func TestAWatchErrorThatIsOverIsNotToldToListenersThatComeLater(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration
		moves int64
		told  bool
	}{
		"just now":             {0, 0, true},
		"it has moved":         {0, 1, false},
		"it would fail again":  {healAfter, 0, false},
		"it failed since then": {healAfter - time.Second, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			informer := &following{SharedIndexInformer: stillInformer()}
			errors := WatchErrorsOf(informer)
			errors.report(lost(io.ErrUnexpectedEOF))
			time.Sleep(test.after)
			informer.version.Add(test.moves)
			told := false
			errors.listen(listener{failed: func(error) { told = true }})
			if told != test.told {
				t.Errorf("%s: told %v, want %v", name, told, test.told)
			}
		})
	}
}

// TestAnInformerThatWasStoppedIsAFault, unless the controller stops, too: a program that ends stops all at once.
func TestAnInformerThatWasStoppedIsAFault(t *testing.T) {
	for name, test := range map[string]struct {
		together, fault bool
	}{
		"alone":    {false, true},
		"together": {true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := watchInformer(t)
			defer w.stop()
			w.informer.stopped.Store(true)
			advance(followTick)
			w.stopping.Store(test.together)
			advance(time.Minute)
			if err := w.err(); (err != nil) != test.fault || (w.changed.Load() == 1) != test.fault {
				t.Errorf("%s: %v, told %d times", name, err, w.changed.Load())
			}
		})
	}
}

// TestALongAbsenceCostsFewProbes, and its end is noticed soon all the same.
func TestALongAbsenceCostsFewProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.answers(lost(syscall.ECONNREFUSED))
		_ = w.errors.NoteUnanswered(lost(syscall.ECONNREFUSED))
		advance(time.Hour)
		if n, most := w.probes.Load(), int64(time.Hour/probeIntervalMost)+10; n < most/2 || n > most {
			t.Errorf("probed %d times, want at most %d", n, most)
		}
		w.answers(nil)
		advance(probeIntervalMost + time.Second)
		if n := w.answered.Load(); n != 1 {
			t.Errorf("it is said to be back %d times, want once", n)
		}
	})
}

// TestAProbeThatWasNotSentIsSentLater, as one that a client's rate limit held up.
func TestAProbeThatWasNotSentIsSentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.answers(context.DeadlineExceeded)
		_ = w.errors.NoteUnanswered(lost(syscall.ECONNREFUSED))
		advance(10 * time.Second)
		if n := w.probes.Load(); n < 3 {
			t.Errorf("probed %d times", n)
		}
		w.answers(lost(syscall.ECONNREFUSED))
		advance(probeIntervalMost)
		says(t, w.err(), "the API server cannot be reached")
	})
}
