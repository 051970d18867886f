package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// startDisks runs a controller whose sites own disks behind the API, once the lease of the one before is over.
func (w *crashedCloud) startDisks() *mortalCaller {
	w.t.Helper()
	m := &mortalCaller{mortal: w.mortal()}
	driver := cloudtest.NewDriver(w.cloud.Server.URL)
	w.t.Cleanup(driver.HTTP.CloseIdleConnections)
	m.way, driver.HTTP.Transport = driver.HTTP.Transport, m
	config := quick
	config.Interval, config.Timeout = 100*time.Millisecond, time.Second
	sites := m.sites()
	c, err := New("crash", sites, disksOf(sites, driver, quickly...),
		OwnsExternal(external.Configure(cloudtest.Client{Driver: driver}, config)), WithGracePeriod(0),
		WithWorkers(4), WithResyncInterval(0)) // no sweep makes up for what is forgotten
	must(w.t, err)
	m.live(c)
	natstest.Eventually(w.t, "it leads", func() bool { return c.Stats().Leading })
	return m
}

// mortalCaller is a mortal that also calls an API. When it is dead it hears no answer, and calls no more.
type mortalCaller struct {
	*mortal
	way http.RoundTripper
}

var errDead = errors.New("the process is dead")

// RoundTrip implements http.RoundTripper.
func (m *mortalCaller) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	response, err := m.way.RoundTrip(r)
	if err == nil && m.dead.Load() {
		_ = response.Body.Close()
		return nil, errDead
	}
	return response, err
}

// CloseIdleConnections does so, for http.Client.
func (m *mortalCaller) CloseIdleConnections() { m.way.(*http.Transport).CloseIdleConnections() }

// crashedCloud is what outlives the processes.
type crashedCloud struct {
	*world
	cloud *cloudtest.Cloud
	sites *entity.Client[*site]
	want  map[string]int // sizes of disks
}

func newCrashedCloud(t *testing.T) *crashedCloud {
	w := &crashedCloud{world: newWorld(t), cloud: cloudtest.New(t), want: map[string]int{}}
	w.sites = w.world.sites()
	return w
}

// put creates or updates a site; size 0 deletes it.
func (w *crashedCloud) put(key string, size int) {
	w.t.Helper()
	_, exists := w.want[key]
	switch {
	case size == 0:
		must(w.t, w.sites.Delete(w.t.Context(), key))
		delete(w.want, key)
		return
	case exists:
		must(w.t, w.sites.Patch(w.t.Context(), key, fmt.Appendf(nil, `{"spec":{"pages":%d}}`, size)))
	default:
		must(w.t, w.sites.Create(w.t.Context(), sized(key, size)))
	}
	w.want[key] = size
}

// diff says, by live reads, what is not as the sites say; "" if nothing is.
func (w *crashedCloud) diff(keys []string) string {
	ctx := w.t.Context()
	w.cloud.Mu.Lock()
	doubles := slices.Clone(w.cloud.Doubles)
	w.cloud.Mu.Unlock()
	if len(doubles) > 0 {
		w.t.Fatalf("created twice: %v", doubles)
	}
	if have := w.cloud.Count(); have != len(w.want) {
		return fmt.Sprintf("%d disks, want %d", have, len(w.want))
	}
	for _, key := range keys {
		size, exists := w.want[key]
		kept, _, err := w.sites.Records().GetReserved(ctx, record.IntentsKey(key))
		if exists && strings.Contains(string(kept), `"intent"`) || !exists && !apierrors.IsNotFound(err) {
			return fmt.Sprintf("an intent of %s is left: %s (%v)", key, kept, err)
		}
		record, err := w.sites.Record(ctx, key)
		switch {
		case !exists && apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Sprintf("record of %s: %v", key, err)
		case !exists:
			return fmt.Sprintf("record of %s, which is gone: %+v", key, record)
		default:
			s, err := w.sites.Get(ctx, key)
			must(w.t, err)
			if disk := fmt.Sprintf("=%d", size); w.cloud.Of(key) != disk ||
				strconv.FormatUint(record.ObservedRevision, 10) != s.ResourceVersion {
				return fmt.Sprintf("%s: disk %q, want %q; record %+v", key, w.cloud.Of(key), disk, record)
			}
		}
	}
	return ""
}

// converges waits until all is as the sites say.
func (w *crashedCloud) converges(keys []string) {
	w.t.Helper()
	diff := "not looked yet"
	defer func() {
		if w.t.Failed() {
			w.t.Logf("last difference: %s", diff)
		}
	}()
	natstest.Eventually(w.t, "disks, intents and records are exactly as the sites say", func() bool {
		diff = w.diff(keys)
		return diff == ""
	})
}

// TestACrashBetweenIntentApplyAndRecord: the controller dies at each step of a creation, a change and a deletion: when
// the call arrives, when it was carried out and is not answered, when the result is about to be observed.
func TestACrashBetweenIntentApplyAndRecord(t *testing.T) {
	moments := []struct {
		name        string
		stage, call string
		after       string // a call that must have been made before
		async       bool
	}{
		{"create arrives", "before", "POST disks", "", false},
		{"created, not answered", "after", "POST disks", "", false},
		{"created, about to be observed", "before", "GET find", "POST disks", false},
		{"created, observed, about to be recorded", "after", "GET find", "POST disks", false},
		{"create begun, not answered", "after", "POST disks", "", true},
		{"create begun, polled", "before", "GET operations", "", true},
		{"update arrives", "before", "PUT disks", "", false},
		{"updated, not answered", "after", "PUT disks", "", false},
		{"updated, about to be observed", "before", "GET find", "PUT disks", false},
		{"delete arrives", "before", "DELETE disks", "", false},
		{"deleted, not answered", "after", "DELETE disks", "", false},
		{"deleted, about to be observed", "before", "GET find", "DELETE disks", false},
	}
	for _, moment := range moments {
		t.Run(moment.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newCrashedCloud(t)
				first := w.startDisks()
				made := func(call string) bool { return call == moment.call || call == moment.after }
				creates := made("POST disks") || made("GET operations")
				for _, key := range crashKeys {
					if !creates {
						w.put(key, 1)
					}
				}
				if !creates {
					w.converges(crashKeys)
				}
				held := w.hold(moment.stage, moment.call, moment.after, moment.async)
				for _, key := range crashKeys {
					switch {
					case made("DELETE disks"):
						w.put(key, 0)
					case creates:
						w.put(key, 1)
					default:
						w.put(key, 2)
					}
				}
				for range crashKeys {
					receive(t, "the moment", held.arrived)
				}
				first.dies()
				w.put("changed", 3)
				if w.want["deleted"] > 0 {
					w.put("deleted", 0)
				}
				close(held.release) // what was on its way when the first died arrives now
				first.bury()
				w.startDisks()
				w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = false })
				done := make(chan struct{})
				defer close(done)
				go finishing(w.cloud, done)
				w.converges(crashKeys)
			})
		})
	}
}

// crashKeys are sites that go on as they were, are deleted, or changed while nobody runs.
var crashKeys = []string{"goeson", "deleted", "changed"}

// heldCalls are calls that the API holds up, the first for each site.
type heldCalls struct{ arrived, release chan struct{} }

// hold holds up a call at a stage, for each site; with after, one that comes after another call.
func (w *crashedCloud) hold(stage, call, after string, async bool) heldCalls {
	held := heldCalls{arrived: make(chan struct{}, len(crashKeys)), release: make(chan struct{})}
	var mu sync.Mutex
	made, once := map[string]bool{"": after == ""}, map[string]bool{"": true}
	w.cloud.Set(func(c *cloudtest.Cloud) {
		c.Async = async
		c.Stage = func(at, what, owner string) {
			mu.Lock()
			holds := at == stage && what == call && (made[owner] || made[""]) && !once[owner]
			if holds {
				once[owner] = true
			}
			if at == "after" && what == after {
				made[owner] = true
			}
			mu.Unlock()
			if holds {
				held.arrived <- struct{}{}
				<-held.release
			}
		}
	})
	return held
}

// finishing ends the operations of a cloud now and then.
func finishing(c *cloudtest.Cloud, done <-chan struct{}) {
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			c.Finish("")
		}
	}
}

// TestCrashesAtRandomPointsNeitherCreateTwiceNorForget: controllers die one after the other, each at some message
// between it and the server, while sites are created, changed and deleted, and the API is slow, shows late what was
// created, is away now and then, and does things as operations.
func TestCrashesAtRandomPointsNeitherCreateTwiceNorForget(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCrashedCloud(t)
		rng := seeded(t)
		var keys []string
		for i := range 40 {
			keys = append(keys, fmt.Sprintf("s%02d", i))
		}
		for _, key := range keys[:25] {
			w.put(key, 1+rng.IntN(5))
		}
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Lag = 20 * time.Millisecond
			// the API takes its time
			c.Stage = func(_, _, _ string) { <-time.After(time.Duration(rand.IntN(8)) * time.Millisecond) }
		})
		done := make(chan struct{})
		defer close(done)
		go finishing(w.cloud, done)
		for range 10 * soak() {
			async, away := rng.IntN(3) == 0, rng.IntN(4) == 0
			w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = async })
			m := w.startDisks()
			if away {
				w.cloud.GoAway(rng.IntN(2) == 0)
			}
			m.diesAtMessage(1+rng.IntN(300), rng.IntN(2) == 0)
			for deleted := 0; !m.dead.Load(); time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond) {
				if rng.IntN(20) == 0 {
					w.cloud.ComeBack()
				}
				key := keys[rng.IntN(len(keys))]
				switch _, exists := w.want[key]; {
				// more at once would be the brake's business
				case exists && deleted < 8 && len(w.want) > 20 && rng.IntN(2) == 0:
					w.put(key, 0)
					deleted++
				default:
					w.put(key, 1+rng.IntN(5))
				}
			}
			w.cloud.ComeBack()
			m.bury()
		}
		w.startDisks()
		w.converges(keys)
		t.Logf("%d disks were created for %d that are left", w.cloud.Made(), len(w.want))
	})
}
