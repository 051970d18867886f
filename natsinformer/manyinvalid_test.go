package natsinformer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestManyInvalidKeysExistAndShareTheirReason: a writer can make any number of them.
func TestManyInvalidKeysExistAndShareTheirReason(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		const more = 50
		for i := range reasonsKept + more {
			_, err := js.PublishAsync(fmt.Sprint("$KV.b.bad-", i), doc(-1))
			must(t, err)
			if i%1000 == 999 { // it takes some thousands at a time
				<-js.PublishAsyncComplete()
			}
		}
		<-js.PublishAsyncComplete()
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		invalid, shared := r.Invalid(), 0
		for key, err := range invalid {
			if errors.Is(err, ErrManyInvalid) {
				shared++
			}
			if !r.Exists(key) || !r.IsInvalid(key) || r.InvalidRevision(key) == 0 {
				t.Fatalf("%s does not exist", key)
			}
		}
		if len(invalid) != reasonsKept+more || shared != more {
			t.Errorf("%d invalid keys, %d of them share a reason; want %d and %d",
				len(invalid), shared, reasonsKept+more, more)
		}
		_, err := js.Publish(t.Context(), "$KV.b.bad-1", doc(1))
		must(t, err)
		natstest.Eventually(t, "mended", func() bool { return r.has("bad-1", 1) && r.InvalidRevision("bad-1") == 0 })
	})
}

// TestValuesOfInvalidRevisionsThatWaitForAReportAreBounded, while a list is read.
func TestValuesOfInvalidRevisionsThatWaitForAReportAreBounded(t *testing.T) {
	k := newKeys()
	value := make([]byte, 1<<20)
	kept := func() (bytes int) {
		for _, bad := range k.invalid {
			bytes += len(bad.entry.Value)
		}
		return bytes
	}
	refuse := func(key string, seq uint64) {
		k.put(&item{key: key, seq: seq, value: value, err: errors.New("bad")}, k)
	}
	for i := range 100 {
		refuse(fmt.Sprint(i), uint64(i+1))
	}
	if kept() != valuesKept || k.unreported != valuesKept || len(k.invalid) != 100 {
		t.Errorf("%d bytes kept, %d counted, of %d keys; want %d of 100", kept(), k.unreported, len(k.invalid), valuesKept)
	}
	refuse("0", 1000)
	k.put(&item{key: "1", seq: 1001, object: &thing{}}, k)
	k.put(&item{key: "2", seq: 1002, reason: DeleteMarker}, k)
	if kept() != k.unreported || len(k.invalid) != 98 {
		t.Errorf("%d bytes kept, %d counted, of %d keys", kept(), k.unreported, len(k.invalid))
	}
	for i := range 100 {
		k.reported(fmt.Sprint(i))
	}
	if kept() != 0 || k.unreported != 0 {
		t.Errorf("%d bytes kept after the reports, %d counted", kept(), k.unreported)
	}
}

// TestTheReasonOfAnInvalidKeyIsBounded, also where the decoder panics with what it read.
func TestTheReasonOfAnInvalidKeyIsBounded(t *testing.T) {
	src := &source{cfg: Config{Decode: decodeThing}}
	for what, decode := range map[string]func() error{
		"error": func() error { return errors.New(strings.Repeat("\x1b[31m", 10_000)) },
		"panic": func() error { panic(strings.Repeat("\x1b[31m", 10_000)) },
	} {
		src.cfg.Decode = func(Entry) (runtime.Object, error) { return nil, decode() }
		_, err := src.decodeOne(&item{key: "k", seq: 1})
		if err == nil || len(err.Error()) > 4096 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %.200q", what, err)
		}
	}
}
