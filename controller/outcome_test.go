package controller

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAnOutcomeThatCannotBeWrittenIsWrittenLater with the status, a terminal one too, and does not count as a failed
// attempt of the reconciler.
func TestAnOutcomeThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	for reason, outcome := range map[string]error{entity.ReasonSynced: nil,
		entity.ReasonTerminal: TerminalError(errors.New("bad"))} {
		t.Run(reason, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				var once atomic.Bool
				var most atomic.Int64
				note := func() string { return "seen" }
				c, err := New("sites", sites, settingNote(sites, note, func() error {
					if once.CompareAndSwap(false, true) {
						w.limitMessages("sites-status", 10)
					}
					return outcome
				}), WithResyncInterval(0), WithBackoff(time.Millisecond,
					10*time.Millisecond), WithOnResult(func(r ReconcileResult) {
					most.Store(max(most.Load(), int64(r.Attempt)))
				}))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("home", "one")))
				natstest.Eventually(t, "the outcome was refused some times", func() bool {
					return c.Stats().RecordErrors > 3
				})
				w.limitMessages("sites-status", -1)
				eventuallyReason(t, sites, "home", reason)
				if s, err := sites.Get(t.Context(), "home"); err != nil || s.Status.Note != "seen" {
					t.Errorf("its status is %+v, %v", s, err)
				}
				if n := most.Load(); n != 1 {
					t.Errorf("attempt %d was reported, but none failed that another would follow", n)
				}
			})
		})
	}
}
