package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// logged is a controller that logs to lines.
type logged struct {
	c     *Controller[*site]
	lines *logLines
}

func (l logged) Run(ctx context.Context) error {
	return l.c.Run(klog.NewContext(ctx, l.lines.logger()))
}

// said returns the events so far that have this reason.
func said(events *record.FakeRecorder, reason string) (found []string) {
	for {
		select {
		case event := <-events.Events:
			if strings.Contains(event, " "+reason+" ") {
				found = append(found, event)
			}
		default:
			return found
		}
	}
}

func TestATeardownTellsWhatItHasDeletedInALineAndAnEvent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, api, lines, events := newWorld(t), cloudtest.NewListed(), &logLines{}, record.NewFakeRecorder(100)
		sites := w.sites()
		c, err := New("sites", sites, new(calls).reconciler(nil), WithEventRecorder(events),
			OwnsExternal(external.Configure(api, external.Config{Interval: time.Second})))
		must(t, err)
		w.run(logged{c, lines})
		must(t, sites.Create(t.Context(), newSite("home", "")))
		api.Resources.Store(&[]external.Resource{
			{ID: "a", OwnerKey: "home", Version: "1"}, {ID: "b", OwnerKey: "home", Version: "1"},
		})
		natstest.Eventually(t, "the things are known", func() bool { return c.Stats().External["Thing"].Resources == 2 })
		natstest.Eventually(t, "it is reconciled", func() bool { return c.Stats().Reconciles > 0 })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
		told := lines.with("Torn down")
		if len(told) != 1 || told[0]["key"] != "home" || told[0]["deleted"] != "2 of OwnsExternal Thing" {
			t.Errorf("lines %v", told)
		}
		if got := said(events, "TornDown"); len(got) != 1 || !strings.Contains(got[0], "2 of OwnsExternal Thing") {
			t.Errorf("events %q", got)
		}
	})
}

func TestATeardownTellsWhatItsReconcilerHasDeletedBehindAnAPI(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		lines := &logLines{}
		w := newCloudWorld(t, withInterval(notInATest), nil)
		w.run(logged{w.c, lines})
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is reconciled", func() bool { return w.reconciled("home") })
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is torn down", func() bool { return w.c.Stats().TornDown == 1 })
		told := lines.with("Torn down")
		if len(told) != 1 || told[0]["deleted"] != "1 of external Disk" {
			t.Errorf("lines %v", told)
		}
	})
}

func TestManyTeardownsAreToldInFewLinesAndNoneIsLeftOutOfTheCount(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const many = 3 * notify.LinesAtOnce
		w, lines := newWorld(t), &logLines{}
		sites := w.sites()
		c, err := New("sites", sites, new(calls).reconciler(nil))
		must(t, err)
		w.run(logged{c, lines})
		for i := range many {
			must(t, sites.Create(t.Context(), newSite(fmt.Sprint("s", i), "")))
		}
		natstest.Eventually(t, "all are reconciled", func() bool { return c.Stats().Reconciles >= many })
		for i := range many {
			must(t, sites.Delete(t.Context(), fmt.Sprint("s", i)))
		}
		natstest.Eventually(t, "all are torn down", func() bool { return c.Stats().TornDown == many })
		time.Sleep(time.Minute)
		single, rest := len(lines.with("Torn down")), 0
		summaries := lines.with("More keys were torn down, which are not told one by one")
		for _, line := range summaries {
			rest += int(line["keys"].(float64))
		}
		if single+rest != many || single < notify.LinesAtOnce || single > many/2 || len(summaries) > 2 {
			t.Errorf("%d lines, and %d keys in %d summaries, of %d", single, rest, len(summaries), many)
		}
	})
}

func TestRecordsThatVanishAndAreWrittenAgainAreToldOnceWithTheirNumber(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, lines, events := newWorld(t), &logLines{}, record.NewFakeRecorder(1000)
		sites := w.sites()
		c, err := New("sites", sites, new(calls).reconciler(nil), WithEventRecorder(events))
		must(t, err)
		w.run(logged{c, lines})
		for i := range 20 {
			must(t, sites.Create(t.Context(), newSite(fmt.Sprint("s", i), "")))
		}
		natstest.Eventually(t, "all are reconciled", func() bool { return c.Stats().Reconciles >= 20 })
		time.Sleep(time.Minute)
		stream, err := w.js.Stream(t.Context(), "KV_sites-status")
		must(t, err)
		must(t, stream.Purge(t.Context()))
		const message = "Records had vanished and were written again"
		time.Sleep(10 * time.Minute) // the caches are compared with the server every 5 min
		told := lines.with(message)
		if len(told) != 1 || told[0]["records"] != 20.0 || told[0]["bucket"] != "sites-status" {
			t.Errorf("lines %v", told)
		}
		if got := said(events, "RecordsRestored"); len(got) != 1 || !strings.Contains(got[0], "20 records") {
			t.Errorf("events %q", got)
		}
	})
}

func TestALostLeaseIsToldInALine(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, lines := newWorld(t), &logLines{}
		c, err := New("sites", w.sites(), new(calls).reconciler(nil))
		must(t, err)
		w.run(logged{c, lines})
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "it leads no more", func() bool { return !c.Stats().Leading })
		time.Sleep(time.Second)
		told := lines.with("Lease lost, this replica works no more")
		if len(told) != 1 || !strings.Contains(fmt.Sprint(told[0]["why"]), "another") {
			t.Errorf("lines %v", told)
		}
	})
}
