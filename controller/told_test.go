package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
)

// brokenSite is invalid at spec.pages, in line 3.
const brokenSite = "{\n  \"spec\": {\n    \"pages\": \"SECRET\"\n  }\n}"

// TestRecordConditionAndEventSayWhereADocumentIsInvalid, at which revision of which stream, and not what it says.
// Another process that waits for that revision is told at once.
func TestRecordConditionAndEventSayWhereADocumentIsInvalid(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, events := w.sites(), record.NewFakeRecorder(10)
		c, err := New("sites", sites, new(calls).reconciler(nil), WithResyncInterval(0),
			WithEventRecorder(butLease{events}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		stream, err := sites.StreamIdentity(t.Context())
		must(t, err)
		for _, key := range []string{"home", "never-good"} {
			revision, err := w.kv("sites").Put(t.Context(), key, []byte(brokenSite))
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			told, ok := errors.AsType[*entity.NotReconciledError](
				entity.WaitReconciled(ctx, w.away().sites(), key, revision))
			if !ok || told.Reason != entity.ReasonInvalid || told.Revision != revision {
				t.Errorf("waiting for %s: %v", key, told)
			}
			rec, err := sites.Record(t.Context(), key)
			must(t, err)
			want := entity.InvalidDocument{Revision: revision, Stream: stream, Path: "spec.pages", Line: 3, Column: 14}
			got := *rec.Invalid
			got.Reason = ""
			if got != want || rec.Phase() != entity.PhaseInvalid || rec.Anchor() != (key == "home") {
				t.Errorf("%s: %+v in phase %s, want %+v", key, rec.Invalid, rec.Phase(), want)
			}
			message := condition(t, sites, key).Message
			event := receive(t, "an event", events.Events)
			if !strings.Contains(event, entity.ReasonInvalid) {
				t.Errorf("event %q, want one about %s", event, entity.ReasonInvalid)
			}
			for what, text := range map[string]string{"condition": message, "event": event, "reason": rec.Invalid.Reason} {
				if strings.Contains(text, "SECRET") || !strings.Contains(text, "line 3, column 14") {
					t.Errorf("%s of %s: %s", what, key, text)
				}
				if what != "reason" && !(strings.Contains(text, "spec.pages") && strings.Contains(text, stream) &&
					strings.Contains(text, fmt.Sprintf("revision %d ", revision))) {
					t.Errorf("%s of %s: %s", what, key, text)
				}
			}
		}
		w.put("sites", "home", `{"spec":{"pages":1}}`)
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		if rec, err := sites.Record(t.Context(), "home"); err != nil || rec.Invalid != nil {
			t.Errorf("%+v, %v; want nothing invalid", rec, err)
		}
	})
}

func condition(t *testing.T, sites *entity.Client[*site], key string) metav1.Condition {
	t.Helper()
	rec, err := sites.Record(t.Context(), key)
	must(t, err)
	for _, c := range rec.Conditions {
		if c.Type == entity.ConditionReconciled {
			return c
		}
	}
	return metav1.Condition{}
}

// TestAnInvalidDocumentOfAnotherStreamIsAnotherOne, also at the same revision: the record does not go on to tell of the
// stream that is no more.
func TestAnInvalidDocumentOfAnotherStreamIsAnotherOne(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", quickCompare)
		c, err := New("sites", sites, new(calls).reconciler(nil), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		first, err := w.kv("sites").Put(t.Context(), "home", []byte(brokenSite))
		must(t, err)
		eventuallyReason(t, sites, "home", entity.ReasonInvalid)
		must(t, w.js.DeleteKeyValue(t.Context(), "sites"))
		again := w.away().sites()
		second, err := w.kv("sites").Put(t.Context(), "home", []byte(brokenSite))
		must(t, err)
		if first != second {
			t.Fatalf("at revisions %d and %d", first, second)
		}
		stream, err := again.StreamIdentity(t.Context())
		must(t, err)
		natstest.Eventually(t, "the record tells of the stream that there is", func() bool {
			rec, err := again.Record(t.Context(), "home")
			return err == nil && rec.Invalid != nil && rec.Invalid.Stream == stream && rec.Stream == stream
		})
	})
}

// TestFirstSeenIsKept over revisions and restarts, and not written for its own sake.
func TestFirstSeenIsKept(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		run := func() (*Controller[*site], *running) {
			c, err := New("sites", sites, new(calls).reconciler(nil), WithResyncInterval(0))
			must(t, err)
			return c, w.run(c)
		}
		_, r := run()
		before := time.Now().Add(-time.Second)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		w.put("sites", "bad", `{`)
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		eventuallyReason(t, sites, "bad", entity.ReasonInvalid)
		seen := map[string]time.Time{}
		for _, key := range []string{"home", "bad"} {
			rec, err := sites.Record(t.Context(), key)
			must(t, err)
			if seen[key] = rec.FirstSeen; rec.FirstSeen.Before(before) || rec.FirstSeen.After(time.Now()) {
				t.Errorf("%s was first seen at %v", key, rec.FirstSeen)
			}
		}
		r.halt()
		// One of an earlier version, and one that is a day old.
		rec, err := sites.Record(t.Context(), "home")
		must(t, err)
		rec.FirstSeen = rec.FirstSeen.Add(-24 * time.Hour)
		must(t, sites.Records().Put(t.Context(), "home", rec))
		old, err := sites.Record(t.Context(), "bad")
		must(t, err)
		old.FirstSeen = time.Time{}
		must(t, sites.Records().Put(t.Context(), "bad", old))
		written := w.lastSequence("sites-status")
		home, bad := rec.Revision, old.Revision
		c, r := run()
		idle(t, c)
		for key, want := range map[string]uint64{"home": home, "bad": bad} {
			if rec, err := sites.Record(t.Context(), key); err != nil || rec.Revision != want {
				t.Errorf("%s was written again after %d: %+v, %v", key, written, rec, err)
			}
		}
		must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"two"}}`)))
		w.put("sites", "bad", `{"spec":{}}`)
		eventuallyReason(t, sites, "bad", entity.ReasonSynced)
		natstest.Eventually(t, "the age stays", func() bool {
			now, err := sites.Record(t.Context(), "home")
			return err == nil && now.ObservedRevision > rec.ObservedRevision && now.FirstSeen.Equal(rec.FirstSeen)
		})
		if now, err := sites.Record(t.Context(), "bad"); err != nil || now.FirstSeen.Before(before) {
			t.Errorf("%+v, %v; want one with an age", now, err)
		}
		r.halt()
	})
}

// TestATeardownThatFailsIsToldInTheRecord, to who waits for its end: at last that it is not tried again.
func TestATeardownThatFailsIsToldInTheRecord(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, away := w.sites(), w.away().sites()
		var terminal, letGo atomic.Bool
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			switch {
			case !req.Operations.Has(OperationDelete) || letGo.Load():
				return Result{}, nil
			case terminal.Load():
				return Result{}, TerminalError(errors.New("never"))
			}
			return Result{}, errors.New("not yet")
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		create := func() uint64 {
			s := newSite("home", "one")
			must(t, sites.Create(t.Context(), s))
			must(t, entity.WaitReconciled(t.Context(), sites, "home", uint64(s.Generation)))
			return uint64(s.Generation)
		}
		revision := create()
		must(t, sites.Delete(t.Context(), "home"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, entity.WaitForCondition(ctx, away, "home", entity.ConditionDeleting, metav1.ConditionTrue))
		rec, err := away.Record(t.Context(), "home")
		must(t, err)
		if rec.Phase() != entity.PhaseDeleting || !strings.Contains(condition(t, away, "home").Message, "not yet") {
			t.Errorf("phase %s, %+v", rec.Phase(), rec.Conditions)
		}
		told, ok := errors.AsType[*entity.NotReconciledError](entity.WaitReconciled(ctx, away, "home", revision))
		if !ok || told.Reason != entity.ReasonDeleted {
			t.Errorf("waiting for it to be reconciled: %v", told)
		}
		// It is back, and then goes for good.
		revision = create()
		if rec, err := away.Record(t.Context(), "home"); err != nil || rec.Phase() != entity.PhaseSynced ||
			len(rec.Conditions) != 1 || rec.ObservedRevision != revision {
			t.Errorf("%+v, %v", rec, err)
		}
		terminal.Store(true)
		must(t, sites.Delete(t.Context(), "home"))
		told, ok = errors.AsType[*entity.NotReconciledError](entity.WaitDeleted(ctx, away, "home"))
		if !ok || told.Reason != entity.ReasonTerminal || !strings.Contains(told.Message, "never") {
			t.Errorf("waiting for its end: %v", told)
		}
		letGo.Store(true)
		c.Enqueue("home", OperationDelete)
		natstest.Eventually(t, "it is gone", func() bool { return entity.WaitDeleted(ctx, away, "home") == nil })
	})
}
