package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestKeysOfAChannelAreDue until it is closed.
func TestKeysOfAChannelAreDue(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		keys := make(chan string)
		var seen calls
		c, _, running := w.runningSites(&seen, WatchesKeys("hooks", keys))
		keys <- "home"
		keys <- "of/no/site"
		time.Sleep(time.Second)
		if seen.with("home", OperationTertiary) != 1 || seen.count("away") != 1 || c.Stats().Malformed != 1 {
			t.Errorf("home %v, away %v, malformed %d", seen.of("home"), seen.of("away"), c.Stats().Malformed)
		}
		close(keys)
		time.Sleep(time.Minute)
		if len(c.Stats().Degraded) != 0 {
			t.Errorf("degraded: %v", c.Stats().Degraded)
		}
		running.stop()
	})
}

// subjectWorld has a controller that watches news of sites over a connection of its own.
type subjectWorld struct {
	*world
	c     *Controller[*site]
	seen  calls
	proxy *natstest.Proxy
	fails atomic.Bool
	slow  atomic.Int64 // how long a mapper takes
}

func newSubjectWorld(t *testing.T, w *world, opts ...nats.Option) *subjectWorld {
	t.Helper()
	s := &subjectWorld{world: w, proxy: natstest.StartProxy(t, w.server.URL())}
	unheard := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	conn, _ := natstest.Connect(t, s.proxy.URL(), append(opts, unheard)...)
	s.c, _, _ = w.runningSites(&s.seen, WatchesSubject(conn, "news.*",
		func(ctx context.Context, m *nats.Msg) ([]string, error) {
			select {
			case <-time.After(time.Duration(s.slow.Load())):
			case <-ctx.Done():
			}
			if s.fails.Load() {
				return nil, errors.New("the world is unwell")
			}
			return []string{strings.TrimPrefix(m.Subject, "news.")}, nil
		}))
	time.Sleep(5 * time.Second)
	return s
}

// since tells how often keys were reconciled because of news, and because of all being due.
func (s *subjectWorld) since(do func()) (news, all int) {
	before, beforeAll := s.seen.with("home", OperationTertiary), s.seen.with("away", OperationResync)
	do()
	time.Sleep(10 * time.Second)
	return s.seen.with("home", OperationTertiary) - before, s.seen.with("away", OperationResync) - beforeAll
}

func (s *subjectWorld) publish(n int) {
	for range n {
		must(s.t, s.js.Conn().Publish("news.home", nil))
	}
	must(s.t, s.js.Conn().Flush())
}

// degraded is what is told of the source.
func (s *subjectWorld) degraded() error { return s.c.Stats().Degraded["WatchesSubject news.*"] }

func TestMessagesOfASubjectWakeWhatTheyConcern(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSubjectWorld(t, newWorld(t))
		if n := s.seen.count("home"); n != 1 {
			t.Errorf("it was reconciled %d times as it began", n)
		}
		if news, all := s.since(func() { s.publish(1) }); news != 1 || all != 0 {
			t.Errorf("%d by news, %d by all", news, all)
		}
		s.fails.Store(true)
		if news, _ := s.since(func() { s.publish(1) }); news != 0 || s.c.Stats().MapperErrors == 0 {
			t.Errorf("%d by news that could not be mapped", news)
		}
		if news, _ := s.since(func() { s.fails.Store(false) }); news != 1 {
			t.Errorf("%d by news that were mapped again", news)
		}
	})
}

// TestWhereMessagesMayBeLostAllAreDue: they are not sent again.
func TestWhereMessagesMayBeLostAllAreDue(t *testing.T) {
	for name, loss := range map[string]func(s *subjectWorld){
		"the connection breaks": func(s *subjectWorld) {
			s.proxy.Refuse()
			time.Sleep(10 * time.Second)
			if err := s.degraded(); err == nil || !strings.Contains(err.Error(), "the connection to NATS is away") {
				s.t.Errorf("degraded: %v", err)
			}
			s.publish(1)
			s.proxy.Resume()
		},
		"for a moment": func(s *subjectWorld) { s.proxy.Cut(); s.publish(1) },
		"they come too fast": func(s *subjectWorld) {
			s.slow.Store(int64(100 * time.Millisecond))
			s.publish(20)
			time.Sleep(time.Second)
			s.slow.Store(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				s := newSubjectWorld(t, newWorld(t), nats.SyncQueueLen(4))
				if _, all := s.since(func() { loss(s) }); all == 0 {
					t.Error("not all were due")
				}
				if news, all := s.since(func() { s.publish(1) }); news != 1 || all != 0 || s.degraded() != nil {
					t.Errorf("then %d by news, %d by all, degraded: %v", news, all, s.degraded())
				}
			})
		})
	}
}

// TestMessagesThatComeTooFastForLongAreOneFact, and all primaries are due once, when it is over.
func TestMessagesThatComeTooFastForLongAreOneFact(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSubjectWorld(t, newWorld(t), nats.SyncQueueLen(4))
		_, all := s.since(func() {
			s.slow.Store(int64(100 * time.Millisecond))
			for range 20 {
				s.publish(20)
				time.Sleep(200 * time.Millisecond)
				if err := s.degraded(); err == nil || !strings.Contains(err.Error(), "faster than they are mapped") {
					t.Fatalf("degraded: %v", err)
				}
			}
			if n := s.seen.with("away", OperationResync); n != 0 {
				t.Errorf("all were due %d times while messages were dropped", n)
			}
			s.slow.Store(0)
		})
		if all != 1 || s.degraded() != nil {
			t.Errorf("all were due %d times, degraded: %v", all, s.degraded())
		}
	})
}

// TestASubjectThatIsRefusedIsNamed until it is granted, at the start and later.
func TestASubjectThatIsRefusedIsNamed(t *testing.T) {
	rights := func(denied ...string) func(*server.Options) {
		return func(o *server.Options) {
			may := &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{">"}, Deny: denied}}
			o.Users = []*server.User{{Username: "admin", Password: "x"}, {Username: "user", Password: "x", Permissions: may}}
		}
	}
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t, natstest.WithConfig(rights("news.*")))
		_, js := natstest.Connect(t, server.URL(), nats.UserInfo("admin", "x"))
		s := newSubjectWorld(t, &world{t: t, server: server, js: js}, nats.UserInfo("user", "x"))
		for range 2 {
			if err := s.degraded(); !errors.Is(err, nats.ErrPermissionViolation) ||
				!strings.Contains(err.Error(), "permission to subscribe to it") {
				t.Errorf("degraded: %v", err)
			}
			if news, _ := s.since(func() { s.publish(1) }); news != 0 {
				t.Errorf("%d by news that are refused", news)
			}
			must(t, server.Reload(rights()))
			time.Sleep(5 * time.Second)
			if news, _ := s.since(func() { s.publish(1) }); news != 1 || s.degraded() != nil {
				t.Errorf("%d by news that are granted, degraded: %v", news, s.degraded())
			}
			must(t, server.Reload(rights("news.*")))
			time.Sleep(5 * time.Second)
		}
	})
}

func TestASourceOfKeysNeedsAllThatItNeeds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		none := func(context.Context, *nats.Msg) ([]string, error) { return nil, nil }
		conn := w.js.Conn()
		for says, option := range map[string]Option{
			"a name and a channel are needed":  WatchesKeys("", make(chan string)),
			"WatchesKeys: a name":              WatchesKeys("hooks", nil),
			"a connection and a function":      WatchesSubject(nil, "news", none),
			"WatchesSubject: a connection":     WatchesSubject(conn, "news", nil),
			`WatchesSubject: "" is no subject`: WatchesSubject(conn, "", none),
			`"a..b" is no subject`:             WatchesSubject(conn, "a..b", none),
			`">.a" is no subject`:              WatchesSubject(conn, ">.a", none),
		} {
			if _, err := New("sites", sites, new(calls).reconciler(nil), option); err == nil ||
				!strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		for says, twice := range map[string]Option{
			`WatchesKeys("hooks") is given twice`:   WatchesKeys("hooks", make(chan string)),
			`WatchesSubject("news") is given twice`: WatchesSubject(conn, "news", none),
		} {
			if _, err := New("sites", sites, new(calls).reconciler(nil), twice, twice); err == nil ||
				!strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		c, err := New("sites", sites, new(calls).reconciler(nil), WatchesSubject(conn, "news.>", none))
		must(t, err)
		if set, err := c.Permissions(); err != nil || !strings.Contains(fmt.Sprint(set), "news.>") {
			t.Errorf("the permissions lack the subject: %v", err)
		}
	})
}
