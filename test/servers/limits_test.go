package servers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestARefusalIsAnAnswer: it comes at once, says what to do, and harms neither the connection nor other keys.
func TestARefusalIsAnAnswer(t *testing.T) {
	large := func(bytes int) *site {
		return &site{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Spec: spec{Title: strings.Repeat("x", bytes)}}
	}
	for name, test := range map[string]struct {
		bytes  int
		change func(*jetstream.StreamConfig)
		is     func(error) bool
		says   string
	}{
		"max_payload": {2 << 20, nil, apierrors.IsRequestEntityTooLargeError, "max_payload"},
		"max_msg_size": {
			100 << 10, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 50 << 10 },
			apierrors.IsRequestEntityTooLargeError, "max_msg_size",
		},
		"max_bytes": {
			100 << 10, func(c *jetstream.StreamConfig) { c.MaxBytes = 50 << 10 },
			func(err error) bool { return errors.Is(err, entity.ErrFull) }, "10077",
		},
		"sealed": {
			1, func(c *jetstream.StreamConfig) { c.Sealed = true },
			func(err error) bool { return errors.Is(err, entity.ErrRefused) }, "10109",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(w *world) {
				r := w.lead()
				w.make("small")
				if test.change != nil {
					w.change("sites", test.change)
				}
				err := w.sites.Create(w.t.Context(), large(test.bytes))
				if err == nil || !test.is(err) || !strings.Contains(err.Error(), test.says) {
					w.t.Errorf("got %v, want one about %s", err, test.says)
				}
				if errors.Is(err, entity.ErrOutcomeUnknown) {
					w.t.Errorf("got %v, though the server has answered", err)
				}
				if name != "sealed" {
					w.make("other")
					w.left("other", "small")
				}
				if s := r.Stats(); len(s.Degraded) > 0 {
					w.t.Errorf("degraded: %v", s.Degraded)
				}
			})
		})
	}
}

func (w *world) change(bucket string, change func(*jetstream.StreamConfig)) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	cfg := stream.CachedInfo().Config
	change(&cfg)
	_, err = w.js.UpdateStream(w.t.Context(), cfg)
	must(w.t, err)
}

// TestMarkersExpire where the server knows TTLs, and what has a TTL is torn down when it is over. An older server
// ignores TTLs without a word; there markers stay, which the client says, and a write that sets a TTL is refused.
func TestMarkersExpire(t *testing.T) {
	onEach(t, func(w *world) {
		r := w.lead()
		w.make("deleted", "stays")
		must(w.t, w.sites.Delete(w.t.Context(), "deleted"))
		w.tornDown("deleted")
		ttl, warnings := w.header("sites", "deleted", "Nats-TTL"), strings.Join(w.sites.Warnings(), "\n")
		if !w.v.ttl {
			if ttl != "" {
				w.t.Errorf("the marker has a TTL of %q, which this server does not know", ttl)
			}
			for _, want := range []string{"stay for ever", "2.11", w.js.Conn().ConnectedServerVersion()} {
				if !strings.Contains(warnings, want) {
					w.t.Errorf("the warning %q does not say %q", warnings, want)
				}
			}
			w.refusesTTLs()
			return
		}
		if ttl != "86400" || warnings != "" {
			w.t.Errorf("the marker has a TTL of %q, want that of a day; warnings %q", ttl, warnings)
		}
		w.make("expires")
		w.put("expires", spec{Title: "first"}, nats.Header{"Nats-TTL": []string{"3s"}})
		w.tornDown("expires")
		if op := w.header("sites", "expires", jetstream.MarkerReasonHeader); op != "" {
			w.t.Errorf("the server left a marker with the reason %q, in a bucket that has to do without", op)
		}
		w.left("stays")
		if n := r.Stats().BrakeEngaged; n > 0 {
			w.t.Errorf("the brake engaged %d times", n)
		}
	})
}

// refusesTTLs checks that writes with a TTL are refused with what to do, and that nothing of them is written.
func (w *world) refusesTTLs() {
	w.t.Helper()
	ctx, hour, connected := w.t.Context(), entity.WithTTL(time.Hour), w.js.Conn().ConnectedServerVersion()
	stays, err := w.sites.Get(ctx, "stays")
	must(w.t, err)
	for what, err := range map[string]error{
		"create": w.sites.CreateWith(ctx, &site{ObjectMeta: metav1.ObjectMeta{Name: "never"}}, hour),
		"update": w.sites.UpdateWith(ctx, stays.DeepCopy(), hour),
		"patch":  w.sites.PatchWith(ctx, "stays", []byte(`{}`), hour),
	} {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "2.11 or newer: the connected one is "+connected) {
			w.t.Errorf("%s with a TTL: %v", what, err)
		}
	}
	now, err := w.sites.Get(ctx, "stays")
	must(w.t, err)
	if _, err := w.sites.Get(ctx, "never"); !apierrors.IsNotFound(err) || now.ResourceVersion != stays.ResourceVersion {
		w.t.Errorf("it was written: %v, revision %s after %s", err, now.ResourceVersion, stays.ResourceVersion)
	}
}

// TestABucketThatForgetsWithoutAWordIsRefused: with an age limit keys go without an event, unless the server puts
// markers, which came with 2.11.
func TestABucketThatForgetsWithoutAWordIsRefused(t *testing.T) {
	onEach(t, func(w *world) {
		_, err := w.js.CreateKeyValue(w.t.Context(), jetstream.KeyValueConfig{Bucket: "short", TTL: time.Hour})
		must(w.t, err)
		_, err = entity.NewClient[*site](w.t.Context(), w.js, entity.Config{Kind: "Site", Bucket: "short"})
		if err == nil || !strings.Contains(err.Error(), "expire without an event") {
			w.t.Fatalf("got %v", err)
		}
		said := strings.Contains(err.Error(), "2.11") && strings.Contains(err.Error(), w.js.Conn().ConnectedServerVersion())
		if said == w.v.ttl {
			w.t.Errorf("got %v; does it need a newer server: %t", err, !w.v.ttl)
		}
	})
}
