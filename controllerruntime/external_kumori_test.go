package controllerruntime

import (
	"errors"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestKumoriHandleSecondaryGetsTheExternalResourceItself(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		things := cloudtest.NewListed()
		c := kumori{sites: sites, externals: []external.IExternalClient{external.Configure(things, quick)}}.listening(nil)
		c.then = c.custom.HandleSecondary
		got := func(want external.Resource) bool {
			return c.secondaries.any(func(obj any) bool { return obj == want })()
		}
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, sites.Create(t.Context(), newSite("shop", "")))
		runKumori(t, c.custom)
		natstest.Eventually(t, "the sites are synced", func() bool {
			return c.seen.count("home") == 1 && c.seen.count("shop") == 1
		})

		first := external.Resource{ID: "a", OwnerKey: "home", Version: "1"}
		things.Resources.Store(&[]external.Resource{first})
		natstest.Eventually(t, "one that appeared is handed over", func() bool {
			return got(first) && c.seen.with("home", controller.OperationSecondary) == 1
		})
		moved := external.Resource{ID: "a", OwnerKey: "shop", Version: "1"}
		things.Resources.Store(&[]external.Resource{moved})
		natstest.Eventually(t, "one that moved wakes both", func() bool {
			return got(moved) && c.seen.with("home", controller.OperationSecondary) == 2 &&
				c.seen.with("shop", controller.OperationSecondary) == 1
		})
		things.Resources.Store(&[]external.Resource{})
		natstest.Eventually(t, "one that vanished is handed over as it was", func() bool {
			return c.seen.with("shop", controller.OperationSecondary) == 2
		})
	})
}

func TestKumoriHandleSecondaryIsToldOfWhatWasDeletedBeforeAnyListShowedIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		api := cloudtest.New(t)
		driver := cloudtest.NewDriver(api.Server.URL)
		t.Cleanup(driver.HTTP.CloseIdleConnections)
		c := kumori{sites: sites, externals: []external.IExternalClient{
			external.Configure(cloudtest.Client{Driver: driver}, withInterval(notInATest))}}.listening(nil)
		c.sync = func(key string) error {
			_, err := external.Reconcile(c.Context(key), driver, cloudtest.Spec{Size: 1}, quickly...)
			return err
		}
		runKumori(t, c)
		must(t, sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool {
			return api.Of("home") == "=1" && c.Stats().Running == 0 && c.Stats().Delayed == 0
		})
		api.Remove("home")
		synced := c.seen.count("home")
		c.engine.APIs.Source("Disk").WantList(time.Now().Add(time.Second)) // past Settle
		natstest.Eventually(t, "it is told", c.secondaries.any(func(obj any) bool {
			return obj == external.Resource{OwnerKey: "home"}
		}))
		lists := api.Called("GET disks")
		c.engine.APIs.Source("Disk").WantList(time.Now())
		natstest.Eventually(t, "it is listed again", func() bool { return api.Called("GET disks") > lists })
		if n := c.seen.count("home"); n != synced {
			t.Errorf("synced %d times more, though HandleSecondary enqueued nothing", n-synced)
		}
	})
}

func TestKumoriGarbageSecondariesFindsExternalResourcesWithoutOwner(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		departed(t, sites, "ghost")
		things := cloudtest.NewListed(external.Resource{ID: "a", OwnerKey: "ghost", Version: "1"})
		var c *custom
		c = kumori{sites: sites, resync: 50 * time.Millisecond,
			externals: []external.IExternalClient{external.Configure(things, quick)}}.custom(func(key string) error {
			if c.Operations(key).Has(controller.OperationDelete) {
				return things.Delete(c.Context(key), "a")
			}
			return nil
		})
		runKumori(t, c)
		natstest.Eventually(t, "the missing owner is synced with OperationDelete", func() bool {
			return c.seen.with("ghost", controller.OperationDelete) > 0
		})
		if id := <-things.Deleted; id != "a" {
			t.Errorf("deleted %q", id)
		}
	})
}

func TestKumoriSyncHandlerMayUseExternalReconcile(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		api := cloudtest.New(t)
		var c *custom
		driver := cloudtest.NewDriver(api.Server.URL)
		t.Cleanup(driver.HTTP.CloseIdleConnections)
		c = kumori{sites: sites, externals: []external.IExternalClient{
			external.Configure(cloudtest.Client{Driver: driver}, withInterval(notInATest))}}.custom(func(key string) error {
			s, err := sites.Lister().Get(key)
			if err == nil {
				_, err = external.Reconcile(c.Context(key), driver, cloudtest.Spec{Size: s.Spec.Pages}, quickly...)
				return err
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
			_, err = external.ReconcileAbsent(c.Context(key), driver, quickly...)
			return err
		})
		runKumori(t, c)
		must(t, sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "created", func() bool { return api.Of("home") == "=1" })
		api.GoAway(false)
		must(t, sites.Create(t.Context(), sized("shop", 2)))
		natstest.Eventually(t, "it waits for the API", func() bool {
			return c.Stats().External["Disk"].Waiting > 0 && c.Stats().Failures == 0
		})
		api.ComeBack()
		natstest.Eventually(t, "created", func() bool { return api.Of("shop") == "=2" })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "gone", func() bool {
			_, err := sites.Record(t.Context(), "home")
			return api.Of("home") == "" && apierrors.IsNotFound(err)
		})
		if _, err := external.ReconcileAbsent(c.Context("nobody"), driver); err == nil ||
			errors.Is(err, external.ErrUnavailable) {
			t.Errorf("outside of SyncHandler: %v", err)
		}
	})
}
