package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// edit changes the settings of a bucket as `nats stream edit` does.
func (w *world) edit(bucket string, change func(*jetstream.StreamConfig)) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	settings := stream.CachedInfo().Config
	change(&settings)
	_, err = w.js.UpdateStream(w.t.Context(), settings)
	must(w.t, err)
}

// TestABucketWhoseSettingsAreUnsafeByNowIsToldWithTheCommandThatMendsIt: an operator has made it anew, as `nats kv add`
// does, or has changed it. It was safe when the controller began. It is not told any more once it is mended.
func TestABucketWhoseSettingsAreUnsafeByNowIsToldWithTheCommandThatMendsIt(t *testing.T) {
	const board = "settings of primary Site (bucket sites)"
	for name, test := range map[string]struct {
		bucket  string
		happens func(w *world, bucket string)
		says    []string
	}{
		"made anew": {
			bucket: "sites",
			happens: func(w *world, bucket string) {
				must(w.t, w.js.DeleteKeyValue(w.t.Context(), bucket))
				_, err := w.js.CreateKeyValue(w.t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
				must(w.t, err)
			},
			says: []string{"nats stream edit KV_sites --no-allow-rollup", "nats stream edit KV_sites --allow-msg-ttl"},
		},
		"changed": {
			bucket: "sites",
			happens: func(w *world, bucket string) {
				w.edit(bucket, func(s *jetstream.StreamConfig) { s.AllowRollup = true })
			},
			says: []string{"nats stream edit KV_sites --no-allow-rollup"},
		},
		"changed, of records": {
			bucket: "sites-status",
			happens: func(w *world, bucket string) {
				w.edit(bucket, func(s *jetstream.StreamConfig) { s.Discard, s.MaxBytes = jetstream.DiscardOld, 1<<30 })
			},
			says: []string{"nats stream edit KV_sites-status --discard=new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.client("Site", "sites", func(c *entity.Config) { c.Namespaced = true })
				c, err := New("sites", sites, noReconciler)
				must(t, err)
				w.run(c)
				time.Sleep(time.Minute)
				if err := c.Stats().Degraded[board]; err != nil {
					t.Fatalf("of what NewClient has made it says %v", err)
				}
				test.happens(w, test.bucket)
				natstest.Eventually(t, "it is told", func() bool { return c.Stats().Degraded[board] != nil })
				for _, says := range test.says {
					if err := c.Stats().Degraded[board]; !strings.Contains(err.Error(), says) {
						t.Errorf("%v does not say %q", err, says)
					}
				}
				w.edit(test.bucket, func(s *jetstream.StreamConfig) {
					s.AllowRollup, s.AllowMsgTTL, s.Discard = false, true, jetstream.DiscardNew
				})
				time.Sleep(10 * time.Second)
				if err := c.Stats().Degraded[board]; err != nil {
					t.Errorf("of what is mended it says %v", err)
				}
			})
		})
	}
}

// TestSettingsThatWereToldAtTheBeginningDegradeNothing: who lives with them goes on to. If they are mended, and come
// back, that is told.
func TestSettingsThatWereToldAtTheBeginningDegradeNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const board = "settings of primary Site (bucket sites)"
		w := newWorld(t)
		_, err := w.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "sites"})
		must(t, err)
		sites := w.client("Site", "sites", func(c *entity.Config) { c.Namespaced = true })
		c, err := New("sites", sites, noReconciler)
		must(t, err)
		w.run(c)
		time.Sleep(time.Minute)
		if err := c.Stats().Degraded[board]; err != nil {
			t.Errorf("it says %v", err)
		}
		w.edit("sites", func(s *jetstream.StreamConfig) { s.AllowRollup = false })
		time.Sleep(10 * time.Second)
		w.edit("sites", func(s *jetstream.StreamConfig) { s.AllowRollup = true })
		time.Sleep(10 * time.Second)
		if err := c.Stats().Degraded[board]; err == nil || strings.Contains(err.Error(), "--allow-msg-ttl") {
			t.Errorf("it says %v", err)
		}
	})
}
