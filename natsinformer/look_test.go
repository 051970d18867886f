package natsinformer

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// noticed is within which time what a stream's state shows is in the store.
const noticed = 5 * time.Second

// TestAPurgeIsNoticedWithinSeconds: it sends nothing, and the count of keys is compared every few minutes only where
// that costs the server much. But the stream's state shows it.
func TestAPurgeIsNoticedWithinSeconds(t *testing.T) {
	purge := func(opts ...jetstream.StreamPurgeOpt) func(*testing.T, jetstream.Stream, jetstream.KeyValue) {
		return func(t *testing.T, s jetstream.Stream, _ jetstream.KeyValue) { must(t, s.Purge(t.Context(), opts...)) }
	}
	thenPuts := func(t *testing.T, s jetstream.Stream, kv jetstream.KeyValue) {
		must(t, s.Purge(t.Context()))
		for i := range 40 {
			put(t, kv, fmt.Sprintf("in.new%d", i), i)
		}
	}
	for name, loses := range map[string]func(*testing.T, jetstream.Stream, jetstream.KeyValue){
		"the whole":         purge(),
		"a subject":         purge(jetstream.WithPurgeSubject("$KV.b.in.k7")),
		"all but a few":     purge(jetstream.WithPurgeKeep(5)),
		"up to a sequence":  purge(jetstream.WithPurgeSequence(20)),
		"and then new puts": thenPuts,
	} {
		for _, history := range []uint8{1, 5} {
			for _, filter := range []string{"", "in.*"} {
				subtest(t, fmt.Sprintf("%s, history %d, filter %q", name, history, filter), func(t *testing.T) {
					js := connect(t, natstest.Start(t).URL())
					kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", History: history})
					for i := range 30 {
						put(t, kv, fmt.Sprintf("in.k%d", i), i)
						if filter != "" {
							put(t, kv, fmt.Sprintf("out.k%d", i), i)
						}
					}
					r := start(t, js, Config{Bucket: "b", Filter: filter}).synced(t)
					time.Sleep(time.Hour)
					before := r.Status()
					stream, err := js.Stream(t.Context(), "KV_b")
					must(t, err)
					loses(t, stream, kv)
					time.Sleep(noticed)
					for _, key := range r.GetStore().ListKeys() {
						if _, err := kv.Get(t.Context(), key); err != nil {
							t.Errorf("%v later %s is still in the store", noticed, key)
						}
					}
					if st := r.Status(); st.Lists != before.Lists+1 || st.Suspect != nil {
						t.Errorf("%d lists more; suspects %v", st.Lists-before.Lists, st.Suspect)
					}
					time.Sleep(time.Hour)
					if st := r.Status(); st.Lists != before.Lists+1 {
						t.Errorf("an hour later %d lists more", st.Lists-before.Lists)
					}
				})
			}
		}
	}
}

// TestOnePurgeAfterTheOtherIsNoticed, though a list for a difference mostly rests until the next interval.
func TestOnePurgeAfterTheOtherIsNoticed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		for i := range 10 {
			put(t, kv, fmt.Sprint("k", i), i)
		}
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		stream, err := js.Stream(t.Context(), "KV_b")
		must(t, err)
		for i := range 3 {
			time.Sleep(10 * time.Second)
			must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(fmt.Sprint("$KV.b.k", i))))
			time.Sleep(2 * noticed)
			if r.get(fmt.Sprint("k", i)) != nil {
				t.Errorf("purge %d was not noticed", i+1)
			}
		}
	})
}

// TestAPurgeIsSuspectedUntilTheStoreShowsIt, however long the list takes.
func TestAPurgeIsSuspectedUntilTheStoreShowsIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		for i := range 10 {
			put(t, kv, fmt.Sprint("k", i), i)
		}
		var holds atomic.Bool
		creates := natstest.To("$JS.API.CONSUMER.CREATE.KV_b.>")
		js := tampered(t, server, func(m *natstest.Message) natstest.Fate {
			if holds.Load() && creates(m) {
				return natstest.Fate{Late: 10 * time.Second}
			}
			return natstest.Fate{}
		})
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		time.Sleep(time.Minute)
		if why := r.Status().Suspect; why != nil {
			t.Errorf("suspects %v", why)
		}
		holds.Store(true)
		purged := time.Now()
		stream, err := admin.Stream(t.Context(), "KV_b")
		must(t, err)
		must(t, stream.Purge(t.Context()))
		time.Sleep(noticed)
		if st := r.Status(); st.Suspect == nil || st.SuspectSince.Before(purged) || len(r.GetStore().ListKeys()) == 0 {
			t.Errorf("%v after the purge the informer suspects %v since %v, and has %d keys",
				noticed, st.Suspect, st.SuspectSince, len(r.GetStore().ListKeys()))
		}
		holds.Store(false)
		time.Sleep(20 * time.Second)
		if st := r.Status(); st.Suspect != nil || len(r.GetStore().ListKeys()) != 0 {
			t.Errorf("suspects %v, and has %d keys", st.Suspect, len(r.GetStore().ListKeys()))
		}
	})
}

// TestWhatGrowsTooOldCausesNoStorm: where an age limit leaves no marker, keys go without a message all the time.
func TestWhatGrowsTooOldCausesNoStorm(t *testing.T) {
	for _, filter := range []string{"", "in.*"} {
		subtest(t, filter, func(t *testing.T) {
			var counts atomic.Int64
			server := natstest.Start(t)
			admin := connect(t, server.URL())
			kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b", TTL: 10 * time.Minute})
			js := tampered(t, server, func(m *natstest.Message) natstest.Fate {
				if isCount(m) {
					counts.Add(1)
				}
				return natstest.Fate{}
			})
			r := start(t, js, Config{Bucket: "b", Filter: filter}).synced(t)
			for i := range 6 * 60 {
				put(t, kv, fmt.Sprint("in.k", i), i)
				time.Sleep(10 * time.Second)
			}
			const most = 60/5 + 6 // an hour has 12 intervals
			if st := r.Status(); st.Lists > most || st.Suspect != nil && filter == "" {
				t.Errorf("%d lists in an hour, want at most %d; suspects %v", st.Lists, most, st.Suspect)
			}
			if counts.Load() > 30*most { // six for each comparison
				t.Errorf("%d counts with a filter in an hour", counts.Load())
			}
			stream, err := admin.Stream(t.Context(), "KV_b")
			must(t, err)
			must(t, stream.Purge(t.Context()))
			time.Sleep(2 * noticed)
			if left := r.GetStore().ListKeys(); len(left) > 0 && filter == "" {
				t.Errorf("%v after a purge %d keys are left", 2*noticed, len(left))
			}
		})
	}
}

// TestALookCostsOneSmallRequest: there may be many informers.
func TestALookCostsOneSmallRequest(t *testing.T) {
	for _, filter := range []string{"", "in.*"} {
		subtest(t, filter, func(t *testing.T) {
			var requests, counts atomic.Int64
			server := natstest.Start(t)
			admin := connect(t, server.URL())
			kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
			put(t, kv, "in.k", 1)
			toInfo := natstest.To(infoRequests)
			js := tampered(t, server, func(m *natstest.Message) natstest.Fate {
				if toInfo(m) {
					requests.Add(1)
				}
				if isCount(m) {
					counts.Add(1)
				}
				return natstest.Fate{}
			})
			r := start(t, js, Config{Bucket: "b", Filter: filter}).synced(t)
			time.Sleep(time.Minute)
			requests.Store(0)
			counts.Store(0)
			lists := r.Status().Lists
			for i := range 10 * 60 { // overwritten ten times a second
				put(t, kv, fmt.Sprint("in.k", i%3), i)
				time.Sleep(100 * time.Millisecond)
			}
			if n := requests.Load(); n > 25 || counts.Load() > 0 || r.Status().Lists != lists {
				t.Errorf("%d requests and %d counts with a filter in a minute, and %d lists",
					n, counts.Load(), r.Status().Lists-lists)
			}
		})
	}
}

// TestTheExpiryOfAMarkerIsNoPurge: the stream begins later after it, and the store shows nothing that is gone.
func TestTheExpiryOfAMarkerIsNoPurge(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Second})
		r := start(t, js, Config{Bucket: "b", Filter: "in.*"}).synced(t)
		for round := range 5 {
			put(t, kv, "in.gone", round)
			must(t, kv.Purge(t.Context(), "in.gone", jetstream.PurgeTTL(10*time.Second)))
			put(t, kv, "in.stays", round) // so the marker is the head of the stream
			for range 300 {
				time.Sleep(100 * time.Millisecond)
				if why := r.Status().Suspect; why != nil {
					t.Fatalf("round %d: suspects %v", round, why)
				}
			}
		}
	})
}

// TestTheOldestKnownRevisionIsOneThatHasNotExpired: a key or a marker whose time is over may be gone by itself.
func TestTheOldestKnownRevisionIsOneThatHasNotExpired(t *testing.T) {
	k := newKeys()
	k.live.set("brief", known{revision: 1})
	k.live.set("lasting", known{revision: 4})
	k.expires.set("brief", 100, false)
	k.tombs["brief marker"], k.tombs["marker"] = tombstone{revision: 2, expires: 200}, tombstone{revision: 3}
	for at, want := range map[int64]uint64{99: 1, 100: 2, 199: 2, 200: 3, 1000: 3} {
		if got := k.oldest(at); got != want {
			t.Errorf("at %d: %d, want %d", at, got, want)
		}
	}
}
