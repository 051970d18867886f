package controller

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestADocumentThatReturnsDuringItsTeardownLeavesNothingOfIt: the teardown waits for the API, which still lists what it
// was told to delete, when the document is put again.
func TestADocumentThatReturnsDuringItsTeardownLeavesNothingOfIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		things := cloudtest.NewListed(external.Resource{ID: "one", OwnerKey: "home", Version: "1"})
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), OwnsExternal(external.Configure(things, quick)))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, sites.Delete(t.Context(), "home"))
		<-things.Deleted
		natstest.Eventually(t, "the teardown waits", func() bool { return c.Explain("home").Deleting })
		must(t, sites.Create(t.Context(), newSite("home", "two")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		idle(t, c)
		if n := c.Stats().Remembered; n != 0 {
			t.Errorf("something is remembered of %d keys: %+v", n, c.Explain("home"))
		}
		if e := c.Explain("home"); e.Deleting || e.State != StateCalm {
			t.Errorf("it is %+v, want calm", e)
		}
	})
}
