package recorder_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestAnyNATSClientReadsACoreV1Event(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		plain, err := nats.Connect(server.URL(), natstest.Dialer())
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		sub, err := plain.SubscribeSync("nagi.events.Website.Warning.shop.frontend.*")
		if err != nil {
			t.Fatal(err)
		}
		if err := plain.Flush(); err != nil {
			t.Fatal(err)
		}
		_, js := natstest.Connect(t, server.URL())
		rec := newRecorder(t, recorder.Config{JetStream: js, Component: "website-controller", Host: "node-1"})

		before := time.Now()
		trace := map[string]string{"trace": "42"}
		rec.AnnotatedEventf(website("shop", "frontend"), trace, corev1.EventTypeWarning,
			"DNSFailed", "no address for %s", "example.com")

		msg, err := sub.NextMsg(20 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var got corev1.Event
		if err := json.Unmarshal(msg.Data, &got); err != nil {
			t.Fatal(err)
		}
		if got.FirstTimestamp.Time.Before(before.Truncate(time.Second)) || !got.FirstTimestamp.Equal(&got.LastTimestamp) {
			t.Errorf("timestamps %v and %v, recorded at %v", got.FirstTimestamp, got.LastTimestamp, before)
		}
		if id := msg.Subject[strings.LastIndex(msg.Subject, ".")+1:]; got.Name != "frontend."+id {
			t.Errorf("the event %q is on the subject %q", got.Name, msg.Subject)
		}
		got.Name, got.FirstTimestamp, got.LastTimestamp = "", metaTime, metaTime
		want := corev1.Event{}
		want.Kind, want.APIVersion = "Event", "v1"
		want.Namespace, want.Annotations = "shop", map[string]string{"trace": "42"}
		want.InvolvedObject = corev1.ObjectReference{
			Kind: "Website", Namespace: "shop", Name: "frontend", ResourceVersion: "7",
		}
		want.Type, want.Reason, want.Count = corev1.EventTypeWarning, "DNSFailed", 1
		want.Message = "no address for example.com"
		want.Source = corev1.EventSource{Component: "website-controller", Host: "node-1"}
		want.ReportingController, want.ReportingInstance = "website-controller", "node-1"
		if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
			t.Errorf("got  %s\nwant %s", a, b)
		}
	})
}

func TestRepeatsBecomeTheCountOfOneEvent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, js := start(t, recorder.Config{})
		site := website("shop", "frontend")
		rec.Event(site, corev1.EventTypeNormal, "Synced", "done")
		wantNow(t, "the first is published", func() bool { return rec.Stats().NATS.Published == 1 })
		first := list(t, rec, "Website", "shop/frontend")
		time.Sleep(time.Second) // a metav1.Time is in seconds
		for range 4 {
			rec.Event(site, corev1.EventTypeNormal, "Synced", "done")
		}
		rec.Event(site, corev1.EventTypeWarning, "Synced", "done") // another type is another event
		flush(t, rec)

		events := list(t, rec, "Website", "shop/frontend")
		if len(events) != 2 {
			t.Fatalf("%d events are stored, want 2: %+v", len(events), events)
		}
		stream, err := js.Stream(t.Context(), recorder.DefaultStream)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.Msgs; n != 2 {
			t.Errorf("the stream keeps %d messages, want 2", n)
		}
		normal := events[0]
		if normal.Type != corev1.EventTypeNormal {
			normal = events[1]
		}
		if normal.Count != 5 || normal.Name != first[0].Name || !normal.FirstTimestamp.Equal(&first[0].FirstTimestamp) ||
			!normal.LastTimestamp.After(normal.FirstTimestamp.Time) {
			t.Errorf("after %+v\ngot   %+v", first[0], normal)
		}
		accounted(t, rec.Stats().NATS)
	})
}

func TestSimilarEventsAreCombined(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, _ := start(t, recorder.Config{})
		site := website("", "blog")
		for i := range 15 {
			rec.Eventf(site, corev1.EventTypeWarning, "Failed", "attempt %d", i)
		}
		rec.Event(site, corev1.EventTypeWarning, "Other", "of another reason")
		flush(t, rec)

		var combined []corev1.Event
		events := list(t, rec, "Website", "blog")
		for _, e := range events {
			if strings.HasPrefix(e.Message, "(combined from similar events): ") {
				combined = append(combined, e)
			}
		}
		// Nine are stored as they came, the tenth to fifteenth as one with a count.
		if len(events) != 11 || len(combined) != 1 || combined[0].Count != 6 ||
			combined[0].Message != "(combined from similar events): attempt 14" {
			t.Errorf("%d events, combined %+v", len(events), combined)
		}
	})
}

func TestAnObjectThatNeverStopsIsThrottledAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, _ := start(t, recorder.Config{})
		for range 200 {
			rec.Event(website("", "noisy"), corev1.EventTypeWarning, "Failed", "again")
		}
		rec.Event(website("", "quiet"), corev1.EventTypeWarning, "Failed", "once")
		flush(t, rec)

		if noisy := list(t, rec, "Website", "noisy"); len(noisy) != 1 || noisy[0].Count != 25 {
			t.Errorf("of the noisy one: %+v", noisy)
		}
		if quiet := list(t, rec, "Website", "quiet"); len(quiet) != 1 {
			t.Errorf("of the quiet one: %+v", quiet)
		}
		if s := rec.Stats().NATS; s.Filtered != 175 {
			t.Errorf("filtered: %+v", s)
		}
		accounted(t, rec.Stats().NATS)
	})
}

func TestThresholdsCanBeChanged(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, _ := start(t, recorder.Config{Correlator: record.CorrelatorOptions{BurstSize: 1000}})
		for range 200 {
			rec.Event(website("", "noisy"), corev1.EventTypeWarning, "Failed", "again")
		}
		flush(t, rec)
		if noisy := list(t, rec, "Website", "noisy"); len(noisy) != 1 || noisy[0].Count != 200 {
			t.Errorf("%+v", noisy)
		}
	})
}

func TestEventsAgeOut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, _ := start(t, recorder.Config{MaxAge: time.Second})
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		wantNow(t, "the event is stored", func() bool { return rec.Stats().NATS.Published == 1 })
		time.Sleep(999 * time.Millisecond)
		wantNow(t, "the event is there", func() bool { return len(list(t, rec, "Website", "blog")) == 1 })
		time.Sleep(time.Second) // the server looks a little later
		wantNow(t, "the event is gone", func() bool { return len(list(t, rec, "Website", "blog")) == 0 })
	})
}

func TestTheStreamIsBoundedInBytes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, js := start(t, recorder.Config{MaxBytes: 64 << 10, QueueSize: 10_000})
		for i := range 1000 {
			rec.Event(website("", fmt.Sprintf("site-%d", i)), corev1.EventTypeNormal, "Synced", "done")
		}
		flush(t, rec)
		stream, err := js.Stream(t.Context(), recorder.DefaultStream)
		if err != nil {
			t.Fatal(err)
		}
		if state := stream.CachedInfo().State; state.Bytes > 64<<10 || state.LastSeq != 1000 || state.Msgs == 0 {
			t.Errorf("%+v", state)
		}
		if newest := list(t, rec, "Website", "site-999"); len(newest) != 1 {
			t.Error("the newest event is not there")
		}
	})
}

func TestConcurrentEventsAreAllAccountedForAndDistinct(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, _ := start(t, recorder.Config{
			QueueSize: 10_000, Correlator: record.CorrelatorOptions{BurstSize: 10_000, MaxEvents: 10_000},
		})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 100 {
					rec.Eventf(website("", "shared"), corev1.EventTypeNormal, "Synced", "%d of %d", i, g)
				}
			})
		}
		wg.Wait()
		flush(t, rec)
		if events := list(t, rec, "Website", "shared"); len(events) != 800 {
			t.Errorf("%d events are stored, want 800", len(events))
		}
		if s := rec.Stats().NATS; s.Published != 800 {
			t.Errorf("%+v", s)
		}
		accounted(t, rec.Stats().NATS)
	})
}

func TestWithNoDestinationEventsAreCountedAndDropped(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec := newRecorder(t, recorder.Config{Scheme: scheme.Scheme})
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		rec.Event(&corev1.ConfigMap{ObjectMeta: website("", "config").ObjectMeta}, corev1.EventTypeNormal, "Synced", "done")
		s := rec.Stats()
		if s.NATS.Recorded != 1 || s.NATS.Dropped != 1 ||
			s.Kubernetes.Recorded != 1 || s.Kubernetes.Dropped != 1 || s.Refused != 0 {
			t.Errorf("%+v", s)
		}
		if events := list(t, rec, "", ""); events != nil || rec.Err() != nil {
			t.Errorf("%v %v", events, rec.Err())
		}
	})
}

func TestNonsenseIsRefusedLoggedAndHarmsNobody(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		log := &errorLog{}
		rec, _, _ := start(t, recorder.Config{Logger: log.logger(), IsNATS: func(o runtime.Object) bool {
			if o.(*Website).Name == "panic" {
				panic("IsNATS is broken")
			}
			return true
		}})
		var typedNil *Website
		rec.Event(nil, corev1.EventTypeNormal, "R", "m")
		rec.Event(typedNil, corev1.EventTypeNormal, "R", "m")
		rec.Event(&corev1.ObjectReference{}, corev1.EventTypeNormal, "R", "m")
		rec.Event(website("", ""), corev1.EventTypeNormal, "R", "m")
		rec.Event(website("", "panic"), corev1.EventTypeNormal, "R", "m")
		rec.Event(website("", "blog"), "Unheard", "R", "m")
		large := map[string]string{"a": strings.Repeat("x", 5000)}
		rec.AnnotatedEventf(website("", "blog"), large, corev1.EventTypeNormal, "R", "m")
		if got, logged := rec.Stats().Refused, len(log.with("An event was not recorded")); got != 7 || logged != 7 {
			t.Errorf("%d refused, %d in the log, want 7 and 7", got, logged)
		}
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		flush(t, rec)
		if events := list(t, rec, "", ""); len(events) != 1 {
			t.Errorf("%+v", events)
		}
	})
}

func TestANilRecorderRecordsNothing(t *testing.T) {
	t.Parallel()
	var rec *recorder.Recorder
	rec.RegisterKind("Website")
	rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
	rec.Eventf(website("", "blog"), corev1.EventTypeNormal, "Synced", "done %d", 1)
	if err := rec.Close(context.Background()); err != nil || rec.Err() != nil || rec.Stats() != (recorder.Stats{}) {
		t.Error("a nil recorder did something")
	}
}

func TestLongTextsAreCut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, _ := start(t, recorder.Config{})
		rec.Event(website("", "blog"), corev1.EventTypeNormal, strings.Repeat("R", 500), strings.Repeat("ü", 5000))
		flush(t, rec)
		e := list(t, rec, "Website", "blog")[0]
		if len(e.Reason) != 128 || len(e.Message) > 1024 || len(e.Message) < 1020 ||
			strings.Trim(e.Message, "ü") != "… (10000 bytes)" {
			t.Errorf("reason of %d bytes, message of %d bytes ending in %q",
				len(e.Reason), len(e.Message), e.Message[len(e.Message)-6:])
		}
	})
}

func TestAMeaninglessConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	for _, cfg := range []recorder.Config{
		{Stream: "a.b"}, {SubjectPrefix: "events.>"}, {SubjectPrefix: "events."}, {MaxAge: time.Millisecond},
		{QueueSize: -1},
	} {
		if rec, err := recorder.New(cfg); err == nil {
			_ = rec.Close(t.Context())
			t.Errorf("%+v was taken", cfg)
		}
	}
}

// TestTheStreamDeniesRollups: else one event of one writer could remove those of all others.
func TestTheStreamDeniesRollups(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		newRecorder(t, recorder.Config{JetStream: js, Component: "c"})
		streamReady(t, js)
		stream, err := js.Stream(t.Context(), recorder.DefaultStream)
		if err != nil {
			t.Fatal(err)
		}
		if cfg := stream.CachedInfo().Config; cfg.AllowRollup || cfg.SubjectDeleteMarkerTTL != 0 {
			t.Errorf("it allows rollups: %+v", cfg)
		}
	})
}

// TestWhatAnEventSaysIsClean: its message is often an error that quotes what somebody else wrote.
func TestWhatAnEventSaysIsClean(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, _ := start(t, recorder.Config{})
		hostile := "a\nb\x1b[31m\u202e\xff"
		rec.Event(website("", "blog"), corev1.EventTypeNormal, hostile, hostile)
		flush(t, rec)
		e := list(t, rec, "Website", "blog")[0]
		if e.Message != `a; b\x1b[31m\u202e\xff` || e.Reason != `"a\nb\x1b[31m\u202e\xff"` {
			t.Errorf("reason %q, message %q", e.Reason, e.Message)
		}
	})
}
