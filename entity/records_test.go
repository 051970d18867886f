package entity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestARecordHasThePinnedNames(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		rec := &entity.Record{
			Controller: "c", ObservedRevision: 5, Stream: "s", Status: json.RawMessage(`{"ready":true}`), StatusRevision: 2,
			LastDocument: json.RawMessage(`{"spec":{}}`), DocumentRevision: 6,
			Conditions: []metav1.Condition{{
				Type: entity.ConditionReconciled, Status: metav1.ConditionTrue, Reason: entity.ReasonSynced,
			}},
		}
		must(t, client.Records().Put(t.Context(), "a", rec))
		entry, err := keyValue(t, js, "websites-status").Get(t.Context(), "a")
		must(t, err)
		var members map[string]json.RawMessage
		must(t, json.Unmarshal(entry.Value(), &members))
		for name, want := range map[string]string{
			"schemaVersion": "1", "controller": `"c"`, "observedRevision": "5", "stream": `"s"`,
			"status": `{"ready":true}`, "lastDocument": `{"spec":{}}`,
			"statusRevision": "2", "documentRevision": "6", "phase": `"Pending"`,
		} {
			if string(members[name]) != want {
				t.Errorf("%s is %s, want %s", name, members[name], want)
			}
		}
		if len(members) != 10 || !strings.Contains(string(members["conditions"]), `"type":"Reconciled"`) {
			t.Errorf("got %s", entry.Value())
		}
		if rec.Revision != entry.Revision() {
			t.Errorf("revision %d, want %d", rec.Revision, entry.Revision())
		}
	})
}

func TestRecordsAreWrittenByCompareAndSet(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		records, ctx := client.Records(), t.Context()
		rec := &entity.Record{Controller: "c"}
		must(t, records.Put(ctx, "a", rec))
		wantError(t, "second create", apierrors.IsConflict, records.Put(ctx, "a", &entity.Record{}))
		stale := rec.Clone()
		must(t, records.Put(ctx, "a", rec))
		wantError(t, "stale put", apierrors.IsConflict, records.Put(ctx, "a", stale))
		wantError(t, "stale delete", apierrors.IsConflict, records.Delete(ctx, "a", stale.Revision))
		must(t, records.Delete(ctx, "a", rec.Revision))
		wantError(t, "second delete", apierrors.IsNotFound, records.Delete(ctx, "a", rec.Revision))
		_, err := records.Get(ctx, "a")
		wantError(t, "get", apierrors.IsNotFound, err)
		wantError(t, "put of what was deleted", apierrors.IsConflict, records.Put(ctx, "a", rec))
		must(t, records.Put(ctx, "a", &entity.Record{Controller: "again"}))
		got, err := client.Record(ctx, "a")
		must(t, err)
		if got.Controller != "again" || !got.Anchor() {
			t.Errorf("got %+v", got)
		}
	})
}

func TestPipelinedRecordsAreAllWritten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		ctx := testContext(t)
		const n = entity.AsyncPending + 1000 // more than may be in flight
		records := make([]*entity.Record, n)
		waits := make([]func(context.Context) error, n)
		for i := range n {
			records[i] = &entity.Record{Controller: "c", LastDocument: json.RawMessage(`{"spec":{"host":"example.com"}}`)}
			waits[i] = client.Records().PutAsync(fmt.Sprintf("k%d", i), records[i])
		}
		for i, wait := range waits {
			if err := wait(ctx); err != nil || records[i].Revision == 0 {
				t.Fatalf("record %d: revision %d, %v", i, records[i].Revision, err)
			}
		}
		for i := 0; i < n; i += 999 {
			got, err := client.Record(ctx, fmt.Sprintf("k%d", i))
			must(t, err)
			if got.Revision != records[i].Revision {
				t.Errorf("record %d is at revision %d, put said %d", i, got.Revision, records[i].Revision)
			}
		}
	})
}

func TestAPipelinedWriteConflictsAndCreatesOverATombstoneAsPutDoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		records, ctx := client.Records(), t.Context()
		rec := &entity.Record{}
		must(t, records.PutAsync("a", rec)(ctx))
		wantError(t, "create of what is there", apierrors.IsConflict, records.PutAsync("a", &entity.Record{})(ctx))
		must(t, records.Delete(ctx, "a", rec.Revision))
		again := &entity.Record{}
		must(t, records.PutAsync("a", again)(ctx))
		got, err := records.Get(ctx, "a")
		must(t, err)
		if got.Revision != again.Revision {
			t.Errorf("revision %d, want %d", got.Revision, again.Revision)
		}
	})
}

// TestTheSubscriptionForAnswersGoesWithTheInformersAndTheLastWrite in flight, without a Close.
func TestTheSubscriptionForAnswersGoesWithTheInformersAndTheLastWrite(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		before := js.Conn().NumSubscriptions() // the library's own one for answers among them
		left := func(when string) {
			t.Helper()
			if after := js.Conn().NumSubscriptions(); after != before {
				t.Errorf("%s: %d subscriptions are left", when, after-before)
			}
		}
		must(t, client.Create(t.Context(), website("a")))
		left("a write without informers")
		for range 2 {
			stop, err := client.Start()
			must(t, err)
			must(t, client.Patch(t.Context(), "a", []byte(`{"spec":{"replicas":2}}`)))
			flying := client.Records().PutAsync("a", &entity.Record{Revision: recordRevision(t, client, "a")})
			stop()
			must(t, flying(t.Context()))
			left("informers that were stopped with a write under way")
		}
		must(t, client.Records().PutAsync("b", &entity.Record{})(t.Context()))
		left("a pipelined write without informers")
	})
}

func recordRevision(t *testing.T, client *entity.Client[*Website], key string) uint64 {
	t.Helper()
	record, err := client.Record(t.Context(), key)
	if apierrors.IsNotFound(err) {
		return 0
	}
	must(t, err)
	return record.Revision
}

func TestPipelinedWritesWorkAfterClose(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		before := js.Conn().NumSubscriptions() // the library's own one for answers among them
		must(t, client.Create(t.Context(), website("x")))
		flying := client.Records().PutAsync("a", &entity.Record{})
		client.Close()
		must(t, flying(t.Context()))
		must(t, client.Records().PutAsync("b", &entity.Record{})(t.Context()))
		if after := js.Conn().NumSubscriptions(); after != before {
			t.Errorf("%d subscriptions are left", after-before)
		}
	})
}

func BenchmarkPutAsync(b *testing.B) {
	client := newClient[*Website](b, newServer(b), websites)
	ctx := context.Background()
	waits := make(chan func(context.Context) error, 2000)
	done := make(chan error, 1)
	go func() {
		var failed error
		for wait := range waits {
			if err := wait(ctx); err != nil {
				failed = err
			}
		}
		done <- failed
	}()
	b.ReportAllocs()
	document := json.RawMessage(`{"spec":{"host":"site-1.example.com","paths":["/a","/b","/c/d/e"],` +
		`"replicas":3,"ports":{"http":80,"https":443}}}`)
	n := 0
	for b.Loop() {
		waits <- client.Records().PutAsync(fmt.Sprintf("k%d", n), &entity.Record{
			Controller: "c", Stream: "s", LastDocument: document, DocumentRevision: 1,
		})
		n++
	}
	close(waits)
	must(b, <-done)
}

// BenchmarkRawAsync puts the same load on the server and the library alone.
func BenchmarkRawAsync(b *testing.B) {
	js := newServer(b)
	newClient[*Website](b, js, websites)
	value := []byte(strings.Repeat("x", 220))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		_, err := js.PublishAsync(fmt.Sprintf("$KV.websites.k%d", n), value,
			jetstream.WithStallWait(time.Minute), jetstream.WithExpectLastSequencePerSubject(0))
		must(b, err)
		n++
	}
	<-js.PublishAsyncComplete()
}

func BenchmarkCreate(b *testing.B) {
	client := newClient[*Website](b, newServer(b), websites)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		must(b, client.Create(b.Context(), website(fmt.Sprintf("k%d", n))))
		n++
	}
}

func TestALastDocumentAboveTheLimitIsLeftOut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		cfg := websites
		cfg.LastDocumentLimit = 20
		client := newClient[*Website](t, newServer(t), cfg)
		rec := &entity.Record{
			LastDocument: json.RawMessage(`{"spec":{"host":"much too long"}}`), DocumentRevision: 9,
			DocumentExpires: "2026-01-01T00:00:00Z", ObservedRevision: 8,
		}
		must(t, client.Records().Put(t.Context(), "a", rec))
		got, err := client.Record(t.Context(), "a")
		must(t, err)
		for of, rec := range map[string]*entity.Record{"stored": got, "of the caller": rec} {
			if rec.LastDocument != nil || rec.DocumentRevision != 0 || rec.DocumentExpires != "" || rec.ObservedRevision != 8 {
				t.Errorf("the record %s has %s of revision %d, which expires at %q, after %d", of, rec.LastDocument,
					rec.DocumentRevision, rec.DocumentExpires, rec.ObservedRevision)
			}
		}
		// What a controller says of a document that it does not keep stays.
		rec.DocumentRevision, rec.DocumentExpires = 10, entity.ExpiresNever
		must(t, client.Records().Put(t.Context(), "a", rec))
		if got, err = client.Record(t.Context(), "a"); err != nil || got.DocumentRevision != 10 ||
			got.DocumentExpires != entity.ExpiresNever {
			t.Errorf("it has %+v, %v", got, err)
		}
	})
}

func TestReservedKeysAreNoRecords(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		records, ctx := client.Records(), t.Context()
		revision, err := records.PutReserved(ctx, "_nagi.lease", []byte("me"), 0)
		must(t, err)
		_, err = records.PutReserved(ctx, "_nagi.lease", []byte("you"), 0)
		wantError(t, "second create", apierrors.IsConflict, err)
		value, got, err := records.GetReserved(ctx, "_nagi.lease")
		must(t, err)
		if string(value) != "me" || got != revision {
			t.Errorf("got %q at %d", value, got)
		}
		wantError(t, "stale delete", apierrors.IsConflict, records.DeleteReserved(ctx, "_nagi.lease", revision+1))
		must(t, records.DeleteReserved(ctx, "_nagi.lease", revision))
		wantError(t, "second delete", apierrors.IsNotFound, records.DeleteReserved(ctx, "_nagi.lease", revision))
		_, _, err = records.GetReserved(ctx, "_nagi.lease")
		wantError(t, "get", apierrors.IsNotFound, err)
		_, err = records.PutReserved(ctx, "_nagi.lease", []byte("again"), 0)
		must(t, err)
		for _, name := range []string{"lease", "_nagi", "_nagi.", "_nagi.a b", "_nagi..a"} {
			_, err = records.PutReserved(ctx, name, nil, 0)
			wantError(t, name, apierrors.IsInvalid, err)
		}
		_, err = records.Get(ctx, "_nagi.lease")
		wantError(t, "as a record", apierrors.IsInvalid, err)
	})
}
