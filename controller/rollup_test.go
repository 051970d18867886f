package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

// TestARollupOfOneNamespaceTearsNothingDownInAnother: a user who may write one namespace sends the message that
// empties a bucket which allows it. Nothing happens to what the other namespace owns, nor to the user's own.
func TestARollupOfOneNamespaceTearsNothingDownInAnother(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const owned = 9
		s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
			o.Users = []*server.User{{Username: "admin", Password: "x"}, {Username: "ns1", Password: "x",
				Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: []string{"$KV.sites.ns1.>"}},
					Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
				}}}
		}))
		_, js := natstest.Connect(t, s.URL(), nats.UserInfo("admin", "x"))
		attacker, _ := natstest.Connect(t, s.URL(), nats.UserInfo("ns1", "x"))
		w := &world{t: t, server: s, js: js}
		namespaced := func(cfg *entity.Config) { cfg.Namespaced = true }
		sites := w.client("Site", "sites", namespaced, quickCompare)
		pages := w.client("Page", "pages", namespaced, quickCompare)
		c, err := New("sites", sites, onePage(sites, pages), Owns(pages))
		must(t, err)
		w.run(c)
		create := func(namespace, name string) (key string) {
			one := newSite(name, "")
			one.Namespace = namespace
			must(t, sites.Create(t.Context(), one))
			eventuallyReason(t, sites, namespace+"/"+name, entity.ReasonSynced)
			return namespace + "/" + name
		}
		keys := []string{create("ns1", siteName(0))}
		for i := range owned {
			keys = append(keys, create("ns2", siteName(i)))
		}
		for _, rollup := range []string{"sub", "all"} {
			answer, err := attacker.RequestMsgWithContext(t.Context(), &nats.Msg{
				Subject: "$KV.sites.ns1." + siteName(0), Header: nats.Header{jetstream.MsgRollup: {rollup}},
				Data: []byte(`{"spec":{"title":"attack"}}`),
			})
			must(t, err)
			if !strings.Contains(string(answer.Data), "not permitted") {
				t.Errorf("%s: the server says %s", rollup, answer.Data)
			}
		}
		compared := sites.Informer().Status().Compares
		natstest.Eventually(t, "the keys are compared", func() bool {
			return sites.Informer().Status().Compares >= compared+2
		})
		keys = append(keys, create("ns2", "last"))
		if stats := c.Stats(); stats.TornDown != 0 || stats.Cascaded != 0 {
			t.Errorf("%d torn down, %d pages deleted", stats.TornDown, stats.Cascaded)
		}
		for _, key := range keys {
			if !exists(t, sites, key) || !exists(t, pages, key) {
				t.Errorf("%s or its page is gone", key)
			}
		}
	})
}
