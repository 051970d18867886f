package browser

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
)

// hostile is a text that would be a script, a handler, a picture or a form if it ever were HTML, with marks of direction
// and controls.
const hostile = `"><script>window.hacked=1</script><img src=x onerror="window.hacked=1">' onfocus='window.hacked=1' autofocus ` +
	`</title></svg></style><svg onload="window.hacked=1"><form action="http://192.0.2.1/"><a href="javascript:window.hacked=1">x</a>` +
	"\u202egnp.exe\u2066 \x1b[31m \x00 \x07 \u0085 {{.}} ${window.hacked=1}"

// hostileKind is a kind as entity takes it, and hostileKey a key that NATS takes and no document can have.
const (
	hostileKind = "<script>window.hacked=1<img\"'\u202e"
	hostileKey  = "a<script>b'\"c"
)

// hostileWorld has strangers' text in all that a stranger writes: a registry entry, documents, records, events, and what
// a controller answers.
func hostileWorld(t *testing.T) *world {
	w := newWorld(t)
	marshal := func(v any) string {
		data, err := json.Marshal(v)
		w.must(err)
		return string(data)
	}
	for _, bucket := range []string{"evil", "evil-status", "evil-owned"} {
		_, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: bucket,
			Storage: jetstream.MemoryStorage, History: 5})
		w.must(err)
	}
	w.put("evil", "one", `{"spec":{}}`) // so that the next write has changed something
	w.put(registry.Bucket, registry.Key(hostileKind, hostile), marshal(map[string]any{
		"schemaVersion": 1, "kind": hostileKind, "apiVersion": hostile, "bucket": "evil", "statusBucket": "evil-status",
		"columns": []any{map[string]any{"name": hostile, "jsonPath": "$.spec.evil", "type": "string",
			"description": hostile}},
		"controllers": []any{map[string]any{"name": hostile, "version": hostile, "owns": []any{
			map[string]any{"in": "nats", "kind": hostile, "bucket": "evil-owned"},
			map[string]any{"in": "external", "kind": hostile}, map[string]any{"in": "kubernetes", "name": hostile}}}},
	}))
	w.put("evil", "one", marshal(map[string]any{"kind": hostile, hostile: hostile,
		"spec": map[string]any{"evil": hostile, hostile: []any{hostile}},
		"metadata": map[string]any{"labels": map[string]any{hostile: hostile},
			"annotations": map[string]any{hostile: hostile}}}))
	_, err := w.nc.Request("$KV.evil."+hostileKey, []byte(`{}`), time.Second)
	w.must(err)
	w.put("evil-owned", "two", marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		"kumori/ownerkind": hostileKind, "kumori/ownerkey": "one"}}}))
	w.put("evil-status", "one", marshal(map[string]any{"schemaVersion": 1, "phase": hostile, "controller": hostile,
		"status": map[string]any{hostile: hostile}, "conditions": []any{
			map[string]any{"type": "Reconciled", "status": "False", "reason": "Terminal", "message": hostile},
			map[string]any{"type": hostile, "status": hostile, "reason": hostile, "message": hostile}}}))
	event := marshal(corev1.Event{Type: hostile, Reason: hostile, Message: hostile,
		Source: corev1.EventSource{Component: hostile}})
	_, err = w.js.Publish(w.Context(), strings.TrimSuffix(strings.Replace(recorder.Subject("", hostileKind, "one"),
		".*.", ".Normal.", 1), "*")+"x", []byte(event))
	w.must(err)
	w.answerAs(hostile, map[string]any{
		"about": service.About{Leader: hostile},
		"stats": service.Stats{Failing: 1, Brake: &service.Brake{Engaged: true, Engagement: hostile, Count: 1,
			Reason: hostile},
			Degraded: []service.Problem{{What: hostile,
				Says: hostile}}, LongestRunning: &service.Longest{Key: hostile, Since: time.Now()}},
		"explain": controller.Explanation{Key: hostile, State: controller.KeyState(hostile), Says: hostile,
			Error: hostile, WokenBy: hostile,
			Reasons: hostile, DueAt: time.Now().Add(time.Hour), Priority: hostile, Leader: hostile, Recorded: hostile, RecordedMessage: hostile,
			SuspendReason: hostile, AwaitsAPI: hostile, AwaitsTurn: hostile, AwaitsNames: []string{hostile}, StillThere: []string{hostile}},
		"notok": map[string]any{"keys": []any{
			map[string]any{"key": "one", "state": hostile, "message": hostile}, map[string]any{"key": hostile,
				"state": "looping", "message": hostile}}},
		"brake-list": service.BrakeList{Brake: service.Brake{Engaged: true, Engagement: hostile, Count: 1,
			Reason: hostile},
			Keys: []string{hostile}, Pruned: []string{hostile}},
		"brake-vanished": map[string]any{"count": 1, "notRestorable": 1,
			"vanished": []any{map[string]any{"key": hostile, "notRestorable": hostile}}},
	})
	return w
}

// answerAs answers in the place of a controller.
func (w *world) answerAs(name string, answers map[string]any) {
	w.Helper()
	var token strings.Builder
	for i := range len(name) {
		if c := name[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			token.WriteByte(c)
		} else {
			fmt.Fprintf(&token, "=%02X", c)
		}
	}
	for verb, answer := range answers {
		data, err := json.Marshal(answer)
		w.must(err)
		_, err = w.nc.Subscribe("nagi."+token.String()+".read."+verb, func(m *nats.Msg) { _ = m.Respond(data) })
		w.must(err)
	}
	w.must(w.nc.Flush())
}

// TestTextOfStrangersIsText: in no view, at first or live, does any of it become an element, run, load or lead
// elsewhere, and none of it is lost: it is shown as it was written, with what cannot be seen as escapes.
func TestTextOfStrangersIsText(t *testing.T) {
	t.Parallel()
	w := hostileWorld(t)
	u := w.ui("--allow-actions")
	kind := "/kinds/" + url.PathEscape(registry.Key(hostileKind, hostile))
	evil := url.QueryEscape(hostile)
	views := []string{"/", "/kinds", "/waits", kind, kind + "?q=" + evil + "&state=" + evil + "&after=" + evil,
		kind + "/one",
		kind + "/one?did=" + evil, "/brake/" + url.PathEscape(hostile), "/kinds/" + url.PathEscape(hostile), "/" + url.PathEscape(hostile)}
	first := u.tab(t, 1600)
	first.open("/")
	first.until("the controller has answered", `document.querySelector(".banner")`)
	shown := map[string]bool{}
	for _, width := range []int64{360, 1600} {
		b := u.tab(t, width)
		for i, path := range views {
			b.open(path)
			if i < 8 {
				b.live()
			} else {
				b.heard() // that there is no such page is in the log of the browser
			}
			b.do(`document.querySelectorAll("details").forEach((d) => d.open = true)`)
			for _, wrong := range b.texts(inPage(`
const wrong = [];
if (window.hacked) wrong.push("a script has run");
for (const e of document.querySelectorAll("script, img, form, a, svg, title, style, link, iframe, object, embed, base, meta")) {
	const is = e.tagName.toLowerCase();
	if (is == "script" && (e.textContent || e.getAttribute("src") != "/page.js")) wrong.push(e.outerHTML);
	if (["img", "style", "iframe", "object", "embed", "base"].includes(is)) wrong.push(e.outerHTML);
	const to = e.getAttribute("href") ?? e.getAttribute("action");
	if (to != null && !/^(\/|#main$)/.test(to)) wrong.push(e.outerHTML);
}
for (const e of document.querySelectorAll("*")) for (const a of e.attributes) if (/^on|^style$|autofocus/i.test(a.name)) wrong.push(e.outerHTML);
const unseen = document.body.textContent.match(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200e\u200f]/);
if (unseen) wrong.push("it has U+" + unseen[0].charCodeAt(0).toString(16) + " in " + JSON.stringify(document.body.textContent.substr(unseen.index - 60, 90)));
for (const e of document.querySelectorAll("[aria-label], [title], [value]")) for (const a of ["aria-label", "title"])
	if (/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(e.getAttribute(a) || "")) wrong.push(a + " of " + path(e));
return wrong;`)) {
				t.Errorf("%s: %.300s", path, wrong)
			}
			fits(b)
			canBeRead(b)
			isTold(b)
			if strings.Contains(b.says(), "<script>window.hacked=1") {
				shown[path] = true
			}
		}
	}
	for _, path := range views[:8] {
		if !shown[path] {
			t.Errorf("%s does not show what strangers wrote", path)
		}
	}
}
