package attacks

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// dial connects as the controller, or as nobody to a server without users.
func dial(url string, asController bool) (*nats.Conn, jetstream.JetStream, error) {
	opts := []nats.Option{natstest.Dialer(), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.Timeout(patience)}
	if asController {
		opts = append(opts, nats.UserInfo("controller", "change me 2"), nats.CustomInboxPrefix("_INBOX_controller"))
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}

// unharmed checks, once all is dealt with, that an attack from ns1 or from another kind has done nothing beyond that:
// the pages of ns2 are as they were, nothing of ns2 was torn down, no key was reconciled that never was, one replica
// leads, the brake is not engaged, the installation is the same, and no control byte is in the log.
func (w *world) unharmed(t *testing.T) {
	t.Helper()
	w.settle()
	if now := w.keys("pages", "ns2."); !maps.Equal(onlyOf(now, w.pages), w.pages) {
		t.Errorf("the pages of ns2 are %v, and were %v", now, w.pages)
	}
	w.mu.Lock()
	for _, call := range w.calls {
		gone := call.Operations.Has(controller.OperationDelete) || call.Operations.Has(controller.OperationPurge)
		if strings.HasPrefix(call.Key, "ns2/") && gone || strings.Contains(call.Key, "never") {
			t.Errorf("reconciled %q with %v", call.Key, call.Operations)
		}
	}
	w.mu.Unlock()
	n, leader := w.leading()
	if n != 1 || w.two.Load() {
		t.Fatalf("%d replicas lead now; two at once: %v", n, w.two.Load())
	}
	if state := leader.Stats().Brake; state.Engaged {
		t.Errorf("the brake is engaged: %+v", state)
	}
	for _, r := range w.replicas {
		if r.Instance() != "" && r.Instance() != leader.Instance() {
			t.Errorf("the replicas are of the installations %q and %q", r.Instance(), leader.Instance())
		}
	}
	w.printable(t)
}

func onlyOf(all, want map[string]uint64) map[string]uint64 {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key string, _ uint64) bool { return want[key] == 0 })
	return out
}

// printable checks that the log can be shown on a terminal.
func (w *world) printable(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(w.log.String()) {
		control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), control) {
			t.Errorf("control bytes in the log: %q", line)
		}
		if strings.HasPrefix(line, "forged") {
			t.Errorf("a line of the log is forged: %q", line)
		}
	}
}

// documentsKept checks that the documents of ns2 are as they were. Within the controller's account nobody promises
// that: an answer of the server can land on any key.
func (w *world) documentsKept(t *testing.T) {
	t.Helper()
	for key := range w.pages {
		if doc := w.value("sites", key); doc != `{"spec":{"title":"as it was"}}` {
			t.Errorf("the document of %s is %q", key, doc)
		}
	}
}
