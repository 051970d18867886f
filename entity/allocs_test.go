//go:build !race

package entity

import (
	"testing"
	"unsafe"

	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Allocations do not depend on what else the machine does, so these tests hold them where times cannot be held. A limit
// is the measured value and a tenth more. The tests run without the race detector, because it allocates too.

type allocsSpec struct {
	Host   string            `json:"host"`
	Paths  []string          `json:"paths"`
	Labels map[string]string `json:"labels"`
}

type allocsStatus struct {
	Ready bool `json:"ready"`
}

type allocsSite = Object[allocsSpec, allocsStatus]

const allocsDocument = `{"apiVersion":"example/v1","kind":"Website",` +
	`"metadata":{"name":"site-1","labels":{"app":"shop","team":"web"}},` +
	`"spec":{"host":"shop.example.com","paths":["/","/cart","/checkout"],"labels":{"tier":"front"}}}`

// atMost fails the test if f allocates more often than the limit.
func atMost(t *testing.T, what string, limit float64, f func()) {
	t.Helper()
	got := testing.AllocsPerRun(1000, f)
	t.Logf("%s: %v allocations", what, got)
	if got > limit {
		t.Errorf("%s allocates %v times, want at most %v", what, got, limit)
	}
}

func TestAllocationsOfDecoding(t *testing.T) {
	cfg := Config{Kind: "Website", Bucket: "websites"}.withDefaults()
	c, err := newCodec[*allocsSite](cfg, newKeyspace(cfg))
	if err != nil {
		t.Fatal(err)
	}
	document := []byte(allocsDocument)
	atMost(t, "decoding a document", 13, func() { // and looking for what is odd
		if _, odd, err := c.read("site-1", 7, document, true); err != nil || odd != nil {
			t.Fatal(odd, err)
		}
	})
}

func TestAllocationsOfDecodingARecordForTheCache(t *testing.T) {
	r, entry := benchRecords(t)
	decode := func() {
		if _, err := r.decode(entry); err != nil {
			t.Fatal(err)
		}
	}
	atMost(t, "decoding a record", 6, decode)
	sent := r.object("site-1", must(decodeCached(entry.Value, entry.Revision)))
	atMost(t, "sending a record and getting it back", 1, func() {
		r.echoes.add(entry.Key, entry.Value, sent)
		decode()
	})
}

func TestAllocationsOfReadingFromTheCache(t *testing.T) {
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	client := startedClient[*allocsSite](t, js, Config{
		Kind: "Website", Bucket: "websites", Storage: jetstream.MemoryStorage,
	})
	site := &allocsSite{ObjectMeta: metav1.ObjectMeta{Name: "site-1", Labels: map[string]string{"app": "shop"}},
		Spec: allocsSpec{Host: "shop.example.com", Paths: []string{"/", "/cart"}}}
	if err := client.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	site.Status.Ready = true
	if err := client.UpdateStatus(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	record, err := client.Record(t.Context(), "site-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Informer().WaitKey(t.Context(), "site-1", uint64(site.Generation)); err != nil {
		t.Fatal(err)
	}
	if err := client.Records().Informer().WaitKey(t.Context(), "site-1", record.Revision); err != nil {
		t.Fatal(err)
	}
	cached, _, err := client.Informer().GetStore().GetByKey("site-1")
	if err != nil {
		t.Fatal(err)
	}
	atMost(t, "the document of a cached entity", 5, func() {
		if _, err := client.DocumentOf(cached.(*allocsSite)); err != nil {
			t.Fatal(err)
		}
	})
	atMost(t, "Lister().Get of an entity with a status", 9, func() {
		if _, err := client.Lister().Get("site-1"); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAllocationsOfTracesThatNobodyWants: a client without OnWrite, and messages that nobody listens to.
func TestAllocationsOfTracesThatNobodyWants(t *testing.T) {
	var none *writeHook
	ctx, w := t.Context(), &write{key: "site-1"}
	atMost(t, "a write without a hook", 0, func() { none.begin(ctx, w)(nil) })
	news := newHookSet().renew()
	entry := natsinformer.Entry{Key: "site-1", Header: nats.Header{"traceparent": {"x"}}}
	atMost(t, "a message without a listener", 0, func() { news.arrived("websites", entry) })
}

// TestAllocationsOfWhatCachesHold: 352 bytes are one of the sizes in which Go gives memory out; the next one is 384.
func TestAllocationsOfWhatCachesHold(t *testing.T) {
	if size := unsafe.Sizeof(recordCell{}); size > 352 {
		t.Errorf("a record in the cache takes %d bytes, want at most 352", size)
	}
}
