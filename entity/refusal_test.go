package entity_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestARefusalForGoodIsToldAtOnce with its meaning and what to do. Some of them come with the code 503, like the
// refusals of a cluster that has no leader.
func TestARefusalForGoodIsToldAtOnce(t *testing.T) {
	full := func(err error) bool { return errors.Is(err, entity.ErrFull) }
	for name, test := range map[string]struct {
		server func(*server.Options)
		bucket func(*jetstream.StreamConfig)
		is     func(error) bool
		says   string
	}{
		"bytes":    {bucket: func(c *jetstream.StreamConfig) { c.MaxBytes = 300 << 10 }, is: full, says: "max_bytes"},
		"messages": {bucket: func(c *jetstream.StreamConfig) { c.MaxMsgs = 3 }, is: full, says: "max_msgs"},
		"a message": {
			bucket: func(c *jetstream.StreamConfig) { c.MaxMsgSize = 50 << 10 },
			is:     apierrors.IsRequestEntityTooLargeError, says: "max_msg_size",
		},
		"the stream": {
			bucket: func(c *jetstream.StreamConfig) { c.Sealed = true },
			is:     func(error) bool { return true }, says: "sealed",
		},
		"the server": {
			server: func(o *server.Options) { o.JetStreamMaxMemory = 300 << 10 },
			is:     full, says: "JetStream limits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
				change := test.server
				if change == nil {
					change = func(*server.Options) {}
				}
				_, js := natstest.Connect(t, natstest.Start(t, natstest.WithConfig(change)).URL())
				cfg := websites
				cfg.Storage = jetstream.MemoryStorage
				client := newClient[*Website](t, js, cfg)
				prepare(client)
				if test.bucket != nil {
					stream, err := js.Stream(t.Context(), "KV_websites")
					must(t, err)
					changed := stream.CachedInfo().Config
					test.bucket(&changed)
					_, err = js.UpdateStream(t.Context(), changed)
					must(t, err)
				}
				var err error
				for i := 0; i < 10 && err == nil; i++ {
					large := website(fmt.Sprint("w", i))
					large.Spec.Host = strings.Repeat("x", 60<<10)
					err = atOnce(t, name, func() error { return client.Create(t.Context(), large) })
				}
				if !errors.Is(err, entity.ErrRefused) || !test.is(err) || !strings.Contains(err.Error(), test.says) ||
					errors.Is(err, entity.ErrOutcomeUnknown) {
					t.Errorf("got %v, want %q", err, test.says)
				}
				if test.is(err) && errors.Is(err, entity.ErrFull) && (strings.Contains(err.Error(), "delete what") ||
					!strings.Contains(err.Error(), "do not purge or remove keys or streams of status buckets")) {
					t.Errorf("it advises what loses teardowns that are owed: %v", err)
				}
			})
		})
	}
}
