package controllerruntime

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// overriding is a custom controller whose HandleSecondary enqueues by itself.
type overriding struct{ *custom }

func (o overriding) HandleSecondary(obj any) {
	if _, key, err := o.DecomposeKubeSecondaryResource(obj); err == nil && key != "" {
		o.EnqueueKey(key, controller.OperationSecondary)
	}
}

// TestKumoriControllerThatChangesASecondaryWithEachSyncIsSlowedDown, until somebody else changes something.
func TestKumoriControllerThatChangesASecondaryWithEachSyncIsSlowedDown(t *testing.T) {
	for name, handling := range map[string]func(*custom) IController{
		"with the default": func(c *custom) IController { return c },
		"with an override": func(c *custom) IController { return overriding{c} },
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) { testSlowedDown(t, handling) })
		})
	}
}

func testSlowedDown(t *testing.T, handling func(*custom) IController) {
	w := newWorld(t)
	sites, pages := w.sites(), w.pages()
	var c *custom
	var n atomic.Int64
	c = kumori{sites: sites, pages: pages}.custom(func(key string) error {
		_, err := controller.CreateOrUpdate(c.Context(key), pages, newPage("log", ""), func(p *page) error {
			p.Spec.Title = fmt.Sprint("at ", n.Add(1))
			return nil
		})
		return err
	})
	handler := handling(c)
	c.SetCustomController(handler)
	runKumori(t, handler)
	must(t, sites.Create(t.Context(), newSite("home", "one")))
	natstest.Eventually(t, "the loop is counted", func() bool { return c.Stats().Loops == 1 && c.Stats().Looping == 1 })
	natstest.Eventually(t, "it comes to rest", func() bool {
		before := c.seen.count("home")
		time.Sleep(300 * time.Millisecond)
		return c.seen.count("home")-before <= 1
	})
	before := c.seen.count("home")
	must(t, pages.Patch(t.Context(), "log", []byte(`{"spec":{"pages":7}}`)))
	natstest.Eventually(t, "what somebody else changes is answered at once", func() bool {
		return c.seen.count("home") > before+5
	})
}
