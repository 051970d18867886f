package controller

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestExplainSaysWhatAKeyOwnsBehindAnAPI as it was listed last, and nothing of what others own there.
func TestExplainSaysWhatAKeyOwnsBehindAnAPI(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		things := []external.Resource{
			{ID: "disk-b", OwnerKey: "home", Version: "7"}, {ID: "a\x1b[2J", OwnerKey: "home"}, {ID: "other", OwnerKey: "shop"},
		}
		api := cloudtest.NewListed(things...)
		var seen calls
		began := time.Now()
		c, _, _ := w.runningSites(&seen, OwnsExternal(external.Configure(api, external.Config{Interval: time.Minute})))
		e := explained(t, c, "home", StateCalm)
		if len(e.Outside) != 1 {
			t.Fatalf("behind %d APIs: %+v", len(e.Outside), e.Outside)
		}
		o := e.Outside[0]
		if o.Kind != "Thing" || o.All != 2 || len(o.Resources) != 2 || !o.AwaySince.IsZero() || o.Open != nil ||
			o.ListedAt.Before(began) || o.Resources[0].ID != `"a\x1b[2J"` || o.Resources[1].ID != "disk-b" ||
			o.Resources[1].Version != "7" {
			t.Errorf("%+v", o)
		}
		for listed := range c.Keys() {
			if listed.Outside != nil {
				t.Errorf("a list of keys says what %s owns: %+v", listed.Key, listed.Outside)
			}
		}
		if o := c.Explain("none").Outside; len(o) != 1 || o[0].All != 0 || o[0].ListedAt.IsZero() {
			t.Errorf("of a key that owns nothing: %+v", o)
		}
		away := errors.New("503")
		api.Fails.Store(&away)
		time.Sleep(2 * time.Minute)
		if o := c.Explain("home").Outside[0]; o.AwaySince.IsZero() || o.All != 2 || time.Since(o.ListedAt) < 50*time.Second {
			t.Errorf("while the API is away: %+v", o)
		}
		for i := range 200 {
			things = append(things, external.Resource{ID: fmt.Sprintf("x%03d", i), OwnerKey: "home"})
		}
		api.Resources.Store(&things)
		api.Fails.Store(nil)
		natstest.Eventually(t, "the API is back", func() bool { return c.Explain("home").Outside[0].AwaySince.IsZero() })
		if o := c.Explain("home").Outside[0]; o.All != 202 || len(o.Resources) != 100 {
			t.Errorf("of many: %d, named are %d", o.All, len(o.Resources))
		}
	})
}

// TestExplainSaysWhatIsUnderWayBehindAnAPI: a change that was begun, until it is seen to be done.
func TestExplainSaysWhatIsUnderWayBehindAnAPI(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, with(external.Name("data")))
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		open := func() (all []string) {
			for _, api := range w.c.Explain("home").Outside {
				for _, call := range api.Open {
					if time.Since(call.Since) > time.Hour {
						t.Errorf("since when? %+v", call)
					}
					all = append(all, fmt.Sprintf("%s %s %v", call.Action, call.Resource, call.Operation != ""))
				}
			}
			return all
		}
		natstest.Eventually(t, "the operation is told", func() bool {
			return slices.Equal(open(), []string{"create Disk/data true"})
		})
		w.finish("")
		natstest.Eventually(t, "it is done, and the disk is listed", func() bool {
			o := w.c.Explain("home").Outside[0]
			return w.reconciled("home") && o.Open == nil && o.All == 1 && o.Resources[0].ID != ""
		})
	})
}
