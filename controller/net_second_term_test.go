package controller

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestALaterTermReconcilesEveryPrimary: what happened while another replica led, or nobody did, went by this one.
func TestALaterTermReconcilesEveryPrimary(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), slowRenewal, WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "it does not lead", func() bool { return !c.Stats().Leading })
		before := seen.count("home")
		w.leaseTo("", time.Second)
		natstest.Eventually(t, "it reconciles what it knows", func() bool {
			return seen.count("home") > before && seen.with("home", OperationResync) > 0
		})
	})
}
