package entity

import (
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// benchRecords returns the records of a client without a server, and an entry of 700 bytes as a status bucket has it.
func benchRecords(tb testing.TB) (*Records, natsinformer.Entry) {
	tb.Helper()
	cfg := Config{Kind: "Site", Bucket: "sites"}.withDefaults()
	c, err := newCodec[*echoSite](cfg, newKeyspace(cfg))
	if err != nil {
		tb.Fatal(err)
	}
	rec := echoRecord()
	rec.SchemaVersion = RecordSchemaVersion
	rec.LastDocument = []byte(`{"metadata":{"labels":{"app":"site-1","tier":"front"}},"spec":{"title":"` +
		strings.Repeat("title ", 60) + `","pages":3}}`)
	value, err := encodeRecord(rec)
	if err != nil {
		tb.Fatal(err)
	}
	return &Records{keys: c.keys, cfg: cfg, status: c, echoes: newEchoes(), division: func() *division { return nil }},
		natsinformer.Entry{Key: "site-1", Revision: 123_456, Value: value}
}

// BenchmarkDecodeRecord makes the cached form of a record from the server: written by another process, or by this one.
func BenchmarkDecodeRecord(b *testing.B) {
	r, entry := benchRecords(b)
	b.Run("others", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.decode(entry); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("own", func(b *testing.B) {
		object := r.object("site-1", must(decodeCached(entry.Value, entry.Revision)))
		b.ReportAllocs()
		for b.Loop() {
			r.echoes.add(entry.Key, entry.Value, object)
			if got, err := r.decode(entry); err != nil || got != object {
				b.Fatal(got, err)
			}
		}
	})
}

func TestARecordDecodesForTheCacheAsItDoesInFull(t *testing.T) {
	member := rapid.Custom(func(t *rapid.T) string {
		name := rapid.SampledFrom([]string{
			"schemaVersion", "controller", "observedRevision", "stream", "conditions", "status", "statusRevision",
			"lastDocument", "documentRevision", "deletionPolicy", "LASTDOCUMENT", "Status", "last_document",
			"revision", "Revision", "record", "unknown", "",
		}).Draw(t, "name")
		value := rapid.SampledFrom([]string{
			"null", "1", "-1", "1e3", `"x"`, `"a\u003cb"`, "\"\xff\"", `{"a":1,"a":2}`, "[]", "[{}]",
			"[null]", "true", "18446744073709551616", "{", "nul", "01", "",
			`[{"type":"Reconciled","status":"True","reason":"Synced",` +
				`"lastTransitionTime":"2026-01-02T03:04:05Z","extra":0}]`,
			`[{"lastTransitionTime":"yesterday"}]`,
		}).Draw(t, "value")
		return strconv.Quote(name) + rapid.SampledFrom([]string{":", " : ", ""}).Draw(t, "colon") + value
	})
	document := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"{", " {", "{", "[", ""}).Draw(t, "open") +
			strings.Join(rapid.SliceOfN(member, 0, 6).Draw(t, "members"), ",") +
			rapid.SampledFrom([]string{"}", "} ", "}", "}}", "} x", ""}).Draw(t, "close")
	})
	agree := func(t rapid.TB, data string) {
		want, wantErr := decodeRecord([]byte(data), 7)
		cell, gotErr := decodeCached([]byte(data), 7)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%q: got error %v, want %v", data, gotErr, wantErr)
		}
		if wantErr != nil {
			return
		}
		want.LastDocument = nil
		if len(want.Conditions) == 0 {
			want.Conditions = nil // [] and none are the same
		}
		if got := &cell.record.Record; !reflect.DeepEqual(got, want) {
			t.Fatalf("%q\ngot  %+v\nwant %+v", data, got, want)
		}
	}
	_, entry := benchRecords(t)
	for _, data := range []string{
		string(entry.Value), "", "null", " null ", "{}", "[]", "1", `"x"`, `{"lastDocument":{"a":]}`,
		`{"lastDocument":{"a":1}`, `{"lastDocument":"` + "\xff" + `"}`,
		`{"lastDocument":null,"status":null}`,
		`{"lastDocument":1,"lastDocument":2,"controller":"c","Controller":"d"}`, `{"lastDocument":"\ud800"}`,
		`{"LastDocument":{"b":1},"controller":"c"}`, `{"controller":1,"lastDocument":{}}`,
		`{"Record":{"controller":"c"}}`, `{"conditions":[{"type":1}]}`, `{"conditions":[]}`,
		`{"lastDocument":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
	} {
		agree(t, data)
	}
	rapid.Check(t, func(t *rapid.T) { agree(t, document.Draw(t, "document")) })
}

// BenchmarkRecordHeap measures the memory of a record in the informer's store, without the store's own map.
func BenchmarkRecordHeap(b *testing.B) {
	const n = 100_000
	r, entry := benchRecords(b)
	heap := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m
	}
	for b.Loop() {
		keys, objects := make([]string, n), make([]any, n)
		for i := range keys {
			keys[i] = "site-" + strconv.Itoa(i)
		}
		before := heap()
		for i, key := range keys {
			entry.Key, entry.Revision = key, uint64(1_000_000+i)
			object, err := r.decode(entry)
			if err != nil {
				b.Fatal(err)
			}
			object.(metav1.Object).SetResourceVersion(strconv.FormatUint(entry.Revision, 10)) // as the informer does
			objects[i] = object
		}
		after := heap()
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heap-B/record")
		b.ReportMetric(float64(after.HeapObjects-before.HeapObjects)/n, "heap-objects/record")
		runtime.KeepAlive(objects)
		runtime.KeepAlive(keys)
	}
}

func TestACachedRecordTellsWhichItIsAndHowItWasDeleted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		client, err := NewClient[*echoSite](t.Context(), js, Config{Kind: "Site", Bucket: "sites", Namespaced: true})
		ok(t, err)
		t.Cleanup(client.Close)
		informer := client.Records().Informer()
		seen := make(chan *RecordObject, 2)
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { seen <- obj.(*RecordObject) },
			DeleteFunc: func(obj any) { seen <- obj.(*RecordObject) },
		}); err != nil {
			t.Fatal(err)
		}
		stop, err := client.Start()
		ok(t, err)
		t.Cleanup(stop)
		is := func(o *RecordObject, version uint64, deletion natsinformer.Deletion) {
			t.Helper()
			if o.GetNamespace() != "shop" || o.GetName() != "home" ||
				o.GetResourceVersion() != strconv.FormatUint(version, 10) || natsinformer.DeleteOf(o) != deletion {
				t.Errorf("it is %s/%s at %s, %+v",
					o.GetNamespace(), o.GetName(), o.GetResourceVersion(), natsinformer.DeleteOf(o))
			}
		}
		rec := echoRecord()
		ok(t, client.Records().Put(t.Context(), "shop/home", rec))
		added := <-seen
		ok(t, client.Records().Delete(t.Context(), "shop/home", rec.Revision))
		deleted := <-seen
		is(deleted, rec.Revision+1, natsinformer.Deletion{Evidenced: true, Reason: natsinformer.PurgeMarker})
		is(added, rec.Revision, natsinformer.Deletion{}) // the earlier one is unchanged
		if again := deleted.DeepCopyObject(); !reflect.DeepEqual(again, deleted) {
			t.Errorf("got a copy %+v, want %+v", again, deleted)
		}
		if last, key, ok := RecordOf(deleted); !ok || key != "shop/home" ||
			last.Revision != rec.Revision || last == added.Record {
			t.Errorf("got %q %+v", key, last)
		}
	})
}
