package controllerruntime

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
)

// TestKumoriATeardownWaitsForACallThatMayStillBeUnderWay: a process was killed while it created something for the
// primary, and for the client's Timeout the call may still arrive. SyncHandler has nothing to do, but until then the
// runtime does not forget the primary.
func TestKumoriATeardownWaitsForACallThatMayStillBeUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sites := w.sites()
	config := withInterval(notInATest)
	config.Timeout = 2 * time.Second
	_, err := w.kv("sites-status").Put(t.Context(), "_nagi.intents.home", []byte(`{"key":"home","resources":{"Disk":{
		"intent":{"token":"t","action":"create","digest":"x","desired":{"size":3},"tried":"2026-01-01T00:00:00Z"}}}}`))
	must(t, err)
	things := &diskList{Listed: cloudtest.NewListed()}
	c := kumori{sites: sites, externals: []external.IExternalClient{external.Configure(things, config)}}.custom(nil)
	runKumori(t, c)
	must(t, sites.Create(t.Context(), newSite("home", "")))
	eventually(t, "it is synced", func() bool { return c.seen.count("home") > 0 })
	start := time.Now()
	must(t, sites.Delete(t.Context(), "home"))
	eventually(t, "the delete is synced", func() bool { return c.seen.with("home", OperationDelete) > 0 })
	eventually(t, "it is forgotten", noRecord(t, sites, "home"))
	if took := time.Since(start); took < config.Timeout {
		t.Errorf("forgotten after %v, though the call may arrive for %v", took, config.Timeout)
	}
}

// diskList is a client of disks of which there are none.
type diskList struct{ *cloudtest.Listed }

func (*diskList) Kind() string { return "Disk" }

// TestAnIntentThatSomebodyElseChangedIsNotWrittenOver: another process has written down something else for the same
// resource while this one applied. What it wrote stays, and the reconcile fails.
func TestAnIntentThatSomebodyElseChangedIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	var told results
	w := newCloudWorld(t, withInterval(notInATest), nil, WithOnResult(told.add))
	var once sync.Once
	w.cloud.Set(func(c *cloudtest.Cloud) {
		c.Stage = func(stage, call, _ string) {
			if stage != "before" || call != "POST disks" {
				return
			}
			once.Do(func() {
				intents, err := w.kv("sites-status").Get(t.Context(), "_nagi.intents.home")
				if err != nil {
					t.Error(err)
					return
				}
				changed := strings.Replace(string(intents.Value()), `"digest":"`, `"digest":"another-`, 1)
				if changed == string(intents.Value()) {
					t.Errorf("no intent in %s", changed)
				}
				if _, err := w.kv("sites-status").Put(t.Context(), "_nagi.intents.home", []byte(changed)); err != nil {
					t.Error(err)
				}
			})
		}
	})
	w.run(w.c)
	must(t, w.sites.Create(t.Context(), sized("home", 1)))
	eventually(t, "the reconcile fails", func() bool {
		for _, r := range told.all() {
			if r.Err != nil && strings.Contains(r.Err.Error(), "somebody else has changed") {
				return true
			}
		}
		return false
	})
	eventually(t, "it is reconciled after all", func() bool { return w.reconciled("home") })
	if n := w.cloud.CreatedFor("home"); n != 1 {
		t.Errorf("%d disks were created, want one", n)
	}
}
