package natsinformer

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// website is an entity of the usual shape, about 450 bytes as JSON.
type website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              websiteSpec `json:"spec"`
}

type websiteSpec struct {
	Host     string   `json:"host"`
	Image    string   `json:"image"`
	Region   string   `json:"region"`
	Stage    string   `json:"stage"`
	Replicas int      `json:"replicas"`
	Paths    []string `json:"paths"`
	TLS      bool     `json:"tls"`
	Contact  string   `json:"contact"`
	Notes    string   `json:"notes"`
}

func (w *website) DeepCopyObject() kruntime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func websiteDocument(i int) []byte {
	return fmt.Appendf(nil,
		`{"apiVersion":"example.nagi/v1","kind":"Website","metadata":{"labels":{"app":"shop","team":"team-%d"}},`+
			`"spec":{"host":"shop-%d.example.com","image":"registry.example.com/shop/frontend:v1.27.3",`+
			`"region":"eu-west-1","stage":"production",`+
			`"replicas":%d,"paths":["/","/cart","/checkout","/account"],"tls":true,"contact":"somebody@example.com",`+
			`"notes":"The people who run the shop look after this one, all of them, every day of the year."}}`,
		i%40, i, i%7)
}

var decoders = map[string]func(Entry) (kruntime.Object, error){
	"jsonv2": func(e Entry) (kruntime.Object, error) {
		w := &website{}
		if err := json.Unmarshal(e.Value, w); err != nil {
			return nil, err
		}
		w.Name = e.Key
		return w, nil
	},
	"jsonv2-lenient": func(e Entry) (kruntime.Object, error) { // duplicate names allowed, as encoding/json does
		w := &website{}
		if err := json.Unmarshal(e.Value, w,
			jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
			return nil, err
		}
		w.Name = e.Key
		return w, nil
	},
	"encoding-json": func(e Entry) (kruntime.Object, error) {
		w := &website{}
		if err := stdjson.Unmarshal(e.Value, w); err != nil {
			return nil, err
		}
		w.Name = e.Key
		return w, nil
	},
}

func fill(b *testing.B, js jetstream.JetStream, n int) {
	b.Helper()
	for i := range n {
		_, err := js.PublishMsgAsync(&nats.Msg{Subject: fmt.Sprintf("$KV.b.site-%07d", i), Data: websiteDocument(i)})
		must(b, err)
		if i%2000 == 1999 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
}

// rawList is the yardstick for the list: a pull consumer that only counts.
func rawList(b *testing.B, js jetstream.JetStream, n int) time.Duration {
	b.Helper()
	began := time.Now()
	messages, stop := rawConsumer(b, js)
	defer stop()
	for range n {
		_, err := messages.Next()
		must(b, err)
	}
	return time.Since(began)
}

func rawConsumer(b *testing.B, js jetstream.JetStream) (messages jetstream.MessagesContext, stop func()) {
	b.Helper()
	ctx := context.Background()
	consumer, err := js.CreateConsumer(ctx, "KV_b", jetstream.ConsumerConfig{
		Name: "raw", AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true,
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		FilterSubject: "$KV.b.>",
	})
	must(b, err)
	messages, err = consumer.Messages(jetstream.PullMaxMessages(pullBatch))
	must(b, err)
	return messages, func() {
		messages.Stop()
		must(b, js.DeleteConsumer(ctx, "KV_b", "raw"))
	}
}

// BenchmarkList lists a bucket into the store, beside the raw loop in the same run. NAGI_BENCH_LARGE=1 adds a million.
//
//	list-s, raw-s  seconds per list
//	x-raw          how many times the raw loop
//	B/object       heap of an informer per object, decoded document included
func BenchmarkList(b *testing.B) {
	sizes := []int{10_000, 100_000}
	if os.Getenv("NAGI_BENCH_LARGE") != "" {
		sizes = append(sizes, 1_000_000)
	}
	for _, n := range sizes {
		js := connect(b, natstest.Start(b).URL())
		bucket(b, js, jetstream.KeyValueConfig{Bucket: "b"})
		fill(b, js, n)
		for name, decode := range decoders {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				var raw, list []time.Duration
				for b.Loop() {
					raw = append(raw, rawList(b, js, n))
					runtime.GC()
					began := time.Now()
					r := startBare(b, js, decode)
					<-r.HasSyncedChecker().Done()
					list = append(list, time.Since(began))
					if got := len(r.GetStore().ListKeys()); got != n {
						b.Fatalf("%d objects", got)
					}
					r.stop()
				}
				b.ReportMetric(median(raw).Seconds(), "raw-s")
				b.ReportMetric(median(list).Seconds(), "list-s")
				b.ReportMetric(median(list).Seconds()/median(raw).Seconds(), "x-raw")
				b.ReportMetric(heapPerObject(b, js, decode, n), "B/object")
			})
		}
	}
}

// startBare runs an informer without the tests' handler.
func startBare(b *testing.B, js jetstream.JetStream, decode func(Entry) (kruntime.Object, error)) *running {
	b.Helper()
	informer, err := New(js, Config{Bucket: "b", Decode: decode})
	must(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	return &running{Informer: informer, stop: func() { cancel(); <-done }}
}

// heapPerObject returns how much heap per object is freed when a synced informer goes. The server is in the same
// process, and changes less between these two moments than while a list is read.
func heapPerObject(b *testing.B, js jetstream.JetStream, decode func(Entry) (kruntime.Object, error), n int) float64 {
	b.Helper()
	r := startBare(b, js, decode)
	<-r.HasSyncedChecker().Done()
	with := heap()
	r.stop()
	runtime.KeepAlive(r)
	r = nil
	_ = r
	return (float64(with) - float64(heap())) / float64(n)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

// arrivals is a handler that sends on which revision arrived when.
type arrivals struct{ at chan arrival }

type arrival struct {
	revision string
	at       time.Time
}

func (a arrivals) OnAdd(obj any, _ bool) { a.arrived(obj) }
func (a arrivals) OnUpdate(_, obj any)   { a.arrived(obj) }
func (a arrivals) OnDelete(any)          {}
func (a arrivals) arrived(obj any)       { a.at <- arrival{obj.(*website).ResourceVersion, time.Now()} }

// BenchmarkPutToHandler measures from before a put until the event handler is called, in turns with the raw loop: until
// a pull consumer has the message.
func BenchmarkPutToHandler(b *testing.B) {
	js := connect(b, natstest.Start(b).URL())
	kv := bucket(b, js, jetstream.KeyValueConfig{Bucket: "b"})
	put := func(i int) time.Time {
		began := time.Now()
		_, err := kv.Put(context.Background(), fmt.Sprint("site-", i%100), websiteDocument(i))
		must(b, err)
		return began
	}
	var raw, handler, cursor []time.Duration
	const rounds = 2000
	for b.Loop() {
		messages, stop := rawConsumer(b, js)
		for drain := range rounds {
			began := put(drain)
			for {
				m, err := messages.Next()
				must(b, err)
				meta, err := m.Metadata()
				must(b, err)
				if !meta.Timestamp.Before(began) {
					break
				}
			}
			raw = append(raw, time.Since(began))
		}
		stop()
		r := startBare(b, js, decoders["jsonv2"])
		a := arrivals{make(chan arrival, 1024)}
		_, err := r.AddEventHandler(cache.ResourceEventHandler(a))
		must(b, err)
		<-r.HasSyncedChecker().Done()
		for i := range rounds {
			for len(a.at) > 0 {
				<-a.at
			}
			began := time.Now()
			revision, err := kv.Put(context.Background(), fmt.Sprint("site-", i%100), websiteDocument(i))
			must(b, err)
			for got := range a.at {
				if got.revision == formatVersion(revision) {
					handler = append(handler, got.at.Sub(began))
					break
				}
			}
		}
		for i := range rounds {
			began := time.Now()
			revision, err := kv.Put(context.Background(), fmt.Sprint("site-", i%100), websiteDocument(i))
			must(b, err)
			must(b, r.WaitCursor(context.Background(), revision))
			cursor = append(cursor, time.Since(began))
			for len(a.at) > 0 {
				<-a.at
			}
		}
		r.stop()
	}
	b.ReportMetric(float64(median(raw).Microseconds()), "raw-us")
	b.ReportMetric(float64(median(handler).Microseconds()), "handler-us")
	b.ReportMetric(float64(median(cursor).Microseconds()), "cursor-us")
	b.ReportMetric(float64(median(handler))/float64(median(raw)), "x-raw")
}

func BenchmarkDecode(b *testing.B) {
	e := Entry{Key: "site-1", Value: websiteDocument(1)}
	for name, decode := range decoders {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := decode(e)
				must(b, err)
			}
		})
	}
}

func BenchmarkParseDelivery(b *testing.B) {
	reply := "$JS.ACK." + strings.Join([]string{
		"KV_b", "nagi-abcdefgh", "1", "123456", "123456", "1700000000000000000", "12",
	}, ".")
	b.ReportAllocs()
	for b.Loop() {
		_, err := parseDelivery(reply)
		must(b, err)
	}
}
