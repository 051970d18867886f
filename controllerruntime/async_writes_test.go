package controllerruntime

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// submitted has w await a write whose acknowledgement never comes, and returns when it was given up.
func submitted(w *asyncWrites) (ended <-chan time.Time) {
	at := make(chan time.Time, 1)
	w.submit(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}, func(context.Context, error) { at <- time.Now() })
	return at
}

func TestAWriteThatIsLateSoonHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAsyncWrites()
		w.start(t.Context())
		late := submitted(w)
		began, finished := time.Now(), make(chan error, 1)
		w.submit(func(context.Context) error { return nil }, func(_ context.Context, err error) { finished <- err })
		if err := <-finished; err != nil || time.Since(began) > asyncWriteLate {
			t.Errorf("another write ended with %v after %v", err, time.Since(began))
		}
		w.closeSoon()
		w.close()
		<-late
	})
}

func TestSubmitWaitsWhileTooManyWritesAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAsyncWrites()
		w.start(t.Context())
		answered, more := make(chan struct{}), make(chan struct{})
		wait := func(context.Context) error { <-answered; return nil }
		then := func(context.Context, error) {}
		for range asyncWritesMost {
			w.submit(wait, then)
		}
		go func() { w.submit(wait, then); close(more) }()
		synctest.Wait()
		select {
		case <-more:
			t.Errorf("more than %d writes are under way", asyncWritesMost)
		default:
		}
		answered <- struct{}{} // one of them
		<-more
		close(answered)
		w.closeSoon()
		w.close()
	})
}

// TestWritesUnderWayEndSoonAfterTheStop, and those that reconciles submit later, in their grace period, have as long.
func TestWritesUnderWayEndSoonAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAsyncWrites()
		w.start(t.Context())
		stopped := time.Now()
		before := submitted(w)
		w.closeSoon()
		time.Sleep(10 * asyncWritesGrace)
		resubmitted := time.Now()
		after := submitted(w)
		w.close()
		if took := (<-before).Sub(stopped); took != asyncWritesGrace {
			t.Errorf("the write under way ended %v after the stop, want %v", took, asyncWritesGrace)
		}
		if took := (<-after).Sub(resubmitted); took != asyncWritesGrace {
			t.Errorf("the write submitted after the stop ended %v after, want %v", took, asyncWritesGrace)
		}
	})
}

// stoppedChild has 60,000 late writes, a thousand at a time, as a thousand controllers would.
func stoppedChild() error {
	var submitters sync.WaitGroup
	for range 1000 {
		w := newAsyncWrites()
		w.start(context.Background())
		submitters.Go(func() {
			defer w.close()
			for range 60 {
				finished := make(chan struct{})
				w.submit(func(context.Context) error {
					time.Sleep(10*time.Millisecond + rand.N(8*time.Millisecond))
					return nil
				}, func(context.Context, error) { close(finished) })
				<-finished
			}
		})
	}
	submitters.Wait()
	return nil
}

// TestLateWritesSurviveAProcessThatIsStoppedNowAndThen, as a CPU quota stops it: between any two statements more time
// may pass than any timer waits.
func TestLateWritesSurviveAProcessThatIsStoppedNowAndThen(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0])
	// More threads than processors, so that the kernel stops each of them at other moments too.
	child.Env = append(os.Environ(), childEnv+"=stopped", "GOMAXPROCS=32")
	var output strings.Builder
	child.Stdout, child.Stderr = &output, &output
	must(t, child.Start())
	exited := make(chan error, 1)
	go func() { exited <- child.Wait() }()
	for {
		_ = child.Process.Signal(syscall.SIGSTOP) // fails once it has exited
		time.Sleep(13 * time.Millisecond)
		_ = child.Process.Signal(syscall.SIGCONT)
		select {
		case err := <-exited:
			if err != nil {
				text := output.String()
				t.Errorf("the child ended with %v: %s", err, text[:min(len(text), 400)])
			}
			return
		case <-time.After(rand.N(3 * time.Millisecond)):
		}
	}
}

// TestRunEndsSoonAlthoughManyRecordsAreNotAcknowledged, because NATS is away when it is stopped: the next run writes again
// what is lost of them.
func TestRunEndsSoonAlthoughManyRecordsAreNotAcknowledged(t *testing.T) {
	for name, opt := range map[string]Option{
		"default grace": WithGracePeriod(30 * time.Second),
		"without limit": WithGracePeriod(-1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			proxy := natstest.StartProxy(t, w.server.URL())
			_, w.js = natstest.Connect(t, proxy.URL())
			sites := w.sites()
			w.make(sites, 300)
			entered, leave := make(chan string, 300), make(chan struct{})
			c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
				entered <- req.Key
				<-leave
				return Result{}, nil
			}), WithResyncInterval(0), opt)
			must(t, err)
			r := w.run(c)
			receive(t, "a reconcile", entered)
			proxy.Refuse()
			close(leave)
			eventually(t, "many are under way", func() bool { return c.engine.queue.Counts().InProgress > 100 })
			r.stop()
			select {
			case <-r.done:
			case <-time.After(25 * time.Second): // in series the writes would take five seconds each
				t.Errorf("Run has not returned, %d keys are in progress", c.engine.queue.Counts().InProgress)
			}
			proxy.Resume()
			r.halt()
		})
	}
}

// TestKeysWhoseRecordsMayNotBeWrittenHoldUpNoOthers, although each such write takes until it is given up.
func TestKeysWhoseRecordsMayNotBeWrittenHoldUpNoOthers(t *testing.T) {
	denied := &server.Permissions{Publish: &server.SubjectPermission{
		Allow: []string{">"}, Deny: []string{"$KV.sites-status.bad.>"},
	}}
	srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.Users = []*server.User{{Username: "controller", Password: "secret", Permissions: denied}}
	}))
	_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("controller", "secret"))
	w := &world{t: t, server: srv, js: js}
	sites := w.client("Site", "sites", func(c *entity.Config) { c.Namespaced = true })
	for n := range 20 {
		s := newSite(fmt.Sprintf("site-%d", n), "one")
		s.Namespace = "bad"
		must(t, sites.Create(t.Context(), s))
	}
	var seen calls
	c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0), WithWorkers(2))
	must(t, err)
	w.run(c)
	eventually(t, "all of them are under way", func() bool { return c.engine.queue.Counts().InProgress == 20 })
	good := newSite("home", "one")
	good.Namespace = "good"
	must(t, sites.Create(t.Context(), good))
	began := time.Now()
	for n := 1; n <= 5; n++ { // each revision waits for the outcome of the one before
		eventually(t, "it is reconciled", func() bool { return seen.count("good/home") == n })
		must(t, sites.Patch(t.Context(), "good/home", []byte(fmt.Sprintf(`{"spec":{"pages":%d}}`, n))))
	}
	if took := time.Since(began); took > 10*time.Second { // in series one alone would take over a minute
		t.Errorf("five revisions of another key took %v", took)
	}
}
