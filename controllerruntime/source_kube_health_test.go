package controllerruntime

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/client-go/tools/cache"
)

// following is an informer that is synced, and moves when the test says so.
type following struct {
	cache.SharedIndexInformer
	version atomic.Int64
}

func (f *following) HasSynced() bool                 { return true }
func (f *following) LastSyncResourceVersion() string { return strconv.FormatInt(f.version.Load(), 10) }

// watched is the health of a source over such an informer, on the clock of a bubble.
type watched struct {
	*kubeHealth
	informer *following
	answer   atomic.Pointer[func(context.Context) error] // of the API server to who asks for a sign of life

	asked, changed, answered atomic.Int64
}

func watchInformer(t *testing.T) *watched {
	w := watchOnly(t)
	w.answers(nil)
	w.errors.canAsk(func(ctx context.Context) error {
		w.asked.Add(1)
		return (*w.answer.Load())(ctx)
	})
	return w
}

// watchOnly is where nobody can ask the API server.
func watchOnly(t *testing.T) *watched {
	w := &watched{informer: &following{SharedIndexInformer: stillInformer()}}
	errors := newWatchErrors(w.informer)
	w.kubeHealth = newKubeHealth(w.informer, errors, nil)
	w.start(t.Context(), kubeHealthEvents{
		changed: func() { w.changed.Add(1) }, answered: func() { w.answered.Add(1) }, stopping: func() bool { return false },
	})
	return w
}

func (w *watched) answers(err error) {
	answer := func(context.Context) error { return err }
	w.answer.Store(&answer)
}

func wayFailed(err error) error { return &url.Error{Op: "Get", URL: "https://server", Err: err} }

// TestALostRequestIsNoNews: the API server answers who asks it, so it was not away.
func TestALostRequestIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		for range 10 {
			_ = w.errors.noteUnanswered(wayFailed(syscall.ECONNRESET))
			advance(kubeProbe)
			w.informer.version.Add(1)
			advance(kubeProbe)
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
		w.answers(wayFailed(syscall.ECONNREFUSED))
		_ = w.errors.noteUnanswered(wayFailed(syscall.ECONNREFUSED))
		advance(10 * time.Millisecond)
		w.answers(nil)
		advance(3 * kubeProbe)
		if n := w.answered.Load(); n != 1 {
			t.Errorf("it is said to be back %d times, want once", n)
		}
	})
}

// TestManyLostRequestsCostFewQuestions.
func TestManyLostRequestsCostFewQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		for range 1000 {
			_ = w.errors.noteUnanswered(wayFailed(syscall.ECONNRESET))
			advance(10 * time.Millisecond)
		}
		if n := w.asked.Load(); n > int64(10*time.Second/kubeProbe)+1 {
			t.Errorf("asked %d times in 10 s", n)
		}
	})
}

// TestAnAbsenceIsOverOnceTheAPIServerAnswers, and not because the informer moves, which may have another way to it.
func TestAnAbsenceIsOverOnceTheAPIServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.answers(wayFailed(syscall.ECONNREFUSED))
		_ = w.errors.noteUnanswered(wayFailed(syscall.ECONNREFUSED))
		advance(2 * kubeProbe)
		for range 100 {
			w.informer.version.Add(1)
			says(t, w.err(), "the API server cannot be reached")
			if n := w.answered.Load(); n > 0 {
				t.Fatal("it is said to be back")
			}
			advance(time.Second)
		}
		w.answers(nil)
		advance(2 * kubeProbeMost)
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

// TestAnAbsenceIsSettledWhateverTheWatchFailedOfBefore.
func TestAnAbsenceIsSettledWhateverTheWatchFailedOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		w.errors.report(errDone)
		w.answers(wayFailed(syscall.ECONNREFUSED))
		_ = w.errors.noteUnanswered(wayFailed(syscall.ECONNREFUSED))
		advance(time.Minute)
		w.answers(nil)
		advance(2 * kubeProbeMost)
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
		"silent":    {wayFailed, true},
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
			_ = w.errors.noteUnanswered(wayFailed(context.DeadlineExceeded))
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
		w.answers(wayFailed(context.DeadlineExceeded))
		w.errors.report(wayFailed(context.DeadlineExceeded))
		advance(10 * kubeHealAfter)
		says(t, w.err(), "the API server did not answer in time")
		w.answers(nil)
		advance(2 * kubeProbeMost)
		says(t, w.err(), "the API server did not answer in time") // the watch has yet to be made again
		advance(kubeHealAfter)
		if err := w.err(); err != nil {
			t.Errorf("it has not healed: %v", err)
		}
	})
}

// TestWhereNobodyCanAskTheInformerTells that the API server is away, and is back.
func TestWhereNobodyCanAskTheInformerTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchOnly(t)
		defer w.stop()
		w.errors.report(wayFailed(syscall.ECONNREFUSED))
		_ = w.errors.noteUnanswered(wayFailed(syscall.ECONNREFUSED))
		advance(kubeHealAfter / 2)
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
		w.answers(wayFailed(syscall.ECONNREFUSED))
		advance(kubeFollowAsk + 2*time.Second)
		says(t, w.err(), "the API server cannot be reached")
	})
}

// TestAnInformerThatMovesIsNotAskedAbout: the API server sends a bookmark each minute. Without any it is asked now and then.
func TestAnInformerThatMovesIsNotAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchInformer(t)
		defer w.stop()
		for range 60 {
			advance(time.Minute)
			w.informer.version.Add(1)
		}
		if n := w.asked.Load(); n > 0 {
			t.Errorf("asked %d times in an hour of bookmarks", n)
		}
		advance(time.Hour)
		if n := w.asked.Load(); n == 0 || n > 40 {
			t.Errorf("asked %d times in an hour of silence", n)
		}
		if n := w.changed.Load(); n > 60 {
			t.Errorf("told %d times how it is", n)
		}
	})
}

// TestAWatchErrorThatIsOverIsNotToldToWhoComesLater.
func TestAWatchErrorThatIsOverIsNotToldToWhoComesLater(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration
		moves int64
		told  bool
	}{
		"just now":             {0, 0, true},
		"it has moved":         {0, 1, false},
		"it would fail again":  {kubeHealAfter, 0, false},
		"it failed since then": {kubeHealAfter - time.Second, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			informer := &following{SharedIndexInformer: stillInformer()}
			errors := newWatchErrors(informer)
			errors.report(wayFailed(io.ErrUnexpectedEOF))
			time.Sleep(test.after)
			informer.version.Add(test.moves)
			told := false
			errors.listen(listener{tell: func(error) { told = true }})
			if told != test.told {
				t.Errorf("%s: told %v, want %v", name, told, test.told)
			}
		})
	}
}

// TestTheAnswerOfOneAPIServerWakesNobodyWhoWaitsForAnother. Where an error does not tell whose it is, any may be meant.
func TestTheAnswerOfOneAPIServerWakesNobodyWhoWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{queue: queue.New(queue.Options{})}
		failed := func(key string, err error) {
			e.keys.Change(key, func(s *keytable.State) { s.Failures++ })
			if by := e.unansweredBy(err); by != nil {
				e.keys.Change(key, func(s *keytable.State) { s.Unanswered = by })
			}
		}
		by := map[string]*watchErrors{"one": newWatchErrors(stillInformer()), "another": newWatchErrors(stillInformer())}
		for _, errors := range by {
			e.sources = append(e.sources, &kubeSource{watching: &kubeHealth{errors: errors}})
		}
		by["no source"] = newWatchErrors(stillInformer())
		lost := wayFailed(syscall.ECONNREFUSED)
		for key, errors := range by {
			failed(key, errors.noteUnanswered(lost))
		}
		failed("unmarked", lost)
		e.kubeAnswers(by["one"])
		for range 3 {
			it, _ := e.queue.Get(t.Context())
			if it.Key == "another" || e.keys.Of(it.Key).Failures > 0 {
				t.Errorf("%s is due, after %d attempts", it.Key, e.keys.Of(it.Key).Failures)
			}
		}
		if n := readyKeys(e.queue); n > 0 || e.keys.Of("another").Failures != 1 {
			t.Errorf("%d more are due; the other one has %d attempts", n, e.keys.Of("another").Failures)
		}
		e.kubeAnswers(by["one"])
		if n := readyKeys(e.queue); n > 0 {
			t.Errorf("%d are due for a second time", n)
		}
	})
}

// TestWhoIsRefusedBeforeTheReturnIsNoticedDoesNotWaitForHisBackoff: his own retry may come before anybody asks the API server.
func TestWhoIsRefusedBeforeTheReturnIsNoticedDoesNotWaitForHisBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{queue: queue.New(queue.Options{})}
		failed := func(key string, err error) {
			e.keys.Change(key, func(s *keytable.State) { s.Failures++ })
			if by := e.unansweredBy(err); by != nil {
				e.keys.Change(key, func(s *keytable.State) { s.Unanswered = by })
			}
		}
		source := newWatchErrors(stillInformer())
		e.sources = append(e.sources, &kubeSource{watching: &kubeHealth{errors: source}})
		failed("home", source.noteUnanswered(wayFailed(syscall.ECONNREFUSED)))
		failed("home", errors.New("forbidden"))
		e.kubeAnswers(source)
		if n := readyKeys(e.queue); n != 1 || e.keys.Of("home").Failures != 0 {
			t.Errorf("%d are due, after %d attempts", n, e.keys.Of("home").Failures)
		}
	})
}
