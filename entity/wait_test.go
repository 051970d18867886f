package entity_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
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

func TestWaitReconciledFailsForWhatWillNotBeRetried(t *testing.T) {
	client := newClient[*Website](t, newServer(t), websites)
	site := website("a")
	must(t, client.Create(t.Context(), site))
	revision := uint64(site.Generation)
	report(t, client, "a", revision, metav1.ConditionFalse, entity.ReasonTerminal, 0)
	if err := entity.WaitReconciled(testContext(t), client, "a", revision); err == nil ||
		!strings.Contains(err.Error(), "says why") {
		t.Errorf("terminal: %v", err)
	}
	report(t, client, "a", revision-1, metav1.ConditionFalse, entity.ReasonInvalid, int64(revision))
	if err := entity.WaitReconciled(testContext(t), client, "a", revision); err == nil ||
		!strings.Contains(err.Error(), entity.ReasonInvalid) {
		t.Errorf("invalid: %v", err)
	}
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
