package recorder_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
)

// withLimits gives the account limits of JetStream, as a hosted one has.
func withLimits(limits string) natstest.Option {
	return natstest.WithConfigText(fmt.Sprintf(
		`accounts: { A: { jetstream: { %s }, users: [ { user: a, password: a } ] } }, no_auth_user: a`, limits))
}

// TestTheStreamIsCreatedWithinTheLimitsOfAServer: of its size, and of the window for duplicates.
func TestTheStreamIsCreatedWithinTheLimitsOfAServer(t *testing.T) {
	for name, option := range map[string]natstest.Option{
		"sizes are required": withLimits("max_bytes_required: true"),
		"a short window":     natstest.WithConfigText("jetstream { limits { duplicate_window: 30s } }"),
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				rec, _, js := start(t, recorder.Config{Compression: jetstream.S2Compression}, option)
				rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
				flush(t, rec)
				stream, err := js.Stream(t.Context(), recorder.DefaultStream)
				if err != nil {
					t.Fatal(err)
				}
				c := stream.CachedInfo().Config
				if c.MaxBytes != recorder.DefaultMaxBytes || c.Compression != jetstream.S2Compression ||
					c.Duplicates <= 0 || c.Duplicates > 2*time.Minute {
					t.Errorf("%+v", c)
				}
				if len(list(t, rec, "Website", "blog")) != 1 {
					t.Error("the event is not there")
				}
			})
		})
	}
}

// TestARefusalToCreateTheStreamSaysWhichFieldToSet: in the log, once.
func TestARefusalToCreateTheStreamSaysWhichFieldToSet(t *testing.T) {
	for limits, test := range map[string]struct {
		cfg  recorder.Config
		says string
	}{
		"disk_max_stream_bytes: 1MB": {says: "Config.MaxBytes is 67108864, and the account allows a stream less"},
		"max_file: 1MB":              {says: "Config.MaxBytes is 67108864, which the server reserves for each of 1 replicas"},
		"max_streams: 5":             {recorder.Config{Replicas: 3}, "Config.Replicas is 3, and the server is in no cluster"},
	} {
		t.Run(limits, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				log := &errorLog{}
				test.cfg.Logger = log.logger()
				rec, _, _ := start(t, test.cfg, withLimits(limits))
				rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
				wantNow(t, "the log says what to set", func() bool { return len(log.with(test.says)) == 1 })
			})
		})
	}
}
