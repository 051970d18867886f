package natsinformer

import (
	"fmt"
	"strings"
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

func deleteConsumers(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	for info := range stream.ListConsumers(t.Context()).Info() {
		must(t, stream.DeleteConsumer(t.Context(), info.Name))
	}
}

// TestRecoveryIsPromptAfterALongSilence: however long nothing was heard of the consumers, the promise holds.
func TestRecoveryIsPromptAfterALongSilence(t *testing.T) {
	t.Parallel() // it waits
	server := natstest.Start(t)
	admin := connect(t, server.URL())
	kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
	put(t, kv, "k", 1)
	nc := admin.Conn()
	var mute atomic.Bool
	sub, err := nc.Subscribe("mute.API.>", func(m *nats.Msg) {
		if subject := strings.TrimPrefix(m.Subject, "mute."); !mute.Load() || !strings.Contains(subject, "MSG.NEXT") {
			_ = nc.PublishRequest("$JS."+subject, m.Reply, m.Data)
		}
	})
	must(t, err)
	defer func() { must(t, sub.Unsubscribe()) }()
	js, err := jetstream.NewWithAPIPrefix(connect(t, server.URL()).Conn(), "mute.API")
	must(t, err)
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
	pass(maxPause + maxPause/4) // healthy
	before := o.count()
	deleteConsumers(t, js)
	r.follows(t, kv, "k", 2, prompt)
	if n := o.count() - before; n != 0 {
		t.Errorf("told %d times of a consumer that was replaced at once: %v", n, o.errs[before:])
	}
}

// TestSlowDecodingIsNotSilence: while a decoder takes its time nothing is heard of the server, which is not its fault.
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
	eventually(t, prompt, "watching", func() bool { return r.Status().Resumes == 1 })
	put(t, kv, "slow", 2)
	for i := range 12 { // while it is decoded, so that there is no time for a heartbeat
		put(t, kv, fmt.Sprint("k", i), -i-1)
		pass(slow / 14)
	}
	eventually(t, slow+prompt, "decoded", func() bool { return r.has("slow", 2) && len(r.Invalid()) == 12 })
	if n := r.Status().Resumes; n != 1 {
		t.Errorf("the watch was resumed %d times", n)
	}
}
