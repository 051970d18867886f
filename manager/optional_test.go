package manager

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestRunDoesNotWaitForWhatMayComeLater: one store or resource that is away would stop every controller of the process.
func TestRunDoesNotWaitForWhatMayComeLater(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		edge := sites()
		edge.BindOnly, edge.OpenLater = true, true
		away := client(t, m, edge)
		crd := slowInformers{make(chan struct{})}
		must(t, m.AddOptionalInformers(crd))
		runs, started := blocking("rest")
		must(t, m.Add(runs))
		r := start(t, m)
		began := time.Now()
		select {
		case <-started:
		case <-time.After(time.Hour):
			t.Fatal("the rest was not started")
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the rest was started after %v", took)
		}
		natstest.Eventually(t, "it is ready", func() bool { return m.Synced() == nil })
		if away.Informer().HasSynced() {
			t.Error("the cache of a bucket that is not there has synced")
		}
		owner := client(t, open(t, Config{URL: m.conn.ConnectedUrl()}), sites()) // which makes the bucket
		must(t, owner.Create(t.Context(), newSite("home", "x")))
		natstest.Eventually(t, "the cache fills when the bucket comes", away.Informer().HasSynced)
		must(t, r.stop())
	})
}
