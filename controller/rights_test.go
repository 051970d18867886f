package controller

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestWithoutTheRightToWriteARecordThereIsNoReconcile, and none is lost once the right is given.
func TestWithoutTheRightToWriteARecordThereIsNoReconcile(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var granted atomic.Bool
		srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
			rights := &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}}}
			if !granted.Load() {
				rights.Publish.Deny = []string{"$KV.sites-status.blocked"}
			}
			o.Users = []*server.User{{Username: "controller", Password: "secret", Permissions: rights}}
		}))
		_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("controller", "secret"))
		w := &world{t: t, server: srv, js: js}
		sites := w.client("Site", "sites", onDisk)
		ctx := t.Context()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithBackoff(5*time.Millisecond, 50*time.Millisecond),
			WithWorkers(2))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("blocked", "one")))
		must(t, sites.Create(ctx, newSite("free", "one")))
		natstest.Eventually(t, "the one whose record may be written is reconciled", func() bool {
			return seen.count("free") > 0
		})
		natstest.Eventually(t, "the other is reported", degradedNow(c, "records"))
		if seen.count("blocked") > 0 {
			t.Error("reconciled without a record")
		}
		granted.Store(true)
		must(t, srv.Restart())
		natstest.Eventually(t, "it is not lost", func() bool { return seen.count("blocked") > 0 })
		natstest.Eventually(t, "nothing is degraded", func() bool { return len(c.Stats().Degraded) == 0 })
	})
}
