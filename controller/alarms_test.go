package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// alarm is a fault, and what Stats().Degraded is to say of it.
type alarm struct {
	name string
	// watch is how long it takes until the fault can be known: nothing tells of a network that swallows everything.
	watch time.Duration
	// strike lets the fault happen, to what was started with run before.
	strike func(a *alarmed)
	mend   func(a *alarmed)
	// entry begins the name in Degraded. words are in the reason.
	entry string
	words []string
}

// alarmed is a controller behind a proxy, and its server.
type alarmed struct {
	*massed
	admin *world
	proxy *natstest.Proxy
	home  *stubborn
}

// knownWithin is how soon a fault shows.
const knownWithin = 2 * time.Second

func alarms() []alarm {
	return []alarm{
		{
			name: "the server is down", entry: "primary Site", words: []string{"sites"},
			strike: func(a *alarmed) { a.admin.server.Stop() },
			mend:   func(a *alarmed) { must(a.t, a.admin.server.Start()) },
		},
		{
			name: "the network swallows everything", entry: "primary Site", words: []string{"sites"}, watch: knownWithin,
			strike: func(a *alarmed) { a.proxy.Blackhole() },
			mend:   func(a *alarmed) { a.proxy.Resume() },
		},
		{
			name: "the bucket of the primaries is deleted", entry: "primary Site", words: []string{"sites"},
			strike: func(a *alarmed) { must(a.t, a.admin.js.DeleteStream(a.t.Context(), "KV_sites")) },
			mend: func(a *alarmed) {
				a.admin.client("Site", "sites", onDisk)
				eventually(a.t, "the brake holds", func() bool { return a.c.Stats().Brake.Engaged })
				must(a.t, a.c.ReleaseBrake(a.t.Context()))
			},
		},
		{
			name: "the bucket of the secondaries is deleted", entry: "Owns Page", words: []string{"pages"},
			strike: func(a *alarmed) { must(a.t, a.admin.js.DeleteStream(a.t.Context(), "KV_pages")) },
			mend:   func(a *alarmed) { a.admin.client("Page", "pages", onDisk) },
		},
		{
			name: "the status bucket is deleted", entry: "", words: []string{"sites-status", "does not exist"},
			strike: func(a *alarmed) {
				must(a.t, a.admin.js.DeleteStream(a.t.Context(), "KV_sites-status"))
				a.admin.put("sites", "new", `{"spec":{"title":"new"}}`)
			},
			mend: func(a *alarmed) { a.admin.client("Site", "sites", onDisk) },
		},
		{
			name: "the status bucket is full", entry: "records (bucket sites-status)",
			words: []string{"max_bytes", "sites-status"},
			strike: func(a *alarmed) {
				a.admin.limitBytes("sites-status", 10)
				a.admin.put("sites", "new", `{"spec":{"title":"new"}}`)
			},
			mend: func(a *alarmed) { a.admin.limitBytes("sites-status", -1) },
		},
		{
			name: "a record does not decode", entry: "", words: []string{"sites-status", "mend or delete"},
			strike: func(a *alarmed) { a.admin.put("sites-status", siteName(3), "{") },
			mend: func(a *alarmed) {
				must(a.t, a.admin.kv("sites-status").Delete(a.t.Context(), siteName(3)))
			},
		},
		{
			name: "the primaries vanish", entry: "brake", words: []string{"20 of 20 primaries", "ReleaseBrake"},
			strike: func(a *alarmed) { a.admin.emptied("sites") },
			mend:   func(a *alarmed) { must(a.t, a.c.ReleaseBrake(a.t.Context())) },
		},
		{
			name: "a reconcile outlives its lease", entry: "end of the term", words: []string{`"home"`},
			strike: func(a *alarmed) {
				a.admin.put("sites", "home", `{"spec":{"title":"new"}}`)
				within(a.t, "it is being reconciled", a.home.begun)
				a.admin.leaseTo("another", 5*time.Minute)
				<-a.home.ended
			},
			mend: func(a *alarmed) {
				a.home.free()
				a.admin.leaseTo("", time.Second)
			},
		},
	}
}

// TestSoakEachFaultIsToldInTime, with what, since when, why and what to do; and it goes when it is mended.
func TestSoakEachFaultIsToldInTime(t *testing.T) {
	for _, alarm := range alarms() {
		t.Run(alarm.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				a := newAlarmed(t)
				alarm.strike(a)
				struck := time.Now()
				name, reason := a.told(alarm)
				took := time.Since(struck)
				t.Logf("told after %v: %s: %v", took.Round(time.Millisecond), name, reason)
				if took > knownWithin+alarm.watch {
					t.Errorf("told after %v, want within %v", took, knownWithin+alarm.watch)
				}
				problem, ok := errors.AsType[*Problem](reason)
				if !ok || problem.Since.Before(struck.Add(-knownWithin)) || problem.Since.After(time.Now()) {
					t.Errorf("since %+v, struck at %v", problem, struck)
				}
				alarm.mend(a)
				eventually(t, "all is well", func() bool {
					s := a.c.Stats()
					return len(s.Degraded) == 0 && s.Leading
				})
			})
		})
	}
}

func newAlarmed(t *testing.T) *alarmed {
	t.Helper()
	a := &alarmed{admin: newWorld(t), home: newStubborn(t)}
	a.proxy = natstest.StartProxy(t, a.admin.server.URL())
	w := a.admin.away()
	_, w.js = natstest.Connect(t, a.proxy.URL())
	m := &massed{world: w, sites: w.client("Site", "sites", quickCompare, onDisk),
		pages: w.client("Page", "pages", quickCompare, onDisk)}
	page := onePage(m.sites, m.pages)
	var err error
	m.c, err = New("sites", m.sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		if req.Key == "home" {
			return a.home.reconcile(ctx, req)
		}
		return page(ctx, req)
	}), Owns(m.pages), slowRenewal, WithWorkers(4))
	must(t, err)
	m.r = w.run(m.c)
	a.massed = m
	m.make(m.sites, many)
	m.settled(m.c, m.sites, many)
	eventually(t, "all is well", func() bool { return len(m.c.Stats().Degraded) == 0 && count(t, m.pages) == many })
	return a
}

// told waits until Degraded says all that it is to say.
func (a *alarmed) told(alarm alarm) (name string, reason error) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("it is told: %s %q", alarm.entry, alarm.words), func() bool {
		for name, reason = range a.c.Stats().Degraded {
			says := strings.HasPrefix(name, alarm.entry)
			for _, word := range alarm.words {
				says = says && strings.Contains(reason.Error(), word)
			}
			if says {
				return true
			}
		}
		return false
	})
	return name, reason
}

// TestSoakAStreamWithoutALeaderIsToldInTime: two of three servers are gone, and the third answers nothing. A watch
// whose consumer is on the third one still gets heartbeats, and misses nothing, since no write is accepted. Then it is
// the lease that cannot be renewed.
func TestSoakAStreamWithoutALeaderIsToldInTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		cluster := natstest.StartCluster(t, 3)
		_, js := natstest.Connect(t, cluster.URLs())
		w := &world{t: t, js: js}
		replicated := func(c *entity.Config) { c.Replicas = 3 }
		sites := w.client("Site", "sites", onDisk, replicated)
		c, err := New("sites", sites, (&calls{}).reconciler(nil), slowRenewal)
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		leader := cluster.StreamLeader("KV_sites")
		down := []int{(leader + 1) % 3, leader} // the others would elect one, or go on
		for _, i := range down {
			cluster.Stop(i)
		}
		struck, limit := time.Now(), knownWithin
		eventually(t, "it is told", func() bool {
			for name, reason := range c.Stats().Degraded {
				watch, lease := strings.HasPrefix(name, "primary Site"), strings.HasPrefix(name, "lease")
				if (watch || lease) && strings.Contains(reason.Error(), "sites") {
					if !watch {
						limit += time.Second // its write waits two seconds for an acknowledgement, and begins a bit later
					}
					return true
				}
			}
			return false
		})
		took := time.Since(struck)
		t.Logf("told after %v: %v", took.Round(time.Millisecond), c.Stats().Degraded)
		if took > limit {
			t.Errorf("told after %v, want within %v", took, limit)
		}
		for _, i := range down {
			must(t, cluster.Start(i))
		}
		eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 && c.Stats().Leading })
	})
}

// TestSoakAnAPIThatIsAwayIsToldInTime, once a reconcile has found that out.
func TestSoakAnAPIThatIsAwayIsToldInTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), nil, WithWorkers(4))
		w.run(w.c)
		eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.cloud.GoAway(false)
		w.manySites(1)
		struck := time.Now()
		eventually(t, "it is told", func() bool { return w.c.Stats().Degraded["OwnsExternal Disk"] != nil })
		if took := time.Since(struck); took > knownWithin {
			t.Errorf("told after %v, want within %v", took, knownWithin)
		}
		w.cloud.ComeBack()
		eventually(t, "all is well", func() bool { return len(w.c.Stats().Degraded) == 0 })
	})
}
