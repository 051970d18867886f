package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
)

func (w *world) event(kind, namespace, name, reason, message string, at time.Time, count int) {
	w.Helper()
	e := corev1.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message, Count: int32(count)}
	e.Name = name + "." + reason
	e.InvolvedObject = corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}
	e.LastTimestamp.Time = at
	data, err := json.Marshal(e)
	w.must(err)
	_, err = w.js.PublishMsg(w.Context(), &nats.Msg{
		Subject: "nagi.events." + kind + ".Warning." + namespace + "." + name + "." + reason, Data: data,
	})
	w.must(err)
}

func TestEventsAreShownOldestFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		now := time.Now()
		w.event("Website", "shop", "a", "Second", "later", now.Add(-time.Minute), 3)
		w.event("Website", "shop", "b", "First", "earlier\x1b[31m", now.Add(-20*time.Minute), 1)
		said := w.ok("events", "websites", "-n", "shop", "--warnings")
		first, second := strings.Index(said, "First"), strings.Index(said, "Second")
		if first < 0 || second < first || strings.Contains(said, "\x1b") {
			t.Errorf("the events are\n%s", said)
		}
		w.wantIn(said, "LAST SEEN", "20m", "60s", "Website.example.com/shop/a", "   3   ")
		said = w.ok("events", "websites/shop/a")
		if strings.Contains(said, "First") || !strings.Contains(said, "Second") {
			t.Errorf("of one key\n%s", said)
		}
		if said := w.ok("events", "--since", "10m"); strings.Contains(said, "First") || !strings.Contains(said, "Second") {
			t.Errorf("of ten minutes\n%s", said)
		}
		var all []corev1.Event
		w.must(json.Unmarshal([]byte(w.ok("events", "websites/shop/b", "-o", "json")), &all))
		if len(all) != 1 || all[0].Reason != "First" {
			t.Errorf("as JSON: %+v", all)
		}
		if none := strings.TrimSpace(w.ok("events", "websites/shop/none", "-o", "json")); none != "[]" {
			t.Errorf("no events are %s in JSON, want []", none)
		}
	})
}

func TestEventsAreFollowedEachOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.event("Website", "shop", "a", "Before", "before", time.Now(), 1)
		r := w.follows(false, 10*time.Second, func() {
			w.event("Website", "shop", "a", "After", "after", time.Now(), 1)
			time.Sleep(time.Second)
			w.event("Website", "shop", "a", "After", "after", time.Now(), 2)
			w.event("Website", "lab", "a", "Elsewhere", "elsewhere", time.Now(), 1)
		}, "events", "websites/shop/a", "-f")
		var reasons []string
		for line := range strings.Lines(r.out) {
			reasons = append(reasons, strings.Fields(line)[2])
		}
		if got := strings.Join(reasons, " "); r.code != 0 || got != "REASON Before After After" {
			t.Errorf("code %d, %s\n%s%s", r.code, got, r.out, r.err)
		}
	})
}

func TestEventsWithoutAStreamSayWhatToDo(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.nagi("events", "--stream", "OTHER")
		if r.code != CodeNotFound || !strings.Contains(r.err, "WithEventRecorder") {
			t.Errorf("%+v", r)
		}
	})
}
