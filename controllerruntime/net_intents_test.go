package controllerruntime

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestKumoriATeardownWaitsForACallThatMayStillBeUnderWay: a process was killed while it created something for the
// primary, and for the client's Timeout the call may still arrive. SyncHandler has nothing to do, but until then the
// runtime does not forget the primary.
func TestKumoriATeardownWaitsForACallThatMayStillBeUnderWay(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		config := withInterval(notInATest)
		config.Timeout = 2 * time.Second
		status, err := w.js.KeyValue(t.Context(), "sites-status")
		must(t, err)
		_, err = status.Put(t.Context(), "_nagi.intents.home", []byte(`{"key":"home","resources":{"Disk":{
		"intent":{"token":"t","action":"create","digest":"x","desired":{"size":3},"tried":"2026-01-01T00:00:00Z"}}}}`))
		must(t, err)
		things := &diskList{Listed: cloudtest.NewListed()}
		c := kumori{sites: sites, externals: []external.IExternalClient{external.Configure(things, config)}}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is synced", func() bool { return c.seen.count("home") > 0 })
		start := time.Now()
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the delete is synced", func() bool {
			return c.seen.with("home", controller.OperationDelete) > 0
		})
		natstest.Eventually(t, "it is forgotten", noRecord(t, sites, "home"))
		if took := time.Since(start); took < config.Timeout {
			t.Errorf("forgotten after %v, though the call may arrive for %v", took, config.Timeout)
		}
	})
}

// diskList is a client of disks of which there are none.
type diskList struct{ *cloudtest.Listed }

func (*diskList) Kind() string { return "Disk" }
