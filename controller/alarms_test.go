package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
			name: "the server is down", entry: "connection to NATS", words: []string{"is down since", "made anew"},
			strike: func(a *alarmed) { a.admin.server.Stop() },
			mend:   func(a *alarmed) { must(a.t, a.admin.server.Start()) },
		},
		{
			name: "the network swallows everything", entry: "primary Site", words: []string{"sites"},
			watch:  knownWithin,
			strike: func(a *alarmed) { a.proxy.Blackhole() },
			mend:   func(a *alarmed) { a.proxy.Resume() },
		},
		{
			name: "the bucket of the primaries is deleted", entry: "primary Site", words: []string{"sites"},
			strike: func(a *alarmed) { must(a.t, a.admin.js.DeleteStream(a.t.Context(), "KV_sites")) },
			mend: func(a *alarmed) {
				a.admin.client("Site", "sites", onDisk)
				natstest.Eventually(a.t, "the brake holds", func() bool { return a.c.Stats().Brake.Engaged })
				must(a.t, a.c.ReleaseBrake(a.t.Context()))
			},
		},
		{
			name: "the bucket of the secondaries is deleted", entry: "Owns Page", words: []string{"pages"},
			strike: func(a *alarmed) { must(a.t, a.admin.js.DeleteStream(a.t.Context(), "KV_pages")) },
			mend:   func(a *alarmed) { a.admin.client("Page", "pages", onDisk) },
		},
		{
			// Nothing that asks the leader is answered. A watch whose consumer has one still gets heartbeats, and
			// misses nothing, since no write is accepted. A comparison waits two seconds for its answer, and begins a
			// bit later.
			name: "the streams have no leader", entry: "primary Site", words: []string{"sites", "no leader"},
			watch: time.Second,
			strike: func(a *alarmed) {
				pulls := natstest.To("$JS.API.CONSUMER.MSG.NEXT.>")
				a.loses(func(m *natstest.Message) bool {
					return (natstest.To("$JS.API.>")(m) || natstest.To("$KV.>")(m)) && !pulls(m)
				})
			},
			mend: func(a *alarmed) { a.proxy.Tamper(nil) },
		},
		{
			// A write of the lease waits two seconds for an acknowledgement, and begins a bit later.
			name: "the lease cannot be renewed", entry: "lease", words: []string{"sites"}, watch: time.Second,
			strike: func(a *alarmed) { a.loses(natstest.To("$KV.sites-status._nagi.lease")) },
			mend:   func(a *alarmed) { a.proxy.Tamper(nil) },
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
				receive(a.t, "it is being reconciled", a.home.begun)
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

// loses loses messages from now on.
func (a *alarmed) loses(selected func(*natstest.Message) bool) {
	a.proxy.Tamper(natstest.Each(selected, natstest.Fate{Lost: true}))
}

// TestEachFaultIsToldInTime, with what, since when, why and what to do; and it goes when it is mended.
func TestEachFaultIsToldInTime(t *testing.T) {
	for _, alarm := range alarms() {
		t.Run(alarm.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				a := newAlarmed(t)
				struck := time.Now() // a server takes a moment to stop
				alarm.strike(a)
				time.Sleep(knownWithin + alarm.watch)
				name, reason := a.told(alarm)
				t.Logf("told: %s: %v", name, reason)
				problem, ok := errors.AsType[*Problem](reason)
				if !ok || problem.Since.Before(struck) || problem.Since.After(time.Now()) {
					t.Errorf("since %+v, struck at %v", problem, struck)
				}
				alarm.mend(a)
				natstest.Eventually(t, "all is well", func() bool {
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
	natstest.Eventually(t, "all is well", func() bool {
		return len(m.c.Stats().Degraded) == 0 && count(t, m.pages) == many
	})
	return a
}

// told returns what Degraded says of a fault, which has to be all that it is to say.
func (a *alarmed) told(alarm alarm) (name string, reason error) {
	a.t.Helper()
	degraded := a.c.Stats().Degraded
	for name, reason = range degraded {
		says := strings.HasPrefix(name, alarm.entry)
		for _, word := range alarm.words {
			says = says && strings.Contains(reason.Error(), word)
		}
		if says {
			return name, reason
		}
	}
	a.t.Fatalf("it is not told: %s %q, but %v", alarm.entry, alarm.words, degraded)
	return "", nil
}

// TestAnAPIThatIsAwayIsToldInTime, once a reconcile has found that out.
func TestAnAPIThatIsAwayIsToldInTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), nil, WithWorkers(4))
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.cloud.GoAway(false)
		w.manySites(1)
		time.Sleep(knownWithin)
		if told := w.c.Stats().Degraded; told["OwnsExternal Disk"] == nil {
			t.Errorf("told %v", told)
		}
		w.cloud.ComeBack()
		natstest.Eventually(t, "all is well", func() bool { return len(w.c.Stats().Degraded) == 0 })
	})
}
