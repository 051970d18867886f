package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// madeUp makes a page of an owner that never was. It carries a revision of it that somebody made up.
func (m *massed) madeUp(revision string) {
	m.t.Helper()
	p := m.ownedPage("made-up", "ghost")
	p.Annotations[entity.OwnerRevisionAnnotation] = revision
	must(m.t, m.client("Page", "pages", onDisk).Create(m.t.Context(), p))
}

// TestAMadeUpRevisionOfAnOwnerThatNeverWasHoldsNothing: who may write secondaries, and nothing else, stops neither the
// sweep nor a teardown that is owed at a start. It is reported. A release that is for others calls no reconciler for
// it.
func TestAMadeUpRevisionOfAnOwnerThatNeverWasHoldsNothing(t *testing.T) {
	for how, revision := range map[string]func(first, stream string) string{
		"not reached":        func(_, stream string) string { return "1000000@" + stream },
		"another document's": func(first, stream string) string { return first + "@" + stream },
		"another stream's":   func(_, _ string) string { return "7@2026-01-01T00:00:00Z" },
	} {
		t.Run(how, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				m := newWorld(t).filled(WithResyncInterval(time.Second))
				first, err := m.sites.Get(t.Context(), siteName(0))
				must(t, err)
				_, stream := stampOf(t, m.pages, siteName(0))
				m.madeUp(revision(first.ResourceVersion, stream))
				m.reportsAStreamThatMayHaveGoneBack()

				must(t, m.sites.Delete(t.Context(), siteName(1)))
				natstest.Eventually(t, "it is torn down", noRecord(t, m.sites, siteName(1)))
				must(t, m.pages.Create(t.Context(), m.ownedPage("late", siteName(1))))
				natstest.Eventually(t, "the sweep goes on", gone(t, m.pages, "late"))

				m = m.restarted(func() { must(t, m.away().sites().Delete(t.Context(), siteName(2))) },
					WithResyncInterval(time.Second))
				natstest.Eventually(t, "what is owed at the start is torn down", gone(t, m.pages, siteName(2)))
				m.reportsAStreamThatMayHaveGoneBack()
				if n := m.c.Stats().BrakeEngaged; n != 0 {
					t.Errorf("the brake engaged %d times: %+v", n, m.told.all())
				}

				const left = 3
				m = m.restarted(func() {
					admin := m.away().sites()
					for i := 3; i < many-left; i++ {
						must(t, admin.Delete(t.Context(), siteName(i)))
					}
				}, WithResyncInterval(time.Second))
				natstest.Eventually(t, "the brake holds them, and nothing else", func() bool {
					state := m.c.Stats().Brake
					return state.Engaged && state.Held == many-left-3 && state.Swept == 0 && m.c.Stats().Sweeps > 2
				})
				must(t, m.c.ReleaseBrake(t.Context()))
				const others = 2 // the first site's page, and the one that is made up
				natstest.Eventually(t, "they go", func() bool { return count(t, m.pages) == left+others })
				sweeps := m.c.Stats().Sweeps
				natstest.Eventually(t, "sweeps go by", func() bool { return m.c.Stats().Sweeps > sweeps+3 })
				if n := m.seen.count("ghost"); n != 0 || !exists(t, m.pages, "made-up") {
					t.Errorf("what never was is reconciled %d times; its page exists: %v", n, exists(t, m.pages, "made-up"))
				}
			})
		})
	}
}

// reportsAStreamThatMayHaveGoneBack waits for that in what is degraded.
func (m *massed) reportsAStreamThatMayHaveGoneBack() {
	m.t.Helper()
	natstest.Eventually(m.t, "it is reported", func() bool {
		err := m.c.Stats().Degraded["restore (bucket sites-status)"]
		return err != nil && strings.Contains(err.Error(), "may have been restored") && m.c.Stats().NeverWas > 0
	})
}

// TestAnOwnerThatWasReportedGoesUnderTheOrdinaryRule once somebody makes it and deletes it: few go, many are held.
func TestAnOwnerThatWasReportedGoesUnderTheOrdinaryRule(t *testing.T) {
	for name, pages := range map[string]int{"few": 1, "many": 2 * many} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				m := newWorld(t).filled(WithResyncInterval(time.Second))
				_, stream := stampOf(t, m.pages, siteName(0))
				highest := m.lastSequence("sites")
				for i := range pages {
					p := m.ownedPage(fmt.Sprintf("young-%02d", i), "young")
					p.Annotations[entity.OwnerRevisionAnnotation] = fmt.Sprintf("%d@%s", highest+3, stream)
					must(t, m.pages.Create(t.Context(), p))
				}
				m.reportsAStreamThatMayHaveGoneBack()
				for range 4 { // past the revision
					m.put("sites", siteName(0), `{"spec":{"title":"hot"}}`)
				}
				natstest.Eventually(t, "nothing tells of another stream any more", func() bool {
					s := m.c.Stats()
					return s.Degraded["restore (bucket sites-status)"] == nil && s.NeverWas == pages
				})
				m = m.restarted(func() { were(t, m.away().sites(), "young") }, WithResyncInterval(time.Second))
				if pages < many {
					natstest.Eventually(t, "it goes", func() bool { return count(t, m.pages) == many })
					return
				}
				natstest.Eventually(t, "the brake holds it", func() bool {
					state := m.c.Stats().Brake
					return state.Engaged && state.Swept == 1
				})
				if n := count(t, m.pages); n != many+pages || m.seen.count("young") != 0 {
					t.Errorf("%d pages are left; it was reconciled for %v", n, m.seen.of("young"))
				}
				must(t, m.c.ReleaseBrake(t.Context()))
				natstest.Eventually(t, "it goes", func() bool { return count(t, m.pages) == many })
			})
		})
	}
}
