package entity_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report writes the record that a controller would, with the current stream of the documents.
func report(
	t *testing.T, client *entity.Client[*Website], key string, observed uint64,
	status metav1.ConditionStatus, reason string, about int64,
) {
	t.Helper()
	rec, err := client.Record(t.Context(), key)
	if err != nil {
		rec = &entity.Record{}
	}
	rec.Controller, rec.ObservedRevision = "c", observed
	if rec.Stream == "" {
		rec.Stream = stream(t, client)
	}
	rec.Conditions = []metav1.Condition{{
		Type: entity.ConditionReconciled, Status: status, Reason: reason, Message: "says why",
		ObservedGeneration: about,
	}}
	must(t, client.Records().Put(t.Context(), key, rec))
}

func stream(t *testing.T, client *entity.Client[*Website]) string {
	t.Helper()
	identity, err := client.StreamIdentity(t.Context())
	must(t, err)
	return identity
}

// quiet is long enough for a wait to look again, more than once.
const quiet = 10 * time.Second

// endsAtOnce returns what a wait that has begun ends with now. It looks again within a millisecond of its news.
func endsAtOnce(t *testing.T, waited chan error) error {
	t.Helper()
	time.Sleep(time.Millisecond)
	synctest.Wait()
	select {
	case err := <-waited:
		return err
	default:
		t.Fatal("it goes on waiting")
		return nil
	}
}

// goesOn fails the test if a wait that has begun ends in the time that comes.
func goesOn(t *testing.T, waited chan error) {
	t.Helper()
	time.Sleep(quiet)
	if len(waited) > 0 {
		t.Fatalf("returned too early: %v", <-waited)
	}
}

// briefly returns a context that ends when a wait has looked some times.
func briefly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), quiet)
	t.Cleanup(cancel)
	return ctx
}

func TestWaitReconciledReturnsWhenTheRevisionIsInSync(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		client := newClient[*Website](t, newServer(t), websites)
		prepare(client)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		revision := uint64(site.Generation)
		ctx := testContext(t)
		waited := begin(t, func() error { return entity.WaitReconciled(ctx, client, "a", revision) })
		report(t, client, "a", revision-1, metav1.ConditionTrue, entity.ReasonSynced, 0)
		goesOn(t, waited)
		report(t, client, "a", revision, metav1.ConditionFalse, entity.ReasonRetrying, 0)
		goesOn(t, waited)
		report(t, client, "a", revision, metav1.ConditionTrue, entity.ReasonSynced, 0)
		must(t, endsAtOnce(t, waited))
	})
}

// TestWaitReconciledFailsForWhatWillNotBeRetried at once, with the reason, from a process without caches too.
func TestWaitReconciledFailsForWhatWillNotBeRetried(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		client := newClient[*Website](t, newServer(t), websites)
		prepare(client)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		revision := uint64(site.Generation)
		for reason, observed := range map[string]uint64{
			entity.ReasonTerminal: revision, entity.ReasonInvalid: revision - 1, entity.ReasonSuspended: revision - 1,
		} {
			report(t, client, "a", observed, metav1.ConditionFalse, reason, int64(revision))
			wait := func() error { return entity.WaitReconciled(testContext(t), client, "a", revision) }
			err := atOnce(t, reason, wait)
			told, ok := errors.AsType[*entity.NotReconciledError](err)
			if !ok || told.Key != "a" || told.Revision != revision || told.Reason != reason ||
				told.Message != "says why" || !strings.Contains(err.Error(), "says why") {
				t.Errorf("%s: %v", reason, err)
			}
			// A state of an older revision says nothing of the next one.
			err = entity.WaitReconciled(briefly(t), client, "a", revision+1)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s of an older revision: %v", reason, err)
			}
		}
	})
}

// TestWaitReconciledSaysOfWhichRevisionAndStreamItIsInvalid. An anchor may still be of the stream before.
func TestWaitReconciledSaysOfWhichRevisionAndStreamItIsInvalid(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		rec := &entity.Record{
			Controller: "c", ObservedRevision: 99, DocumentRevision: 99, Stream: "of yesterday",
			Invalid: &entity.InvalidDocument{
				Revision: uint64(site.Generation), Stream: stream(t, client), Path: "spec", Line: 1, Column: 2, Reason: "why",
			},
			Conditions: []metav1.Condition{{
				Type: entity.ConditionReconciled, Status: metav1.ConditionFalse, Reason: entity.ReasonInvalid,
				ObservedGeneration: site.Generation,
			}},
		}
		must(t, client.Records().Put(t.Context(), "a", rec))
		told, ok := errors.AsType[*entity.NotReconciledError](
			entity.WaitReconciled(testContext(t), client, "a", uint64(site.Generation)))
		if !ok || told.Invalid == nil || told.Invalid.Path != "spec" || told.Revision != uint64(site.Generation) {
			t.Errorf("got %+v", told)
		}
		if phase := rec.Phase(); phase != entity.PhaseInvalid {
			t.Errorf("phase %s", phase)
		}
	})
}

// TestTheDeadlineOfAWaitTellsOfTheLastRetry: retrying is no reason to fail.
func TestTheDeadlineOfAWaitTellsOfTheLastRetry(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		revision := uint64(site.Generation)
		report(t, client, "a", 0, metav1.ConditionFalse, entity.ReasonRetrying, int64(revision))
		err := entity.WaitReconciled(briefly(t), client, "a", revision)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Retrying: says why") {
			t.Errorf("got %v", err)
		}
	})
}

// TestAWaitForADocumentThatIsDeletedFails, whether its record is gone already or not.
func TestAWaitForADocumentThatIsDeletedFails(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		for _, recorded := range []bool{false, true} {
			client := newClient[*Website](t, newServer(t), websites)
			prepare(client)
			site := website("a")
			must(t, client.Create(t.Context(), site))
			revision := uint64(site.Generation)
			if recorded {
				report(t, client, "a", 0, metav1.ConditionFalse, entity.ReasonRetrying, int64(revision))
			}
			ctx := testContext(t)
			waited := begin(t, func() error { return entity.WaitReconciled(ctx, client, "a", revision) })
			must(t, client.Delete(t.Context(), "a"))
			began := time.Now()
			err := <-waited
			if told, ok := errors.AsType[*entity.NotReconciledError](err); !ok || told.Reason != entity.ReasonDeleted {
				t.Errorf("recorded %v: %v", recorded, err)
			}
			if took := time.Since(began); took > entity.WaitPollMax {
				t.Errorf("recorded %v: after %v", recorded, took)
			}
		}
	})
}

// TestAWaitOutlivesTheDocumentsBeforeIt: what was deleted before the revision was written is another document.
func TestAWaitOutlivesTheDocumentsBeforeIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		must(t, client.Delete(t.Context(), "a"))
		ctx := testContext(t)
		waited := begin(t, func() error { return entity.WaitReconciled(ctx, client, "a", 3) })
		goesOn(t, waited)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		report(t, client, "a", uint64(site.Generation), metav1.ConditionTrue, entity.ReasonSynced, site.Generation)
		must(t, endsAtOnce(t, waited))
	})
}

// TestAWaitEndsWithItsBucket, and says which one is missing.
func TestAWaitEndsWithItsBucket(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		for _, name := range []string{"websites-status", "websites"} {
			js := newServer(t)
			client := newClient[*Website](t, js, websites)
			prepare(client)
			site := website("a")
			must(t, client.Create(t.Context(), site))
			report(t, client, "a", 0, metav1.ConditionFalse, entity.ReasonRetrying, site.Generation)
			ctx := testContext(t)
			waited := begin(t, func() error { return entity.WaitReconciled(ctx, client, "a", uint64(site.Generation)) })
			other := begin(t, func() error {
				if name == "websites" {
					return entity.WaitDeleted(ctx, client, "a")
				}
				return entity.WaitFor(ctx, client, "a", func(*entity.Record) (bool, error) { return false, nil })
			})
			goesOn(t, waited)
			must(t, js.DeleteKeyValue(t.Context(), name))
			began := time.Now()
			for _, ended := range []chan error{waited, other} {
				err := <-ended
				if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), name) ||
					!strings.Contains(err.Error(), "does not exist") {
					t.Errorf("without %s: %v", name, err)
				}
			}
			if took := time.Since(began); took > entity.WaitPollMax {
				t.Errorf("without %s: after %v", name, took)
			}
		}
	})
}

// TestAWaitOutlivesTheServer: it goes on when the server is back.
func TestAWaitOutlivesTheServer(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		server := natstest.Start(t)
		_, js := natstest.Connect(t, server.URL())
		client := newClient[*Website](t, js, websites)
		prepare(client)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		ctx := testContext(t)
		waited := begin(t, func() error { return entity.WaitReconciled(ctx, client, "a", uint64(site.Generation)) })
		goesOn(t, waited)
		server.Stop()
		goesOn(t, waited)
		must(t, server.Start())
		report(t, client, "a", uint64(site.Generation), metav1.ConditionTrue, entity.ReasonSynced, site.Generation)
		began := time.Now()
		must(t, <-waited)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// TestAWaitHearsOfWhatItWaitsFor: it watches, and looks once when something comes. Without news it looks once a second.
func TestAWaitHearsOfWhatItWaitsFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		must(t, client.Create(t.Context(), website("a")))
		ctx := testContext(t)
		waited := begin(t, func() error {
			return entity.WaitForCondition(ctx, client, "a", "Ready", metav1.ConditionTrue)
		})
		reads := asked(t, js, "KV_websites-status")
		goesOn(t, waited)
		time.Sleep(entity.WaitPollMax / 2)
		if got := reads(); got > int(quiet/entity.WaitPollMax)+5 {
			t.Errorf("without news it asked %d times in %v", got, quiet)
		}
		if n := consumers(t, js, "websites-status"); n != 1 {
			t.Errorf("%d consumers", n)
		}
		must(t, client.Records().Put(t.Context(), "a", &entity.Record{
			Status: json.RawMessage(`{"conditions":[{"type":"Ready","status":"True"}]}`),
		}))
		must(t, endsAtOnce(t, waited))
		if got := reads(); got != 1 {
			t.Errorf("it asked %d times", got)
		}
		if n := consumers(t, js, "websites-status"); n != 0 {
			t.Errorf("%d consumers are left", n)
		}
	})
}

func TestWaitForGivesNilAndTheRecord(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		reasons := make(chan string, 100)
		waited := make(chan error, 1)
		go func() {
			waited <- entity.WaitFor(testContext(t), client, "a", func(rec *entity.Record) (bool, error) {
				if rec == nil {
					reasons <- "none"
					return false, nil
				}
				if rec.Phase() == entity.PhaseTerminal {
					return false, errors.New("mine")
				}
				return false, nil
			})
		}()
		if got := <-reasons; got != "none" {
			t.Errorf("got %q", got)
		}
		report(t, client, "a", 0, metav1.ConditionFalse, entity.ReasonTerminal, 1)
		if err := <-waited; err == nil || err.Error() != "mine" {
			t.Errorf("got %v", err)
		}
		must(t, entity.WaitForCondition(testContext(t), client, "a", entity.ConditionReconciled, metav1.ConditionFalse))
	})
}

func TestWaitDeletedWaitsForTheTeardown(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		client := newClient[*Website](t, newServer(t), websites)
		prepare(client)
		never := func() error { return entity.WaitDeleted(testContext(t), client, "never-was") }
		must(t, atOnce(t, "what never was", never))
		site := website("a")
		must(t, client.Create(t.Context(), site))
		report(t, client, "a", uint64(site.Generation), metav1.ConditionTrue, entity.ReasonSynced, site.Generation)
		remains := func(want ...string) {
			t.Helper()
			err := entity.WaitDeleted(briefly(t), client, "a")
			for _, text := range want {
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, want %q", err, text)
				}
			}
		}
		remains("its document is there")
		must(t, client.Delete(t.Context(), "a"))
		remains("its document is gone", "Synced")
		_, err := client.Records().PutReserved(t.Context(), "_nagi.brake",
			[]byte(`{"engaged":true,"engagement":"E1","held":2,"swept":1,"since":"2026-01-02T03:04:05Z","reason":"too many"}`), 0)
		must(t, err)
		remains("its document is gone", "the brake of its controller holds deletes back", "too many",
			`nats kv put websites-status _nagi.release "E1 3"`)
		rec, err := client.Record(t.Context(), "a")
		must(t, err)
		rec.Conditions = []metav1.Condition{
			{Type: entity.ConditionReconciled, Status: metav1.ConditionFalse, Reason: entity.ReasonRetrying, Message: "waits"},
			{Type: entity.ConditionDeleting, Status: metav1.ConditionTrue, Reason: entity.ReasonRetrying, Message: "waits"},
		}
		must(t, client.Records().Put(t.Context(), "a", rec))
		remains("Deleting", "waits")
		ctx := testContext(t)
		waited := begin(t, func() error { return entity.WaitDeleted(ctx, client, "a") })
		goesOn(t, waited)
		rec.Conditions[1].Reason = entity.ReasonTerminal
		must(t, client.Records().Put(t.Context(), "a", rec))
		err = endsAtOnce(t, waited)
		if told, ok := errors.AsType[*entity.NotReconciledError](err); !ok || told.Reason != entity.ReasonTerminal {
			t.Errorf("got %v", err)
		}
		rec.Conditions = nil
		must(t, client.Records().Put(t.Context(), "a", rec))
		waited = begin(t, func() error { return entity.WaitDeleted(ctx, client, "a") })
		goesOn(t, waited)
		must(t, client.Records().Delete(t.Context(), "a", rec.Revision))
		must(t, endsAtOnce(t, waited))
	})
}

func TestWaitDeletedNeedsNoStatusBucket(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		cfg := websites
		cfg.StatusBucket = entity.NoStatusBucket
		client := newClient[*Website](t, newServer(t), cfg)
		must(t, client.Create(t.Context(), website("a")))
		waited := make(chan error, 1)
		go func() { waited <- entity.WaitDeleted(testContext(t), client, "a") }()
		must(t, client.Delete(t.Context(), "a"))
		must(t, <-waited)
		wantError(t, "reconciled", apierrors.IsInvalid, entity.WaitReconciled(testContext(t), client, "a", 1))
	})
}

func TestWaitReconciledDoesNotBelieveARecordOfAnotherStream(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		must(t, client.Records().Put(t.Context(), "a", &entity.Record{
			ObservedRevision: 99, Stream: "of yesterday",
			Conditions: []metav1.Condition{{
				Type: entity.ConditionReconciled, Status: metav1.ConditionTrue, Reason: entity.ReasonSynced,
			}},
		}))
		err := entity.WaitReconciled(briefly(t), client, "a", uint64(site.Generation))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "of yesterday") {
			t.Errorf("got error %v", err)
		}
	})
}
