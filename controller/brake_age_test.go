package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// withRollup makes a bucket in which the server leaves markers of what expires.
func withRollup(c *entity.Config) { c.AllowRollup = true }

// inEachBucket plays a test with buckets that leave markers of what expires, and with such that leave none.
func inEachBucket(t *testing.T, play func(t *testing.T, w *world)) {
	t.Helper()
	for name, rollup := range map[string]bool{"with markers": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if rollup {
					w.client("Site", "sites", onDisk, withRollup)
				}
				play(t, w)
			})
		})
	}
}

// TestAnAgeLimitSetByMistakeTearsNothingDown, however few documents there are. They come back, and the brake goes off.
func TestAnAgeLimitSetByMistakeTearsNothingDown(t *testing.T) {
	inEachBucket(t, anAgeLimitByMistake)
}

func anAgeLimitByMistake(t *testing.T, w *world) {
	const few = 3
	m := w.massed()
	w.make(m.sites, few)
	w.settled(m.c, m.sites, few)
	w.limitAge(time.Second)
	natstest.Eventually(t, "the brake holds all", func() bool { return m.c.Stats().Brake.Held == few })
	if reason := m.c.Stats().Brake.Reason; !strings.Contains(reason, "max_age") ||
		!strings.Contains(reason, "DocumentsExpire") {
		t.Errorf("reason %q, want what to do", reason)
	}
	w.limitAge(0)
	w.make(m.sites, few)
	natstest.Eventually(t, "the brake goes off", func() bool { return !m.c.Stats().Brake.Engaged })
	w.settled(m.c, m.sites, few)
	if s := m.c.Stats(); s.TornDown != 0 || s.Cascaded != 0 {
		t.Errorf("%d torn down, %d secondaries deleted", s.TornDown, s.Cascaded)
	}
}

// TestWhatExpiredWhileNobodyWatchedIsHeld: the leader still has the markers. A release is for good, also where a crash
// comes between.
func TestWhatExpiredWhileNobodyWatchedIsHeld(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const few = 3
		sites := w.client("Site", "sites", onDisk, withRollup)
		var failing atomic.Bool
		var attempts atomic.Int64
		start := func() (*Controller[*site], *running) {
			c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) && failing.Load() {
					attempts.Add(1)
					return Result{}, errors.New("not now")
				}
				return Result{}, nil
			}), WithLeaseTiming(longLease))
			must(t, err)
			return c, w.run(c)
		}
		c, r := start()
		w.make(sites, few)
		w.settled(c, sites, few)
		r.halt()
		w.limitAge(time.Second)
		natstest.Eventually(t, "they expire", func() bool { return count(t, sites) == 0 })
		failing.Store(true)
		c, r = start()
		natstest.Eventually(t, "the brake holds all", func() bool { return c.Stats().Brake.Held == few })
		if n := attempts.Load(); n != 0 {
			t.Errorf("%d attempts to tear down", n)
		}
		must(t, c.ReleaseBrake(t.Context()))
		natstest.Eventually(t, "their teardowns fail", func() bool { return attempts.Load() >= few })
		r.halt()
		failing.Store(false)
		c, _ = start()
		natstest.Eventually(t, "they are torn down", func() bool { return c.Stats().TornDown == few })
		if n := c.Stats().BrakeEngaged; n != 0 {
			t.Errorf("the brake engaged %d times after the release", n)
		}
	})
}

// TestADocumentMayExpireWhileNobodyWatches: in a bucket without an age limit only its writer can have wanted that.
func TestADocumentMayExpireWhileNobodyWatches(t *testing.T) {
	inEachBucket(t, anExpiryWhileNobodyWatches)
}

func anExpiryWhileNobodyWatches(t *testing.T, w *world) {
	sites := w.client("Site", "sites", onDisk)
	start := func() (*Controller[*site], *running) {
		c, err := New("sites", sites, (&calls{}).reconciler(nil), WithLeaseTiming(longLease))
		must(t, err)
		return c, w.run(c)
	}
	c, r := start()
	w.putFor(6 * time.Second)
	eventuallyReason(t, sites, "home", entity.ReasonSynced)
	r.halt()
	time.Sleep(7 * time.Second)
	if n := count(t, sites); n != 0 {
		t.Fatal("it has not expired")
	}
	c, _ = start()
	natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
	if n := c.Stats().BrakeEngaged; n != 0 {
		t.Errorf("the brake engaged %d times", n)
	}
}

// putFor writes the site "home", which expires; 0 for never.
func (w *world) putFor(ttl time.Duration) {
	w.t.Helper()
	msg := nats.NewMsg("$KV.sites.home")
	msg.Data = []byte(`{"spec":{}}`)
	if ttl != 0 {
		msg.Header.Set("Nats-TTL", ttl.String())
	}
	_, err := w.js.PublishMsg(w.t.Context(), msg)
	must(w.t, err)
}

// TestADocumentMayExpire if its own writer set the time, or the configuration says that documents do.
func TestADocumentMayExpire(t *testing.T) {
	for name, test := range map[string]struct {
		ttl    time.Duration
		age    time.Duration
		change func(*entity.Config)
	}{
		"its own time":      {ttl: 6 * time.Second, change: func(*entity.Config) {}},
		"as all others may": {age: time.Second, change: func(c *entity.Config) { c.DocumentsExpire = true }},
	} {
		t.Run(name, func(t *testing.T) {
			inEachBucket(t, func(t *testing.T, w *world) {
				sites := w.client("Site", "sites", onDisk, test.change, func(c *entity.Config) {
					if test.age != 0 {
						quickCompare(c) // no marker tells
					}
				})
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil), WithLeaseTiming(longLease))
				must(t, err)
				w.run(c)
				natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
				w.putFor(test.ttl)
				natstest.Eventually(t, "it is reconciled", func() bool { return seen.count("home") > 0 })
				if test.age != 0 {
					w.limitAge(test.age)
				}
				natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
				if told := c.Stats().BrakeEngaged; told != 0 {
					t.Errorf("the brake engaged %d times", told)
				}
			})
		})
	}
}

// TestManyDocumentsMayExpireAtOnce: each writer wanted that, so the brake lets all of them go.
func TestManyDocumentsMayExpireAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.massed()
		natstest.Eventually(t, "it leads", func() bool { return m.c.Stats().Leading })
		for i := range many {
			_, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.sites." + siteName(i),
				Header: nats.Header{"Nats-TTL": {"8s"}}, Data: []byte(`{"spec":{"title":"one"}}`)})
			must(t, err)
		}
		w.settled(m.c, m.sites, many)
		natstest.Eventually(t, "all are torn down", func() bool { return m.c.Stats().TornDown == many })
		if s := m.c.Stats(); s.BrakeEngaged != 0 || s.Cascaded != many {
			t.Errorf("the brake engaged %d times, %d pages were deleted", s.BrakeEngaged, s.Cascaded)
		}
	})
}

// TestAnInvalidDocumentThatExpiresIsHeld: only its marker tells how it went, since this process has no object of it;
// or, where there is none, the age limit.
func TestAnInvalidDocumentThatExpiresIsHeld(t *testing.T) {
	inEachBucket(t, anInvalidDocumentByMistake)
}

func anInvalidDocumentByMistake(t *testing.T, w *world) {
	const few = 3
	m := w.massed()
	w.make(m.sites, few)
	w.settled(m.c, m.sites, few)
	m.r.halt()
	for i := range few {
		_, err := w.kv("sites").Put(t.Context(), siteName(i), []byte("no document"))
		must(t, err)
	}
	m = w.massed()
	natstest.Eventually(t, "they are invalid", func() bool { return m.c.Stats().Leading && m.c.Stats().Invalid == few })
	w.limitAge(time.Second)
	natstest.Eventually(t, "the brake holds all", func() bool { return m.c.Stats().Brake.Held == few })
	if s := m.c.Stats(); s.TornDown != 0 || s.Cascaded != 0 {
		t.Errorf("%d torn down, %d secondaries deleted", s.TornDown, s.Cascaded)
	}
}
