package controller

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// purge puts a purge marker as somebody does who needs no rollup.
func (w *world) purge(ctx context.Context, bucket, key string) error {
	_, err := w.js.PublishMsg(ctx, &nats.Msg{
		Subject: "$KV." + bucket + "." + key, Header: nats.Header{"KV-Operation": {"PURGE"}},
	})
	return err
}

// TestAPurgeIsTold in a bucket that denies rollups, and in one that allows them.
func TestAPurgeIsTold(t *testing.T) {
	for name, rollup := range map[string]bool{"rollups denied": false, "rollups allowed": true} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.client("Site", "sites", func(c *entity.Config) { c.AllowRollup = rollup })
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil))
				must(t, err)
				w.run(c)
				ctx := t.Context()
				by := map[string]func(key string) error{
					"ours":   func(key string) error { return sites.Delete(ctx, key, entity.Purge()) },
					"theirs": func(key string) error { return w.purge(ctx, "sites", key) },
				}
				if rollup {
					by["theirs-too"] = func(key string) error { return w.kv("sites").Purge(ctx, key) }
				}
				for key, purge := range by {
					must(t, sites.Create(ctx, newSite(key, "one")))
					eventuallyReason(t, sites, key, entity.ReasonSynced)
					must(t, purge(key))
					natstest.Eventually(t, key+" is torn down", noRecord(t, sites, key))
					if seen.with(key, OperationPurge) != 1 || seen.with(key, OperationDelete) != 0 {
						t.Errorf("%s was reconciled for %v", key, seen.of(key))
					}
				}
			})
		})
	}
}
