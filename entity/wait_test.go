package entity_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
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

func TestWaitReconciledReturnsWhenTheRevisionIsInSync(t *testing.T) {
	for _, started := range []bool{false, true} {
		client := newClient[*Website](t, newServer(t), websites)
		if started {
			start(t, client)
		}
		site := website("a")
		must(t, client.Create(t.Context(), site))
		revision := uint64(site.Generation)
		waited := make(chan error, 1)
		go func() { waited <- entity.WaitReconciled(testContext(t), client, "a", revision) }()
		for _, step := range []func(){
			func() { report(t, client, "a", revision-1, metav1.ConditionTrue, entity.ReasonSynced, 0) },
			func() { report(t, client, "a", revision, metav1.ConditionFalse, entity.ReasonRetrying, 0) },
		} {
			step()
			select {
			case err := <-waited:
				t.Fatalf("returned too early: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
		}
		report(t, client, "a", revision, metav1.ConditionTrue, entity.ReasonSynced, 0)
		must(t, <-waited)
	}
}

// TestWaitReconciledFailsForWhatWillNotBeRetried at once, with the reason, from a process without caches too.
func TestWaitReconciledFailsForWhatWillNotBeRetried(t *testing.T) {
	for _, started := range []bool{false, true} {
		client := newClient[*Website](t, newServer(t), websites)
		if started {
			start(t, client)
		}
		site := website("a")
		must(t, client.Create(t.Context(), site))
		revision := uint64(site.Generation)
		for reason, observed := range map[string]uint64{
			entity.ReasonTerminal: revision, entity.ReasonInvalid: revision - 1, entity.ReasonSuspended: revision - 1,
		} {
			report(t, client, "a", observed, metav1.ConditionFalse, reason, int64(revision))
			err := entity.WaitReconciled(testContext(t), client, "a", revision)
			told, ok := errors.AsType[*entity.NotReconciledError](err)
			if !ok || told.Key != "a" || told.Revision != revision || told.Reason != reason || told.Message != "says why" ||
				!strings.Contains(err.Error(), "says why") {
				t.Errorf("%s, started %v: %v", reason, started, err)
			}
			// A state of an older revision says nothing of the next one.
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err = entity.WaitReconciled(ctx, client, "a", revision+1)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s of an older revision, started %v: %v", reason, started, err)
			}
		}
	}
}

// TestWaitReconciledSaysOfWhichRevisionAndStreamItIsInvalid. An anchor may still be of the stream before.
func TestWaitReconciledSaysOfWhichRevisionAndStreamItIsInvalid(t *testing.T) {
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
}

// lookingAgain is a client that notices when a wait has looked at a key and looks again.
type lookingAgain struct {
	entity.IEntityClient[*Website]
	confirmed, cached atomic.Int64
	end               func()
}

// untilItLooksAgain returns a context that ends then, as if that were its deadline.
func untilItLooksAgain(t *testing.T, client *entity.Client[*Website]) (context.Context, *lookingAgain) {
	ctx, cancel := context.WithCancelCause(testContext(t))
	return ctx, &lookingAgain{IEntityClient: client, end: func() { cancel(context.DeadlineExceeded) }}
}

// Confirm is called once in each look at what no cache has.
func (l *lookingAgain) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	if l.confirmed.Add(1) == 2 {
		l.end()
	}
	return l.IEntityClient.Confirm(ctx, key)
}

// Informer is called before, in and after each look at what the caches have.
func (l *lookingAgain) Informer() natsinformer.Informer {
	if l.cached.Add(1) == 6 {
		l.end()
	}
	return l.IEntityClient.Informer()
}

// TestTheDeadlineOfAWaitTellsOfTheLastRetry: retrying is no reason to fail.
func TestTheDeadlineOfAWaitTellsOfTheLastRetry(t *testing.T) {
	client := newClient[*Website](t, newServer(t), websites)
	site := website("a")
	must(t, client.Create(t.Context(), site))
	revision := uint64(site.Generation)
	report(t, client, "a", 0, metav1.ConditionFalse, entity.ReasonRetrying, int64(revision))
	ctx, looking := untilItLooksAgain(t, client)
	err := entity.WaitReconciled(ctx, looking, "a", revision)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Retrying: says why") {
		t.Errorf("got %v", err)
	}
}

// TestAWaitForADocumentThatIsDeletedFails, whether its record is gone already or not.
func TestAWaitForADocumentThatIsDeletedFails(t *testing.T) {
	for name, test := range map[string]struct{ started, recorded bool }{
		"cached": {true, true}, "live": {false, true}, "cached, torn down": {true, false}, "live, torn down": {false, false},
	} {
		client := newClient[*Website](t, newServer(t), websites)
		if test.started {
			start(t, client)
		}
		site := website("a")
		must(t, client.Create(t.Context(), site))
		revision := uint64(site.Generation)
		if test.recorded {
			report(t, client, "a", 0, metav1.ConditionFalse, entity.ReasonRetrying, int64(revision))
		}
		waited := make(chan error, 1)
		go func() { waited <- entity.WaitReconciled(testContext(t), client, "a", revision) }()
		must(t, client.Delete(t.Context(), "a"))
		err := <-waited
		if told, ok := errors.AsType[*entity.NotReconciledError](err); !ok || told.Reason != entity.ReasonDeleted {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAWaitOutlivesTheDocumentsBeforeIt: what was deleted before the revision was written is another document.
func TestAWaitOutlivesTheDocumentsBeforeIt(t *testing.T) {
	client := newClient[*Website](t, newServer(t), websites)
	must(t, client.Create(t.Context(), website("a")))
	must(t, client.Delete(t.Context(), "a"))
	waited := make(chan error, 1)
	go func() { waited <- entity.WaitReconciled(testContext(t), client, "a", 3) }()
	select {
	case err := <-waited:
		t.Fatalf("before it was written: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	site := website("a")
	must(t, client.Create(t.Context(), site))
	report(t, client, "a", uint64(site.Generation), metav1.ConditionTrue, entity.ReasonSynced, site.Generation)
	must(t, <-waited)
}

// TestAWaitEndsWithItsBucket, and says which one is missing.
func TestAWaitEndsWithItsBucket(t *testing.T) {
	for _, started := range []bool{false, true} {
		for _, name := range []string{"websites-status", "websites"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				js := newServer(t)
				client := newClient[*Website](t, js, websites)
				if started {
					start(t, client)
				}
				site := website("a")
				must(t, client.Create(t.Context(), site))
				report(t, client, "a", 0, metav1.ConditionFalse, entity.ReasonRetrying, site.Generation)
				waited := make(chan error, 3)
				go func() { waited <- entity.WaitReconciled(testContext(t), client, "a", uint64(site.Generation)) }()
				if name == "websites-status" {
					go func() {
						waited <- entity.WaitFor(testContext(t), client, "a", func(*entity.Record) (bool, error) { return false, nil })
					}()
				} else {
					go func() { waited <- entity.WaitDeleted(testContext(t), client, "a") }()
				}
				time.Sleep(100 * time.Millisecond) // so that they watch; before or after, they end
				must(t, js.DeleteKeyValue(t.Context(), name))
				began := time.Now()
				for range 2 {
					err := <-waited
					if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), name) ||
						!strings.Contains(err.Error(), "does not exist") {
						t.Errorf("started %v: %v", started, err)
					}
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("after %v", took)
				}
			})
		}
	}
}

// TestAWaitOutlivesTheServer: it goes on when the server is back.
func TestAWaitOutlivesTheServer(t *testing.T) {
	for _, started := range []bool{false, true} {
		server := natstest.Start(t)
		_, js := natstest.Connect(t, server.URL())
		client := newClient[*Website](t, js, websites)
		if started {
			start(t, client)
		}
		site := website("a")
		must(t, client.Create(t.Context(), site))
		waited := make(chan error, 1)
		go func() { waited <- entity.WaitReconciled(t.Context(), client, "a", uint64(site.Generation)) }()
		time.Sleep(100 * time.Millisecond) // so that it watches
		must(t, server.Restart())
		report(t, client, "a", uint64(site.Generation), metav1.ConditionTrue, entity.ReasonSynced, site.Generation)
		must(t, <-waited)
	}
}

// TestAWaitHearsOfWhatItWaitsFor: it watches, and looks once when something comes. It would look without news only
// after an hour.
func TestAWaitHearsOfWhatItWaitsFor(t *testing.T) {
	entity.SetTime(t, entity.WaitPollMax, time.Hour)
	entity.SetTime(t, entity.AttemptTimeout, time.Hour) // nothing is lost
	js := newServer(t)
	client := newClient[*Website](t, js, websites)
	must(t, client.Create(t.Context(), website("a")))
	waited := make(chan error, 1)
	go func() {
		waited <- entity.WaitForCondition(testContext(t), client, "a", "Ready", metav1.ConditionTrue)
	}()
	eventually(t, "it watches", func() bool {
		stream, err := js.Stream(t.Context(), "KV_websites-status")
		must(t, err)
		info, err := stream.Info(t.Context())
		must(t, err)
		return info.State.Consumers == 1
	})
	reads := asked(t, js, "KV_websites-status") // it made the consumer after its last look without news
	must(t, client.Records().Put(t.Context(), "a", &entity.Record{
		Status: json.RawMessage(`{"conditions":[{"type":"Ready","status":"True"}]}`),
	}))
	must(t, <-waited)
	if got := reads(); got != 1 {
		t.Errorf("it asked %d times", got)
	}
	eventually(t, "no consumer is left", func() bool {
		stream, err := js.Stream(t.Context(), "KV_websites-status")
		must(t, err)
		info, err := stream.Info(t.Context())
		must(t, err)
		return info.State.Consumers == 0
	})
}

func TestWaitForGivesNilAndTheRecord(t *testing.T) {
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
}

func TestWaitDeletedWaitsForTheTeardown(t *testing.T) {
	entity.SetTime(t, entity.BrakeNoteTimeout, time.Minute)
	for _, started := range []bool{false, true} {
		client := newClient[*Website](t, newServer(t), websites)
		if started {
			start(t, client)
		}
		must(t, entity.WaitDeleted(testContext(t), client, "never-was"))
		site := website("a")
		must(t, client.Create(t.Context(), site))
		report(t, client, "a", uint64(site.Generation), metav1.ConditionTrue, entity.ReasonSynced, site.Generation)
		remains := func(want ...string) {
			t.Helper()
			ctx, looking := untilItLooksAgain(t, client)
			err := entity.WaitDeleted(ctx, looking, "a")
			for _, text := range want {
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), text) {
					t.Errorf("started %v: %v, want %q", started, err, text)
				}
			}
		}
		remains("its document is there")
		must(t, client.Delete(t.Context(), "a"))
		eventually(t, "the cache has heard", func() bool { return !client.Informer().Exists("a") })
		remains("its document is gone", "Synced")
		_, err := client.Records().PutReserved(t.Context(), "_nagi.brake",
			[]byte(`{"engaged":true,"engagement":"E1","held":2,"swept":1,"since":"2026-01-02T03:04:05Z","reason":"too many"}`), 0)
		must(t, err)
		remains("its document is gone", "too many", `nats kv put websites-status _nagi.release "E1 3"`)
		rec, err := client.Record(t.Context(), "a")
		must(t, err)
		rec.Conditions = []metav1.Condition{
			{Type: entity.ConditionReconciled, Status: metav1.ConditionFalse, Reason: entity.ReasonRetrying, Message: "waits"},
			{Type: entity.ConditionDeleting, Status: metav1.ConditionTrue, Reason: entity.ReasonRetrying, Message: "waits"},
		}
		must(t, client.Records().Put(t.Context(), "a", rec))
		remains("Deleting", "waits")
		waited := make(chan error, 1)
		go func() { waited <- entity.WaitDeleted(testContext(t), client, "a") }()
		rec.Conditions[1].Reason = entity.ReasonTerminal
		must(t, client.Records().Put(t.Context(), "a", rec))
		if told, ok := errors.AsType[*entity.NotReconciledError](<-waited); !ok || told.Reason != entity.ReasonTerminal {
			t.Errorf("started %v: %v", started, told)
		}
		rec.Conditions = nil
		must(t, client.Records().Put(t.Context(), "a", rec))
		go func() { waited <- entity.WaitDeleted(testContext(t), client, "a") }()
		must(t, client.Records().Delete(t.Context(), "a", rec.Revision))
		must(t, <-waited)
	}
}

func TestWaitDeletedNeedsNoStatusBucket(t *testing.T) {
	cfg := websites
	cfg.StatusBucket = entity.NoStatusBucket
	client := newClient[*Website](t, newServer(t), cfg)
	must(t, client.Create(t.Context(), website("a")))
	waited := make(chan error, 1)
	go func() { waited <- entity.WaitDeleted(testContext(t), client, "a") }()
	must(t, client.Delete(t.Context(), "a"))
	must(t, <-waited)
	wantError(t, "reconciled", apierrors.IsInvalid, entity.WaitReconciled(testContext(t), client, "a", 1))
}

func TestWaitReconciledDoesNotBelieveARecordOfAnotherStream(t *testing.T) {
	js := newServer(t)
	client := newClient[*Website](t, js, websites)
	site := website("a")
	must(t, client.Create(t.Context(), site))
	must(t, client.Records().Put(t.Context(), "a", &entity.Record{
		ObservedRevision: 99, Stream: "of yesterday",
		Conditions: []metav1.Condition{{
			Type: entity.ConditionReconciled, Status: metav1.ConditionTrue, Reason: entity.ReasonSynced,
		}},
	}))
	asked, err := js.Conn().SubscribeSync("$JS.API.STREAM.MSG.GET.KV_websites-status")
	must(t, err)
	must(t, js.Conn().Flush())
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- entity.WaitReconciled(ctx, client, "a", uint64(site.Generation)) }()
	for range 3 { // so it was answered twice, and asks again
		_, err := asked.NextMsgWithContext(testContext(t))
		must(t, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "of yesterday") {
		t.Errorf("got error %v", err)
	}
}
