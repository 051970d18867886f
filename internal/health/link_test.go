package health_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/internal/connection"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"k8s.io/klog/v2"
)

// linked is a board over a connection to a server, with its log and what its callback was told.
type linked struct {
	*health.Board
	ctx    context.Context
	server *natstest.Server
	nc     *nats.Conn
	told   *told
	log    *told // its lines
}

// overALink runs f in virtual time, with a board that is watched.
func overALink(t *testing.T, f func(t *testing.T, l linked)) {
	natstest.Test(t, func(t *testing.T) {
		l := linked{told: &told{}, log: &told{}}
		l.ctx = klog.NewContext(t.Context(), funcr.New(l.log.line, funcr.Options{}))
		l.server = natstest.Start(t)
		l.nc, _ = natstest.Connect(t, l.server.URL())
		l.Board = health.New(l.told.add)
		l.Over(l.nc, func(name string) bool { return name == "pages" })
		ctx, stop := context.WithCancel(l.ctx)
		var loops sync.WaitGroup
		loops.Go(func() { l.Run(ctx) })
		loops.Go(func() { l.Watch(ctx) })
		defer loops.Wait()
		defer stop()
		time.Sleep(time.Minute)
		f(t, l)
	})
}

// line takes a line of a log.
func (t *told) line(_, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news = append(t.news, text)
}

// with counts the lines of the log that have a text.
func (l linked) with(text string) (n int) {
	for _, line := range l.log.all() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// outage is one of that duration, which is seen to be over when it returns.
func (l linked) outage(t *testing.T, d time.Duration) {
	t.Helper()
	l.server.Stop()
	time.Sleep(d)
	if err := l.server.Start(); err != nil {
		t.Fatal(err)
	}
	for !l.nc.IsConnected() {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Millisecond)
}

// TestAConnectionThatIsClosedInAnOutageIsNotSaidToBeBack: what failed in the outage stands by its own name at once.
func TestAConnectionThatIsClosedInAnOutageIsNotSaidToBeBack(t *testing.T) {
	overALink(t, func(t *testing.T, l linked) {
		l.server.Stop()
		time.Sleep(2 * time.Second)
		l.Set(l.ctx, "pages", errAway)
		time.Sleep(time.Second)
		if d := l.Degraded(); len(d) != 1 || d[health.Connection] == nil {
			t.Fatalf("in the outage: degraded %v", d)
		}
		l.nc.Close()
		time.Sleep(time.Second)
		for range 2 {
			d := l.Degraded()
			for _, name := range []string{"pages", health.Connection} {
				if err := d[name]; err == nil || !strings.Contains(err.Error(), "closed for good") {
					t.Errorf("%s is degraded by %v", name, err)
				}
			}
			if !errors.Is(d["pages"], errAway) {
				t.Errorf("pages: %v, want the reason too", d["pages"])
			}
			time.Sleep(time.Hour)
		}
		for _, said := range append(l.told.all(), l.log.all()...) {
			if strings.Contains(said, "is back") || strings.Contains(said, "works") {
				t.Errorf("said: %s", said)
			}
		}
	})
}

// TestWhatFailsAMomentAfterABlipIsToldOnceItsTimeIsOver, though the connection changes no more.
func TestWhatFailsAMomentAfterABlipIsToldOnceItsTimeIsOver(t *testing.T) {
	overALink(t, func(t *testing.T, l linked) {
		l.outage(t, 100*time.Millisecond)
		time.Sleep(time.Second)
		l.Set(l.ctx, "pages", errAway)
		if d := l.Degraded(); d["pages"] != nil {
			t.Errorf("a moment after the outage: degraded %v", d)
		}
		time.Sleep(connection.Settle)
		if d := l.Degraded(); !errors.Is(d["pages"], errAway) || d[health.Connection] != nil {
			t.Errorf("%v after the outage: degraded %v", connection.Settle, d)
		}
		if n := l.with("Source degraded"); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

// TestWhatStaysAwayAfterAnOutageIsToldOnce, however often it is reported.
func TestWhatStaysAwayAfterAnOutageIsToldOnce(t *testing.T) {
	overALink(t, func(t *testing.T, l linked) {
		l.server.Stop()
		time.Sleep(5 * time.Second)
		l.Set(l.ctx, "pages", errAway)
		l.outage(t, time.Second)
		for range 10 {
			l.Set(l.ctx, "pages", errAway)
			time.Sleep(2 * time.Second)
		}
		if n := l.with("Source degraded"); n != 1 {
			t.Errorf("told %d times: %q", n, l.log.all())
		}
		l.Set(l.ctx, "pages", errors.New("another reason"))
		if n := l.with("Source degraded"); n != 2 {
			t.Errorf("another reason: told %d times", n)
		}
	})
}
