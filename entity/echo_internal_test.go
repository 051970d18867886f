package entity

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

type echoStatus struct {
	Ready bool   `json:"ready,omitempty"`
	Text  string `json:"text,omitempty"`
}

type echoSite = Object[struct{}, echoStatus]

func echoClient(t *testing.T, js jetstream.JetStream) *Client[*echoSite] {
	t.Helper()
	return startedClient[*echoSite](t, js, Config{Kind: "Site", Bucket: "sites"})
}

// startedClient returns a client whose caches run.
func startedClient[T IEntity](t *testing.T, js jetstream.JetStream, cfg Config) *Client[T] {
	t.Helper()
	client, err := NewClient[T](t.Context(), js, cfg)
	ok(t, err)
	t.Cleanup(client.Close)
	stop, err := client.Start()
	ok(t, err)
	t.Cleanup(stop)
	<-client.Informer().HasSyncedChecker().Done()
	<-client.Records().Informer().HasSyncedChecker().Done()
	return client
}

func echoRecord() *Record {
	return &Record{
		Controller: "c", ObservedRevision: 5, Stream: "s", Status: json.RawMessage(`{"ready":true}`), StatusRevision: 2,
		LastDocument: json.RawMessage(`{"spec":{}}`), DocumentRevision: 5,
		Conditions: []metav1.Condition{{
			Type: ConditionReconciled, Status: metav1.ConditionTrue, Reason: ReasonSynced,
			LastTransitionTime: metav1.Now(),
		}},
	}
}

// storedObject waits for a revision of a record and returns the object in the informer's store.
func storedObject(t *testing.T, client *Client[*echoSite], key string, revision uint64) *RecordObject {
	t.Helper()
	informer := client.Records().Informer()
	ok(t, informer.WaitKey(t.Context(), key, revision))
	item, _, err := informer.GetStore().GetByKey(key)
	ok(t, err)
	o, ok := item.(*RecordObject)
	if !ok {
		t.Fatalf("the store has %T", item)
	}
	return o
}

// ownRecord returns the last own write of a key, even if the cache has reached it.
func ownRecord(r *Records, key string) *RecordObject {
	return maps.Collect(r.current().writes.All())[key].value
}

func TestARecordThatThisProcessWroteIsNotDecodedAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		client := echoClient(t, js)
		rec := echoRecord()
		for i := range 20 {
			put := func() error { return client.Records().Put(t.Context(), "a", rec) }
			if i%2 == 1 {
				put = func() error { return client.Records().PutAsync("a", rec)(t.Context()) }
			}
			rec.ObservedRevision++ // no two are the same
			ok(t, put())
			stored := storedObject(t, client, "a", rec.Revision)
			if written := ownRecord(client.Records(), "a"); stored != written {
				t.Fatalf("write %d was decoded again", i)
			}
			if stored.GetResourceVersion() != strconv.FormatUint(rec.Revision, 10) ||
				stored.Record.Revision != rec.Revision || stored.Record.LastDocument != nil {
				t.Fatalf("got %+v", stored.Record)
			}
		}
		if left := len(client.records.echoes.byKey); left != 0 {
			t.Errorf("%d echoes are left", left)
		}
	})
}

func TestARecordThatAnotherProcessWroteIsDecoded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		client, other := echoClient(t, js), echoClient(t, js)
		rec := echoRecord()
		ok(t, client.Records().Put(t.Context(), "a", rec))
		rec.Status = json.RawMessage(`{"text":"theirs"}`)
		ok(t, other.Records().Put(t.Context(), "a", rec))
		stored := storedObject(t, client, "a", rec.Revision)
		if string(stored.Record.Status) != `{"text":"theirs"}` || stored.Record.Revision != rec.Revision {
			t.Errorf("got %+v", stored.Record)
		}
		if stored == ownRecord(other.Records(), "a") {
			t.Error("it is the other client's object")
		}
	})
}

// decodeEcho decodes an entry, and fails the test if that fails.
func decodeEcho(t *testing.T, r *Records, revision uint64, value []byte) *RecordObject {
	t.Helper()
	obj, err := r.decode(natsinformer.Entry{Key: "a", Revision: revision, Value: value})
	ok(t, err)
	return obj.(*RecordObject)
}

func TestAnEchoIsBelievedByItsBytesAndNotByItsRevision(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		r := echoClient(t, js).Records()
		w, err := r.write("a", echoRecord()) // and not sent
		ok(t, err)
		r.echoes.settle(w.echo, 7) // acknowledged
		other := echoRecord()
		other.Controller, other.SchemaVersion = "another", RecordSchemaVersion
		value, err := encodeRecord(other)
		ok(t, err)
		if got := decodeEcho(t, r, 7, value); got == w.echo.object || got.Record.Controller != "another" {
			t.Errorf("other bytes at its revision: got %+v", got.Record)
		}
		if got := decodeEcho(t, r, 8, w.value); got == w.echo.object || got.Record.Revision != 8 {
			t.Errorf("its bytes at another revision: got %+v", got.Record)
		}
		if got := decodeEcho(t, r, 7, w.value); got != w.echo.object || got.Record.Revision != 7 {
			t.Errorf("itself: got %+v", got.Record)
		}
		if got := decodeEcho(t, r, 7, w.value); got == w.echo.object {
			t.Error("it is there after it was taken")
		}
	})
}

func TestAnEchoMayComeBackBeforeItsAcknowledgement(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		r := echoClient(t, js).Records()
		rec := echoRecord()
		w, err := r.write("a", rec)
		ok(t, err)
		got := decodeEcho(t, r, 7, w.value)
		if got != w.echo.object || got.Record.Revision != 7 || got.GetResourceVersion() != "7" {
			t.Errorf("got %+v", got.Record)
		}
		// The same bytes had been written before: the informer delivered those, and not this write.
		ok(t, r.written(t.Context(), "a", w, rec, 8, nil))
		if own := ownRecord(r, "a"); own == got || own.Record.Revision != 8 || got.Record.Revision != 7 {
			t.Errorf("got %+v", own.Record)
		}
	})
}

func TestEchoesAreBoundedWhereNothingComesBack(t *testing.T) {
	e := newEchoes()
	for i := range 3 * echoesMost {
		e.add(time.Duration(i).String(), nil, nil)
	}
	if len(e.byKey) > echoesMost {
		t.Errorf("%d echoes of at most %d", len(e.byKey), echoesMost)
	}
	large := make([]byte, echoesBytes/4)
	for i := range 10 {
		e.add(time.Duration(i).String(), large, nil)
	}
	if len(e.byKey) > 4 || e.bytes != len(e.byKey)*len(large) {
		t.Errorf("%d echoes of %d bytes each, %d bytes are counted", len(e.byKey), len(large), e.bytes)
	}
}

// TestNoEchoIsLeftOfARecordThatIsNoMore: if a record is deleted, or written by another process, before it is delivered,
// the informer may never deliver it.
func TestNoEchoIsLeftOfARecordThatIsNoMore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		client := echoClient(t, js)
		r := client.Records()
		for i := range 100 {
			key, rec := strconv.Itoa(i), echoRecord()
			ok(t, r.Put(t.Context(), key, rec))
			ok(t, r.Delete(t.Context(), key, rec.Revision))
		}
		rec := echoRecord()
		ok(t, r.Put(t.Context(), "last", rec))
		storedObject(t, client, "last", rec.Revision)
		w, err := r.write("a", echoRecord())
		ok(t, err)
		ok(t, r.written(t.Context(), "a", w, echoRecord(), 1000, nil))
		theirs := echoRecord()
		theirs.ObservedRevision++
		theirs.SchemaVersion = RecordSchemaVersion
		decodeEcho(t, r, 1001, must(encodeRecord(theirs)))
		if r.echoes.mu.Lock(); len(r.echoes.byKey) != 0 || r.echoes.bytes != 0 {
			t.Errorf("%d echoes of %d bytes are left", len(r.echoes.byKey), r.echoes.bytes)
		}
		r.echoes.mu.Unlock()
	})
}

// TestEveryFieldOfAnEchoIsWhatDecodingGives, including fields that are added to a record later.
func TestEveryFieldOfAnEchoIsWhatDecodingGives(t *testing.T) {
	rec := &Record{}
	fill(t, reflect.ValueOf(rec).Elem())
	data := must(encodeRecord(rec))
	want, err := decodeRecord(data, 0)
	ok(t, err)
	if got := rec.Clone(); !got.asDecoded(data) || !reflect.DeepEqual(got, want) {
		t.Errorf("%s\ngot  %+v\nwant %+v", data, got, want)
	}
}

// fill gives every field a value other than its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1, 2).UTC())))
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0).UTC()))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a":1}`))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case v.Kind() == reflect.String:
		v.SetString("text")
	case v.CanInt():
		v.SetInt(7)
	case v.CanUint():
		v.SetUint(7)
	default:
		t.Fatalf("teach this test to fill a %v", v.Type())
	}
}

func TestAnEchoIsWhatDecodingGives(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<a&b>", "no \xff UTF-8", "\u2028", `"`}))
	status := rapid.Custom(func(t *rapid.T) json.RawMessage {
		s := text.Draw(t, "text")
		return rapid.SampledFrom([]json.RawMessage{
			nil, {}, json.RawMessage("null"), json.RawMessage(`{"ready":true}`),
			json.RawMessage("{ \"ready\" : true }"), json.RawMessage(`{"text":"<&>"}`),
			json.RawMessage("{\"text\":\"\xff\"}"), json.RawMessage(`{"ready":1}`), json.RawMessage(`{"a":1,"a":2}`),
			json.RawMessage(must(json.Marshal(echoStatus{true, s}))),
		}).Draw(t, "status")
	})
	record := rapid.Custom(func(t *rapid.T) *Record {
		rec := &Record{
			SchemaVersion: RecordSchemaVersion, Controller: text.Draw(t, "controller"),
			ObservedRevision: rapid.Uint64().Draw(t, "observed"), Stream: text.Draw(t, "stream"),
			Status: status.Draw(t, "status"), StatusRevision: rapid.Uint64().Draw(t, "statusRevision"),
			LastDocument:     json.RawMessage(`{"spec":{}}`),
			DocumentRevision: rapid.Uint64().Draw(t, "documentRevision"),
			DeletionPolicy:   text.Draw(t, "policy"), Revision: 3,
		}
		if rapid.Bool().Draw(t, "seen") {
			rec.FirstSeen = time.Unix(rapid.Int64Range(1, 1<<36).Draw(t, "firstSeen"), 0).UTC()
		}
		if rapid.Bool().Draw(t, "invalid") {
			rec.Invalid = &InvalidDocument{
				Revision: rapid.Uint64().Draw(t, "invalidRevision"), Stream: text.Draw(t, "invalidStream"),
				Path: text.Draw(t, "path"), Line: rapid.Int().Draw(t, "line"), Reason: text.Draw(t, "why"),
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "conditions") {
			c := metav1.Condition{
				Type: text.Draw(t, "type"), Status: metav1.ConditionStatus(text.Draw(t, "condition")),
				Reason: text.Draw(t, "reason"), Message: text.Draw(t, "message"),
				ObservedGeneration: rapid.Int64().Draw(t, "generation"),
			}
			if rapid.Bool().Draw(t, "timed") {
				c.LastTransitionTime = metav1.NewTime(time.Unix(
					rapid.Int64Range(-1<<33, 1<<36).Draw(t, "seconds"),
					rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"),
				).UTC())
			}
			rec.Conditions = append(rec.Conditions, c)
		}
		return rec
	})
	rapid.Check(t, func(t *rapid.T) {
		rec := record.Draw(t, "record")
		data, err := encodeRecord(rec)
		ok(t, err)
		got := rec.Clone()
		if !got.asDecoded(data) {
			return // it will be decoded
		}
		want, err := decodeRecord(data, 0)
		ok(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\ngot  %+v\nwant %+v", data, got, want)
		}
	})
	for i, field := range []func(*Record) *string{
		func(r *Record) *string { return &r.Controller },
		func(r *Record) *string { return &r.Stream },
		func(r *Record) *string { return &r.DeletionPolicy },
		func(r *Record) *string { r.Invalid = &InvalidDocument{}; return &r.Invalid.Path },
		func(r *Record) *string { r.Invalid = &InvalidDocument{}; return &r.Invalid.Stream },
		func(r *Record) *string { r.Invalid = &InvalidDocument{}; return &r.Invalid.Reason },
		func(r *Record) *string { return &r.Conditions[0].Type },
		func(r *Record) *string { return (*string)(&r.Conditions[0].Status) },
		func(r *Record) *string { return &r.Conditions[0].Reason },
		func(r *Record) *string { return &r.Conditions[0].Message },
	} {
		rec := echoRecord()
		*field(rec) = "no \xff UTF-8"
		if rec.asDecoded(must(encodeRecord(rec))) {
			t.Errorf("text %d is not what decoding gives", i)
		}
	}
	if rec := echoRecord(); !rec.asDecoded(must(encodeRecord(rec))) {
		t.Error("an ordinary record is decoded again")
	}
}

func ok(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
