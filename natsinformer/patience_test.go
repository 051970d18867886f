package natsinformer

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// deleteConsumers deletes the consumers that there are.
func deleteConsumers(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	for name := range stream.ConsumerNames(t.Context()).Name() {
		must(t, stream.DeleteConsumer(t.Context(), name))
	}
}

// tampered is a connection whose messages decide can hold up, change or lose, see [natstest.Proxy.Tamper].
func tampered(t *testing.T, s *natstest.Server, decide func(*natstest.Message) natstest.Fate) jetstream.JetStream {
	t.Helper()
	proxy := natstest.StartProxy(t, s.URL())
	proxy.Tamper(decide)
	return connect(t, proxy.URL())
}

// lossy is a connection that loses the requests to a subject while lost says so of them.
func lossy(
	t *testing.T, s *natstest.Server, subject string, lost func(*natstest.Message) bool,
) jetstream.JetStream {
	t.Helper()
	to := natstest.To(subject)
	return tampered(t, s, func(m *natstest.Message) natstest.Fate { return natstest.Fate{Lost: to(m) && lost(m)} })
}

// The requests of an informer, as subjects to tamper with.
const (
	infoRequests = "$JS.API.STREAM.INFO.KV_b"
	getRequests  = "$JS.API.STREAM.MSG.GET.KV_b"
	nextRequests = "$JS.API.CONSUMER.MSG.NEXT.KV_b.*"
)

// TestRecoveryIsPromptAfterALongSilence: however long nothing was heard of the consumers, the promise holds.
func TestRecoveryIsPromptAfterALongSilence(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		var mute atomic.Bool
		js := lossy(t, server, nextRequests, func(*natstest.Message) bool { return mute.Load() })
		var o told
		r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
		r.follows(t, kv, "k", 2, atOnce)
		mute.Store(true)
		deleteConsumers(t, admin)
		o.of(t, "no message and no heartbeat")
		time.Sleep(time.Minute)
		mute.Store(false)
		r.follows(t, kv, "k", 3, prompt)
		o.healed(t)
	})
}

// TestTheWatchBeginsWhereEachAnswerTakesLong: a server may need longer for several answers than one request may wait,
// as where values are large. Requests that wait behind an answer are not sent again, or the server would fall behind
// more and more.
func TestTheWatchBeginsWhereEachAnswerTakesLong(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		// Much shorter than resendLargeAfter. Those of a second window together take longer than largeRequest.
		const took = 350 * time.Millisecond
		server := natstest.Start(t)
		kv := bucket(t, connect(t, server.URL()), jetstream.KeyValueConfig{Bucket: "b"})
		first, want := anchorWindows[0], anchorWindows[0]+anchorWindows[1]
		for i := range want {
			put(t, kv, fmt.Sprint("k", i), 1)
		}
		asked, idle := 0, time.Now()
		to := natstest.To(getRequests)
		js := tampered(t, server, func(m *natstest.Message) natstest.Fate { // handles one request at a time
			if !to(m) {
				return natstest.Fate{}
			}
			asked++
			if now := time.Now(); idle.Before(now) {
				idle = now
			}
			idle = idle.Add(took)
			return natstest.Fate{Late: time.Until(idle)}
		})
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		for i := range first { // the newest prove nothing any more, so that the next window is asked for
			put(t, kv, fmt.Sprint("k", want-1-i), 2)
		}
		r.follows(t, kv, "k0", 2, 4*largeRequest)
		if want++; asked != want { // and once for what is behind the one that is as it was
			t.Errorf("%d messages were asked for, want %d", asked, want)
		}
	})
}

// TestAValueThatNobodySendsIsReportedSoon: as where an account imports the API without MSG.GET, so that nobody refuses.
func TestAValueThatNobodySendsIsReportedSoon(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		kv := bucket(t, connect(t, server.URL()), jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		js := lossy(t, server, getRequests, func(*natstest.Message) bool { return true })
		var o told
		r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
		time.Sleep(largeRequest - time.Millisecond)
		if told := o.all(); len(told) != 0 {
			t.Errorf("told of %v", told)
		}
		time.Sleep(permissionCheck)
		if err := r.Status().Err; err == nil || !strings.Contains(err.Error(), "no answer from") ||
			!strings.Contains(err.Error(), "STREAM.MSG.GET") {
			t.Errorf("reported %v", err)
		}
	})
}

// TestAListThatCannotBeFinishedLetsTheWatchGoOn: between its attempts.
func TestAListThatCannotBeFinishedLetsTheWatchGoOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		put(t, kv, "same", 1) // proves that the stream is the same
		var mute atomic.Bool
		var dropped atomic.Int64
		js := lossy(t, server, nextRequests, func(m *natstest.Message) bool {
			lost := mute.Load() && strings.Contains(string(m.Data), fmt.Sprintf(`"expires":%d`, listExpires))
			if lost {
				dropped.Add(1)
			}
			return lost
		})
		r := start(t, js, Config{Bucket: "b", CompareInterval: time.Second}).synced(t)
		r.follows(t, kv, "k", 2, atOnce)
		mute.Store(true)
		deleteConsumers(t, admin) // a reason to list again
		n := 2
		for list := range int64(2) {
			natstest.Eventually(t, "a list is tried", func() bool { return dropped.Load() > list })
			n++
			r.follows(t, kv, "k", n, 2*silence+prompt)
		}
		if lists := r.Status().Lists; lists != 1 {
			t.Fatalf("%d lists: this test has lost its subject", lists)
		}
		mute.Store(false)
		natstest.Eventually(t, "the list is finished", func() bool { return r.Status().Lists == 2 })
		r.follows(t, kv, "k", n+1, atOnce)
	})
}

// TestATombstoneThatIsAskedForInVainIsNoFault: the next comparison asks for it again, and the watch does not end.
func TestATombstoneThatIsAskedForInVainIsNoFault(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		admin := connect(t, server.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Second})
		var mute atomic.Bool
		var dropped atomic.Int64
		js := lossy(t, server, getRequests, func(m *natstest.Message) bool {
			lost := mute.Load() && strings.Contains(string(m.Data), `"last_by_subj":"$KV.b.dies"`)
			if lost {
				dropped.Add(1)
			}
			return lost
		})
		var o told
		r := start(t, js, Config{Bucket: "b", CompareInterval: 200 * time.Millisecond, OnError: o.add}).synced(t)
		put(t, kv, "k", 1)
		put(t, kv, "dies", 1)
		mute.Store(true)
		_, err := admin.PublishMsg(t.Context(), marker("dies"))
		must(t, err)
		natstest.Eventually(t, "it is asked for in vain, and again", func() bool { return dropped.Load() >= 2 })
		r.follows(t, kv, "k", 2, atOnce)
		mute.Store(false)
		compares := r.Status().Compares
		natstest.Eventually(t, "compared", func() bool { return r.Status().Compares > compares })
		if told := o.all(); len(told) != 0 {
			t.Errorf("told of %v", told)
		}
		if st := r.Status(); st.Lists != 1 || st.Resumes != 1 {
			t.Errorf("%d lists, and the watch has begun %d times", st.Lists, st.Resumes)
		}
	})
}

// TestAnOutageIsForgotten: after it is over, the end of a session is no problem again.
func TestAnOutageIsForgotten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		var o told
		r := start(t, js, Config{Bucket: "b", OnError: o.add})
		o.of(t, "create it")
		time.Sleep(time.Minute) // more than quietFailures attempts
		bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		within(t, prompt, "synced", r.HasSynced)
		must(t, js.DeleteKeyValue(t.Context(), "b"))
		time.Sleep(time.Minute)
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		r.follows(t, kv, "k", 1, prompt)
		o.healed(t)
		time.Sleep(maxPause + maxPause/4) // healthy
		r.follows(t, kv, "k", 2, atOnce)  // of the consumer that is deleted, something has come
		before := len(o.all())
		deleteConsumers(t, js)
		r.follows(t, kv, "k", 3, atOnce)
		if told := o.all()[before:]; len(told) != 0 {
			t.Errorf("told of a consumer that was replaced at once: %v", told)
		}
	})
}

// TestSlowDecodingIsNotSilence: while a decoder works the informer hears nothing, which is not the server's fault.
func TestSlowDecodingIsNotSilence(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const slow = silence + silence/4
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "slow", 1)
		for i := range 3 * receiveBatch / 2 {
			must(t, js.Conn().Publish(fmt.Sprint("$KV.b.k", i), doc(i)))
		}
		put(t, kv, "last", 1)
		var calls atomic.Int64
		r := start(t, js, Config{Bucket: "b", Decode: func(e Entry) (runtime.Object, error) {
			calls.Add(1)
			if e.Key == "slow" {
				time.Sleep(slow)
			}
			return decodeThing(e)
		}}).synced(t)
		if n := calls.Load(); n != 3*receiveBatch/2+2 {
			t.Errorf("the list decoded %d documents", n)
		}
		put(t, kv, "slow", 2)
		for i := range 12 { // while it is decoded, so that there is no time for a heartbeat
			put(t, kv, fmt.Sprint("k", i), -i-1)
			time.Sleep(slow / 14)
		}
		within(t, slow-12*(slow/14)+time.Millisecond, "decoded", func() bool {
			return r.has("slow", 2) && len(r.Invalid()) == 12
		})
		if n := r.Status().Resumes; n != 1 {
			t.Errorf("the watch has begun %d times", n)
		}
	})
}

// TestAListBearsOneSilence: the first silence is not reported, because entity's List would fail of it; the second is.
func TestAListBearsOneSilence(t *testing.T) {
	for silent, problem := range map[int]error{1: nil, 2: errSilent} {
		subtest(t, fmt.Sprintf("%d silent lists", silent), func(t *testing.T) {
			server := natstest.Start(t)
			kv := bucket(t, connect(t, server.URL()), jetstream.KeyValueConfig{Bucket: "b"})
			put(t, kv, "k", 1)
			consumers := map[string]bool{} // by the subject of their requests: true for the silent ones
			js := lossy(t, server, nextRequests, func(m *natstest.Message) bool {
				if _, known := consumers[m.Subject]; !known {
					consumers[m.Subject] = len(consumers) < silent
				}
				return consumers[m.Subject]
			})
			var o told
			r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
			r.converges(t, kv, atOnce)
			told := o.all()
			if problem == nil && len(told) != 0 || problem != nil && (len(told) == 0 || !errors.Is(told[0], problem)) {
				t.Errorf("told of %v, want %v", told, problem)
			}
		})
	}
}
