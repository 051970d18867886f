package natsinformer

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// pass lets time pass in which nothing must happen.
func pass(d time.Duration) { <-time.After(d) }

// deleteConsumers deletes the consumers that there are. A watch may just have replaced its own.
func deleteConsumers(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	for found, deleted := true, 0; found && deleted == 0; {
		found = false
		for info := range stream.ListConsumers(t.Context()).Info() {
			found = true
			if err := stream.DeleteConsumer(t.Context(), info.Name); err == nil {
				deleted++
			} else if !errors.Is(err, jetstream.ErrConsumerNotFound) {
				t.Fatal(err)
			}
		}
	}
}

// relay is a connection that hands on all JetStream requests but those that drop returns true for.
func relay(t *testing.T, server *natstest.Server, drop func(*nats.Msg) bool) jetstream.JetStream {
	t.Helper()
	return relayed(t, server, func(m *nats.Msg, handOn func()) {
		if !drop(m) {
			handOn()
		}
	})
}

// relayed is a connection whose JetStream requests go to take, which hands them on or does not, now or later.
func relayed(t *testing.T, server *natstest.Server, take func(m *nats.Msg, handOn func())) jetstream.JetStream {
	t.Helper()
	nc := connect(t, server.URL()).Conn()
	sub, err := nc.Subscribe("relay.API.>", func(m *nats.Msg) {
		take(m, func() { _ = nc.PublishRequest("$JS."+strings.TrimPrefix(m.Subject, "relay."), m.Reply, m.Data) })
	})
	must(t, err)
	must(t, nc.Flush())
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	js, err := jetstream.NewWithAPIPrefix(connect(t, server.URL()).Conn(), "relay.API")
	must(t, err)
	return js
}

// TestRecoveryIsPromptAfterALongSilence: however long nothing was heard of the consumers, the promise holds.
func TestRecoveryIsPromptAfterALongSilence(t *testing.T) {
	t.Parallel() // it waits
	server := natstest.Start(t)
	admin := connect(t, server.URL())
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
	put(t, kv, "k", 1)
	var mute atomic.Bool
	js := relay(t, server, func(m *nats.Msg) bool { return mute.Load() && strings.Contains(m.Subject, "MSG.NEXT") })
	var o told
	r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
	r.follows(t, kv, "k", 2, prompt)
	mute.Store(true)
	deleteConsumers(t, admin)
	o.of(t, "no message and no heartbeat")
	pass(7 * silence)
	mute.Store(false)
	r.follows(t, kv, "k", 3, prompt)
	o.healed(t)
}

// TestTheWatchBeginsWhereEachAnswerTakesLong: a server may need longer for several answers than one request may wait,
// as where values are large. Requests that wait behind an answer are not sent again, or the server would fall behind
// more and more.
func TestTheWatchBeginsWhereEachAnswerTakesLong(t *testing.T) {
	t.Parallel() // it waits
	// Much shorter than resendLargeAfter. Those of a second window together take longer than largeRequest.
	const took = 350 * time.Millisecond
	server := natstest.Start(t)
	kv := bucket(t, connect(t, server.URL()), jetstream.KeyValueConfig{Bucket: "b"})
	first, want := anchorWindows[0], anchorWindows[0]+anchorWindows[1]
	for i := range want {
		put(t, kv, fmt.Sprint("k", i), 1)
	}
	var asked atomic.Int64
	begin := make(chan struct{})
	js := relay(t, server, func(m *nats.Msg) bool { // handles one request at a time
		if strings.Contains(m.Subject, "MSG.GET") {
			<-begin
			asked.Add(1)
			pass(took)
		}
		return false
	})
	stalled := stalls(t)
	r := start(t, js, Config{Bucket: "b"}).synced(t)
	for i := range first { // the newest prove nothing any more, so that the next window is asked for
		put(t, kv, fmt.Sprint("k", want-1-i), 2)
	}
	close(begin)
	r.follows(t, kv, "k0", 2, 4*largeRequest)
	// After a stall, those of a window that wait for an answer are asked for again.
	few := want + int(stalled())*max(first, want-first)
	if n := int(asked.Load()); n < want || n >= want+few {
		t.Errorf("%d messages were asked for, want %d, and fewer than %d again", n, want, few)
	}
}

// TestAValueThatNobodySendsIsReportedSoon: as where an account imports the API without MSG.GET, so that nobody refuses.
func TestAValueThatNobodySendsIsReportedSoon(t *testing.T) {
	t.Parallel() // it waits
	server := natstest.Start(t)
	kv := bucket(t, connect(t, server.URL()), jetstream.KeyValueConfig{Bucket: "b"})
	put(t, kv, "k", 1)
	js := relay(t, server, func(m *nats.Msg) bool { return strings.Contains(m.Subject, "MSG.GET") })
	var o told
	r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
	eventually(t, 2*largeRequest, "it is reported", func() bool {
		err := r.Status().Err
		return err != nil && strings.Contains(err.Error(), "no answer from")
	})
	o.of(t, "STREAM.MSG.GET")
}

// TestAListThatCannotBeFinishedLetsTheWatchGoOn: between its attempts.
func TestAListThatCannotBeFinishedLetsTheWatchGoOn(t *testing.T) {
	t.Parallel() // it waits
	server := natstest.Start(t)
	admin := connect(t, server.URL())
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
	put(t, kv, "k", 1)
	put(t, kv, "same", 1) // proves that the stream is the same
	var mute atomic.Bool
	var dropped atomic.Int64
	js := relay(t, server, func(m *nats.Msg) bool {
		drop := mute.Load() && strings.Contains(string(m.Data), fmt.Sprintf(`"expires":%d`, listExpires))
		if drop {
			dropped.Add(1)
		}
		return drop
	})
	r := start(t, js, Config{Bucket: "b", CompareInterval: time.Second}).synced(t)
	r.follows(t, kv, "k", 2, prompt)
	mute.Store(true)
	deleteConsumers(t, admin) // a reason to list again
	n := 2
	for list := range int64(2) {
		eventually(t, 20*time.Second, "a list is tried", func() bool { return dropped.Load() > list })
		n++
		r.follows(t, kv, "k", n, 2*silence+prompt)
	}
	if lists := r.Status().Lists; lists != 1 {
		t.Fatalf("%d lists: this test has lost its subject", lists)
	}
	mute.Store(false)
	eventually(t, 30*time.Second, "the list is finished", func() bool { return r.Status().Lists == 2 })
	r.follows(t, kv, "k", n+1, prompt)
}

// TestATombstoneThatIsAskedForInVainIsNoFault: the next comparison asks for it again, and the watch does not end.
func TestATombstoneThatIsAskedForInVainIsNoFault(t *testing.T) {
	t.Parallel() // it waits
	server := natstest.Start(t)
	admin := connect(t, server.URL())
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Second})
	var mute atomic.Bool
	var dropped atomic.Int64
	watches := map[string]bool{} // inboxes of sessions that have asked for a consumer
	js := relay(t, server, func(m *nats.Msg) bool {
		inbox := m.Reply[:strings.LastIndex(m.Reply, ".")]
		watches[inbox] = watches[inbox] || strings.Contains(m.Subject, "CONSUMER.CREATE")
		// Before that, a session asks for it to know the stream again.
		drop := mute.Load() && watches[inbox] && strings.Contains(string(m.Data), `"last_by_subj":"$KV.b.dies"`)
		if drop {
			dropped.Add(1)
		}
		return drop
	})
	var o told
	stalled := stalls(t)
	r := start(t, js, Config{Bucket: "b", CompareInterval: 200 * time.Millisecond, OnError: o.add}).synced(t)
	put(t, kv, "k", 1)
	put(t, kv, "dies", 1)
	mute.Store(true)
	for asked := false; !asked; {
		marker := &nats.Msg{Subject: "$KV.b.dies", Header: nats.Header{operationHeader: {"DEL"}, ttlHeader: {"1s"}}}
		_, err := admin.PublishMsg(t.Context(), marker)
		must(t, err)
		lists, before := r.Status().Lists, dropped.Load()
		eventually(t, 30*time.Second, "the tombstone is asked for in vain, and again", func() bool {
			asked = dropped.Load() >= before+2
			return asked || r.Status().Lists > lists
		})
		// A watch that goes on because the machine stalled lists within the interval, and then knows of no tombstone.
		if st := r.Status(); st.Lists > 1+stalled() {
			t.Fatalf("%d lists, and the machine stalled %d times", st.Lists, stalled())
		}
	}
	r.follows(t, kv, "k", 2, prompt)
	r.resumedOnce(t, stalled)
	if told := o.problems(); len(told) != 0 {
		t.Errorf("told of %v", told)
	}
	mute.Store(false)
	compares := r.Status().Compares
	eventually(t, 20*time.Second, "compared", func() bool { return r.Status().Compares > compares })
	r.resumedOnce(t, stalled)
	if st := r.Status(); st.Lists > 1+stalled() {
		t.Errorf("%d lists, and the machine stalled %d times", st.Lists, stalled())
	}
}

// TestAnOutageIsForgotten: after it is over, the end of a session is no problem again.
func TestAnOutageIsForgotten(t *testing.T) {
	t.Parallel() // it waits
	js := connect(t, natstest.Start(t).URL())
	var o told
	r := start(t, js, Config{Bucket: "b", OnError: o.add})
	o.of(t, "create it")
	pass(2 * maxPause) // more than quietFailures attempts
	bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
	r.synced(t)
	must(t, js.DeleteKeyValue(t.Context(), "b"))
	pass(2 * maxPause)
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
	r.follows(t, kv, "k", 1, prompt)
	o.healed(t)
	pass(maxPause + maxPause/4)      // healthy
	r.follows(t, kv, "k", 2, prompt) // of the consumer that is deleted, something has come
	before := len(o.problems())
	deleteConsumers(t, js)
	r.follows(t, kv, "k", 3, prompt)
	if told := o.problems()[before:]; len(told) != 0 {
		t.Errorf("told of a consumer that was replaced at once: %v", told)
	}
}

// TestSlowDecodingIsNotSilence: while a decoder works the informer hears nothing, which is not the server's fault.
func TestSlowDecodingIsNotSilence(t *testing.T) {
	const slow = silence + silence/4
	js := connect(t, natstest.Start(t).URL())
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
	put(t, kv, "slow", 1)
	for i := range 3 * receiveBatch / 2 {
		must(t, js.Conn().Publish(fmt.Sprint("$KV.b.k", i), doc(i)))
	}
	put(t, kv, "last", 1)
	var calls atomic.Int64
	stalled := stalls(t)
	r := start(t, js, Config{Bucket: "b", Decode: func(e Entry) (runtime.Object, error) {
		calls.Add(1)
		if e.Key == "slow" {
			pass(slow)
		}
		return decodeThing(e)
	}}).synced(t)
	if n := calls.Load(); n != 3*receiveBatch/2+2 {
		t.Errorf("the list decoded %d documents", n)
	}
	eventually(t, prompt, "watching", func() bool { return r.Status().Resumes > 0 })
	put(t, kv, "slow", 2)
	for i := range 12 { // while it is decoded, so that there is no time for a heartbeat
		put(t, kv, fmt.Sprint("k", i), -i-1)
		pass(slow / 14)
	}
	eventually(t, slow+prompt, "decoded", func() bool { return r.has("slow", 2) && len(r.Invalid()) == 12 })
	r.resumedOnce(t, stalled)
}

// TestAListBearsOneSilence: the first silence is not reported, because entity's List would fail of it; the second is.
func TestAListBearsOneSilence(t *testing.T) {
	for silent, problem := range map[int]string{1: "", 2: errSilent.Error()} {
		t.Run(fmt.Sprintf("%d silent lists", silent), func(t *testing.T) {
			t.Parallel() // it waits
			server := natstest.Start(t)
			kv := bucket(t, connect(t, server.URL()), jetstream.KeyValueConfig{Bucket: "b"})
			put(t, kv, "k", 1)
			var mu sync.Mutex
			consumers := map[string]bool{} // by the subject of their requests: true for the silent ones
			js := relay(t, server, func(m *nats.Msg) bool {
				if !strings.Contains(m.Subject, "MSG.NEXT") {
					return false
				}
				mu.Lock()
				defer mu.Unlock()
				if _, known := consumers[m.Subject]; !known {
					consumers[m.Subject] = len(consumers) < silent
				}
				return consumers[m.Subject]
			})
			var o told
			r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
			r.converges(t, kv, prompt)
			if problem != "" {
				o.of(t, problem)
			}
			for _, err := range o.problems() {
				if problem == "" && errors.Is(err, errSilent) {
					t.Errorf("told of %v", err)
				}
			}
		})
	}
}
