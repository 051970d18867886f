package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// usualTiming is the lease's as it is by default. A term ends 12 s after the last renewal.
var usualTiming = WithLeaseTiming(LeaseTiming{
	Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
})

// TestTwoTermsNeverOverlapWhereTheStatusBucketIsMadeAnew while one replica works: another one that has never seen it
// finds a bucket in which nothing tells of a holder.
func TestTwoTermsNeverOverlapWhereTheStatusBucketIsMadeAnew(t *testing.T) {
	for _, cut := range []bool{false, true} {
		for _, after := range []time.Duration{0, 5 * time.Millisecond, time.Second, 1999 * time.Millisecond} {
			for _, gone := range []time.Duration{0, 3 * time.Second, 10 * time.Second} {
				for _, later := range []time.Duration{0, 4 * time.Second} {
					name := fmt.Sprintf("cut %v, %v after a renewal, gone for %v, joined %v later", cut, after, gone, later)
					t.Run(name, func(t *testing.T) {
						natstest.Test(t, func(t *testing.T) { remadeWhileItWorks(t, cut, after, gone, later) })
					})
				}
			}
		}
	}
}

func remadeWhileItWorks(t *testing.T, cut bool, after, gone, later time.Duration) {
	r := newReplicas(t, usualTiming)
	time.Sleep(time.Minute + after)
	stream, err := r.w.js.Stream(t.Context(), "KV_sites-status")
	must(t, err)
	if cut {
		r.proxy.Blackhole()
	}
	must(t, r.w.js.DeleteStream(t.Context(), "KV_sites-status"))
	time.Sleep(gone)
	_, err = r.w.js.CreateStream(t.Context(), stream.CachedInfo().Config)
	must(t, err)
	time.Sleep(later)
	other := r.join(r.w.away(), usualTiming)
	time.Sleep(40 * time.Second)
	if r.two.Load() {
		t.Error("two replicas have reconciled at once")
	}
	if cut && !other.Stats().Leading {
		t.Error("the other replica does not lead, after the duration of the lease")
	}
	r.proxy.Resume()
	time.Sleep(time.Minute)
	if first, second := r.first.Stats().Leading, other.Stats().Leading; first == second || r.two.Load() {
		t.Errorf("in the end the first leads: %v, the other: %v; two at once: %v", first, second, r.two.Load())
	}
}

// TestTwoTermsNeverOverlapWhereTheStatusBucketIsMadeAnewSoonAfterTheDocuments were: their bucket is younger than the
// lease lasts, too, and yet this is no first start.
func TestTwoTermsNeverOverlapWhereTheStatusBucketIsMadeAnewSoonAfterTheDocuments(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newReplicas(t, usualTiming)
		time.Sleep(5 * time.Second)
		must(t, r.w.js.DeleteStream(t.Context(), "KV_sites-status"))
		time.Sleep(3 * time.Second)
		r.join(r.w.away(), usualTiming) // it makes the status bucket
		time.Sleep(time.Minute)
		if r.two.Load() {
			t.Error("two replicas have reconciled at once")
		}
	})
}

// TestAReplicaCountsWhoWatchesTheDocumentsOnceItDoesItself: a cache lists with one consumer and watches with the next.
// Between the two, the one that a replica sees may be another's.
func TestAReplicaCountsWhoWatchesTheDocumentsOnceItDoesItself(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newReplicas(t, usualTiming)
		time.Sleep(time.Minute)
		stream, err := r.w.js.Stream(t.Context(), "KV_sites-status")
		must(t, err)
		must(t, r.w.js.DeleteStream(t.Context(), "KV_sites-status"))
		time.Sleep(10 * time.Second)
		_, err = r.w.js.CreateStream(t.Context(), stream.CachedInfo().Config)
		must(t, err)
		w := r.w.away()
		proxy := natstest.StartProxy(t, w.server.URL())
		_, w.js = natstest.Connect(t, proxy.URL())
		proxy.Tamper(natstest.Nth(2, natstest.To("$JS.API.CONSUMER.CREATE.KV_sites.>"),
			natstest.Fate{Late: 300 * time.Millisecond}))
		r.join(w, usualTiming)
		time.Sleep(time.Minute)
		if r.two.Load() {
			t.Error("two replicas have reconciled at once")
		}
	})
}

// TestALeaseThatWasPurgedIsLeftToAHolderThatHasReconciledNothing yet: there is no record that tells of it.
func TestALeaseThatWasPurgedIsLeftToAHolderThatHasReconciledNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		proxy := natstest.StartProxy(t, w.server.URL())
		_, js := natstest.Connect(t, proxy.URL())
		r := &replicas{w: w, proxy: proxy}
		r.first = r.join(&world{t: t, server: w.server, js: js}, usualTiming)
		time.Sleep(time.Minute)
		must(t, w.sites().Create(t.Context(), newSite("home", ""))) // it is reconciled until the term ends
		natstest.Eventually(t, "it works", func() bool { return r.first.Stats().Running == 1 })
		proxy.Blackhole()
		stream, err := w.js.Stream(t.Context(), "KV_sites-status")
		must(t, err)
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.sites-status._nagi.lease")))
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.sites-status.home")))
		other := r.join(w.away(), usualTiming)
		time.Sleep(40 * time.Second)
		if r.two.Load() || !other.Stats().Leading {
			t.Errorf("two replicas have reconciled at once: %v; the other leads: %v", r.two.Load(), other.Stats().Leading)
		}
	})
}

// TestAFirstStartDoesNotWait for a holder that never was: where all is new, where the bucket of documents is old and
// the replica makes the status bucket, and where both are old.
func TestAFirstStartDoesNotWait(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"all is new": func(*world) {},
		"the documents are older": func(w *world) {
			_, err := w.js.CreateKeyValue(w.t.Context(), jetstream.KeyValueConfig{Bucket: "sites", History: 1})
			must(w.t, err)
			time.Sleep(time.Hour)
		},
		"both are older": func(w *world) {
			w.sites()
			time.Sleep(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				prepare(w)
				c, err := New("sites", w.sites(), new(calls).reconciler(nil))
				must(t, err)
				began := time.Now()
				w.run(c)
				natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
				if took := time.Since(began); took > time.Second {
					t.Errorf("it led after %v", took)
				}
			})
		})
	}
}

// TestANewLeaderWaitsForTheRecordsOfTheStreamThatHasItsLease: a standby that has seen many revisions of a stream that
// is no more is not done with a new stream because its sequences are lower.
func TestANewLeaderWaitsForTheRecordsOfTheStreamThatHasItsLease(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newReplicas(t, usualTiming)
		w := r.w.away()
		proxy := natstest.StartProxy(t, w.server.URL())
		_, w.js = natstest.Connect(t, proxy.URL())
		sites := w.sites()
		other, err := New("sites", sites, new(calls).reconciler(nil), usualTiming)
		must(t, err)
		w.run(other)
		time.Sleep(time.Minute)
		r.proxy.Blackhole()
		stream, err := r.w.js.Stream(t.Context(), "KV_sites-status")
		must(t, err)
		must(t, r.w.js.DeleteStream(t.Context(), "KV_sites-status"))
		// It cannot watch the new stream, and can write the lease.
		proxy.Tamper(natstest.Each(func(m *natstest.Message) bool {
			return m.Direction == natstest.ToServer &&
				strings.HasPrefix(m.Subject, "$JS.API.CONSUMER.CREATE.KV_sites-status")
		}, natstest.Fate{Lost: true}))
		_, err = r.w.js.CreateStream(t.Context(), stream.CachedInfo().Config)
		must(t, err)
		time.Sleep(time.Minute)
		if other.Stats().Leading {
			t.Error("it leads with the records of a stream that is no more")
		}
		proxy.Tamper(nil)
		natstest.Eventually(t, "it leads", func() bool { return other.Stats().Leading })
	})
}

// TestAFreeLeaseThatWasPutBackIsLeftToAHolderThatHasNotNoticed: it is of a backup of when no replica ran. Where the lease
// was given back in the stream that is there, however young, the next replica takes it at once.
func TestAFreeLeaseThatWasPutBackIsLeftToAHolderThatHasNotNoticed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		must(t, w.sites().Create(t.Context(), newSite("home", "")))
		r := &replicas{w: w, proxy: natstest.StartProxy(t, w.server.URL())}
		leads := func(c *Controller[*site], within time.Duration) {
			t.Helper()
			began := time.Now()
			natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
			if took := time.Since(began); took > within {
				t.Errorf("it led after %v", took)
			}
		}
		first, err := New("sites", w.sites(), new(calls).reconciler(nil), usualTiming)
		must(t, err)
		running := w.run(first)
		leads(first, time.Second)
		running.halt()
		backup := w.snapshotOf("sites-status", "today's")
		_, js := natstest.Connect(t, r.proxy.URL())
		leads(r.join(&world{t: t, server: w.server, js: js}, usualTiming), time.Second)
		time.Sleep(time.Minute)
		r.proxy.Blackhole()
		must(t, w.js.DeleteStream(t.Context(), "KV_sites-status"))
		must(t, backup.Restore(t.Context(), w.js.Conn()))
		other := r.join(w.away(), usualTiming)
		time.Sleep(time.Second)
		wantDegraded(t, &member{c: other}, "_nagi.lease is that of a backup, which is free")
		leads(other, 20*time.Second) // the lease's duration, and a retry, of 4.4 s at most
		r.proxy.Resume()
		time.Sleep(time.Minute)
		if r.two.Load() {
			t.Error("two replicas have reconciled at once")
		}
	})
}
