package brake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/record"
)

const refusedOnBoard = "release (bucket sites-status)"

// acknowledgement is what a server publishes to the reply subject that the sender of a message names.
const acknowledgement = `{"stream":"KV_sites","seq":7}`

// refusal is what the board says of a request that was refused.
func (w *world) refusal() string {
	if err := w.board.Degraded()[refusedOnBoard]; err != nil {
		return err.Error()
	}
	return ""
}

// TestOnlyARequestThatNamesTheEngagementAndItsCountReleases. Anything else is reported and removed, and nothing goes.
func TestOnlyARequestThatNamesTheEngagementAndItsCountReleases(t *testing.T) {
	for what, tt := range map[string]struct {
		text func(engagement string) string
		why  string // "" if it counts
	}{
		"the command":           {func(e string) string { return e + " 11" }, ""},
		"with a newline":        {func(e string) string { return e + " 11\n" }, ""},
		"a higher count":        {func(e string) string { return e + " 12" }, ""},
		"JSON":                  {func(e string) string { return `{"engagement":"` + e + `","count":11}` }, ""},
		"an acknowledgement":    {func(string) string { return acknowledgement }, "an answer of the server"},
		"nothing":               {func(string) string { return "" }, "no engagement"},
		"a word":                {func(string) string { return "now" }, "no engagement"},
		"the engagement alone":  {func(e string) string { return e }, "no engagement"},
		"no number":             {func(e string) string { return e + " all" }, "no engagement"},
		"below zero":            {func(e string) string { return e + " -1" }, "no engagement"},
		"an older version's":    {func(string) string { return `{"at":"2026-01-01T00:00:00Z","by":"ReleaseBrake"}` }, "no engagement"},
		"another list":          {func(e string) string { return `{"engagement":"` + e + `","count":11,"list":"5f1c"}` }, "another list"},
		"too few":               {func(e string) string { return e + " 10" }, "fewer"},
		"too few as JSON":       {func(e string) string { return `{"engagement":"` + e + `","count":10}` }, "fewer"},
		"another engagement":    {func(string) string { return "other 11" }, "another engagement"},
		"control characters":    {func(string) string { return "a\x1b[2J\nb" }, `"a\x1b[2J\nb"`},
		"more than is told of":  {func(string) string { return strings.Repeat("x", 5000) }, "4920 bytes more"},
		"JSON of something":     {func(string) string { return `{"engagement":11}` }, "no engagement"},
		"JSON without a number": {func(e string) string { return `{"engagement":"` + e + `","count":"11"}` }, "no engagement"},
	} {
		t.Run(what, func(t *testing.T) {
			held(t, func(t *testing.T, w *world) {
				right := w.request()
				w.ask(tt.text(w.b.State().Engagement))
				w.settle()
				if w.has(record.KeyRelease) {
					t.Error("the request is still there")
				}
				if tt.why == "" {
					w.wantTornDown(11)
					if len(w.refused) > 0 || w.refusal() != "" {
						t.Errorf("refused: %q, on the board %q", w.refused, w.refusal())
					}
					return
				}
				w.wantHeld(11)
				command := fmt.Sprintf("nats kv put sites-status _nagi.release %q", right)
				for _, part := range []string{tt.why, "11 deletes are held", command} {
					if !strings.Contains(w.refusal(), part) || len(w.refused) != 1 || !strings.Contains(w.refused[0], part) {
						t.Errorf("%q is not said by the board, %q, or told, %q", part, w.refusal(), w.refused)
					}
				}
				if strings.ContainsAny(w.refusal(), "\n\x1b") || len(w.refusal()) > 700 {
					t.Errorf("reported raw: %q", w.refusal())
				}
				w.ask(right)
				w.settle()
				w.wantTornDown(11)
				if w.refusal() != "" {
					t.Errorf("after the release the board says %q", w.refusal())
				}
			})
		})
	}
}

// TestARefusalGoesWhenTheBrakeDisengages.
func TestARefusalGoesWhenTheBrakeDisengages(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.ask(acknowledgement)
		w.settle()
		if w.refusal() == "" {
			t.Error("nothing is reported")
		}
		w.put(0, 11)
		w.settle()
		if state := w.b.State(); state.Engaged || w.refusal() != "" {
			t.Errorf("%+v, the board says %q", state, w.refusal())
		}
	})
}

// TestAFloodOfRequestsIsReportedOnceInAWhile, and does not keep the brake from its work.
func TestAFloodOfRequestsIsReportedOnceInAWhile(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.stuck[name(11)] = true
		for i := range 1000 {
			w.ask(fmt.Sprintf(`{"stream":"KV_sites","seq":%d}`, i))
			time.Sleep(time.Millisecond)
			if i == 500 {
				w.lose(name(11))
			}
		}
		w.settle()
		w.wantHeld(12)
		if len(w.refused) != 1 {
			t.Errorf("told %d times", len(w.refused))
		}
	})
}

// TestARequestIsOfOneEngagement: it releases nothing that a later one holds, put twice or found again after a crash.
func TestARequestIsOfOneEngagement(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		first := w.request()
		w.ask(first)
		w.settle()
		w.wantTornDown(11)
		w.ask(first)
		w.settle()
		if w.has(record.KeyRelease) || w.refusal() != "" {
			t.Errorf("the request is there: %v; the board says %q", w.has(record.KeyRelease), w.refusal())
		}
		w.put(20, 40)
		w.lose(names(20, 40)...)
		w.settle()
		w.ask(first)
		w.restart(func() { w.ask(first) })
		w.settle()
		w.wantHeld(20)
		if w.request() == first {
			t.Error("the engagement has the id of the one before")
		}
	})
}

// TestTheKeptStateTellsHowManyAreHeldNow: an operator reads it there. What changes in a moment is one write.
func TestTheKeptStateTellsHowManyAreHeldNow(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		before, revision := w.request(), w.revision
		w.lose(names(11, 20)...)
		w.settle()
		w.wantHeld(20)
		if now := w.request(); now == before || !strings.HasSuffix(now, " 20") {
			t.Errorf("kept %q", now)
		}
		w.put(5, 20) // one after another
		w.settle()
		if now := w.request(); !strings.HasSuffix(now, " 5") || w.revision > revision+4 {
			t.Errorf("kept %q after %d writes", now, w.revision-revision)
		}
		w.ask(before) // more than there are now
		w.settle()
		w.wantTornDown(5)
	})
}

// TestARequestOfFewerThanTheFirstSweepHoldsIsRefused, and ReleaseBrake where the brake runs is not.
func TestARequestOfFewerThanTheFirstSweepHoldsIsRefused(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.halt()
		w.ask(w.request())
		w.begin()
		w.settle()
		if w.wantHeld(11); w.refusal() != "" {
			t.Errorf("refused before the sweep: %q", w.refusal())
		}
		w.sweep(orphans(20, "gone"))
		w.settle()
		if w.wantHeld(11); !strings.Contains(w.refusal(), "12 deletes are held") {
			t.Errorf("the board says %q", w.refusal())
		}
		w.halt()
		w.begin()
		w.release()
		w.settle()
		w.wantHeld(11)
		w.sweep(orphans(20, "gone"))
		w.settle()
		w.wantTornDown(12)
		if w.refusal() != "" || w.has(record.KeyRelease) {
			t.Errorf("refused: %q; the request is there: %v", w.refusal(), w.has(record.KeyRelease))
		}
	})
}

// TestReleaseBrakeOfAStandbyNamesWhatTheLeaderKept, and with nothing kept it puts nothing.
func TestReleaseBrakeOfAStandbyNamesWhatTheLeaderKept(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		standby := brake.New(brake.Config{Bucket: w.b.Bucket})
		if must(t, standby.Release(quiet(t))); w.has(record.KeyRelease) {
			t.Error("it requests a release, and nothing is held")
		}
		w.lose(names(0, 11)...)
		w.settle()
		must(t, standby.Release(quiet(t)))
		w.lose(names(11, 13)...) // before the leader sees the request
		w.settle()
		w.b.ReleaseRequested()
		w.settle()
		if w.wantHeld(13); !strings.Contains(w.refusal(), "13 deletes are held") {
			t.Errorf("the board says %q", w.refusal())
		}
		must(t, standby.Release(quiet(t)))
		w.b.ReleaseRequested()
		w.settle()
		w.wantTornDown(13)
	})
}

// TestAnEngagementOfAnOlderVersionGetsAnID, which stays, as does that of a state that nobody can read.
func TestAnEngagementOfAnOlderVersionGetsAnID(t *testing.T) {
	for what, left := range map[string]string{
		"older":      `{"engaged":true,"since":"2026-01-01T00:00:00Z","reason":"it was so","held":11}`,
		"unreadable": "release please",
	} {
		t.Run(what, func(t *testing.T) {
			run(t, 20, func(t *testing.T, w *world) {
				w.restart(func() {
					w.lose(names(0, 11)...)
					w.write(record.KeyBrake, left)
				})
				w.settle()
				before := w.request()
				w.restart(func() {})
				w.settle()
				if now := w.request(); now != before || !strings.HasSuffix(now, " 11") {
					t.Errorf("kept %q, and before the restart %q", now, before)
				}
				w.ask(before)
				w.settle()
				w.wantTornDown(11)
			})
		})
	}
}

// TestTheStateOfAnEngagedBrakeIsKeptAgain where somebody removed it or overwrote it.
func TestTheStateOfAnEngagedBrakeIsKeptAgain(t *testing.T) {
	for what, lose := range map[string]func(w *world){
		"removed":     func(w *world) { w.change(func() { delete(w.reserved, record.KeyBrake) }) },
		"overwritten": func(w *world) { w.write(record.KeyBrake, acknowledgement) },
		"garbage":     func(w *world) { w.write(record.KeyBrake, "garbage") },
		"the bucket":  func(w *world) { w.change(func() { clear(w.reserved) }) },
	} {
		t.Run(what, func(t *testing.T) {
			held(t, func(t *testing.T, w *world) {
				before := w.request()
				lose(w)
				time.Sleep(time.Minute)
				w.settle()
				if now := w.request(); now != before {
					t.Errorf("kept %q, and before %q", now, before)
				}
				if entry := w.board.Degraded()[record.KeyBrake+" (bucket sites-status)"]; entry != nil {
					t.Errorf("still degraded: %v", entry)
				}
				w.ask(before)
				w.settle()
				w.wantTornDown(11)
			})
		})
	}
}

// TestAReleaseThatACrashCutShortIsDoneOnce: the request outlives the crash, whatever was kept before it.
func TestAReleaseThatACrashCutShortIsDoneOnce(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		request, engaged := w.request(), w.moment().reserved
		w.ask(request)
		w.settle()
		w.wantTornDown(11)
		w.halt()
		w.change(func() { // the write of the release was lost, and two primaries of many more were not torn down
			w.reserved = engaged
			for _, key := range names(0, 2) {
				w.anchors[key] = brake.Anchor{Stream: "first", Document: 2}
			}
		})
		w.ask(request)
		w.begin()
		w.sweep()
		w.settle()
		w.wantTornDown(13)
		w.halt()
		w.ask(request) // the state was kept, and the removal of the request was lost
		w.put(20, 60)
		w.lose(names(20, 60)...)
		w.begin()
		w.sweep()
		w.settle()
		w.wantHeld(40)
	})
}

// TestReleaseBrakeIsForWhatItsEngagementHolds: one that was stored when all came back releases nothing that vanishes
// then.
func TestReleaseBrakeIsForWhatItsEngagementHolds(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.change(func() { w.away = true })
		done := make(chan error, 1)
		go func() { done <- w.b.Release(quiet(t)) }()
		synctest.Wait()
		w.put(0, 11)
		time.Sleep(time.Second)
		w.change(func() { w.away = false })
		must(t, <-done)
		w.settle()
		w.lose(names(0, 11)...)
		w.settle()
		w.wantHeld(11)
	})
}

// TestReleaseBrakeFailsIfNATSIsAway: nothing is released then.
func TestReleaseBrakeFailsIfNATSIsAway(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.change(func() { w.away = true })
		ctx, cancel := context.WithTimeout(quiet(t), time.Minute)
		defer cancel()
		if err := w.b.Release(ctx); err == nil {
			t.Error("it says that the request is stored")
		}
		w.change(func() { w.away = false })
		w.settle()
		w.wantHeld(11)
	})
}

// TestARequestDoesNotWaitForABacklog: what primaries do not want any more is counted as a whole before the brake
// engages. One that is engaged holds it anyway.
func TestARequestDoesNotWaitForABacklog(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.change(func() { w.backlog = true })
		w.unwant("", name(15))
		time.Sleep(5 * time.Second)
		if state, _ := kept[brake.State](w, record.KeyBrake); state.Held != 11 || state.Pruned != 1 {
			t.Errorf("kept: %+v", state)
		}
		w.ask(w.request())
		time.Sleep(5 * time.Second)
		if state := w.b.State(); state.Engaged {
			t.Errorf("still engaged: %+v", state)
		}
	})
}

// TestARequestThatNamesAListReleasesNothingElse: as many are held as its sender has read, and others.
func TestARequestThatNamesAListReleasesNothingElse(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		request := func() string {
			waiting, pruning, _ := w.b.Held()
			state := w.b.State()
			return fmt.Sprintf(`{"engagement":%q,"count":%d,"list":%q}`, state.Engagement, state.Count(),
				brake.ListID(waiting, pruning))
		}
		read := request()
		w.put(0, 1)
		w.lose(name(11))
		w.settle()
		w.wantHeld(11)
		w.ask(read)
		w.settle()
		w.wantHeld(11)
		if len(w.refused) != 1 || !strings.Contains(w.refused[0], "other keys are held than its sender has read") {
			t.Errorf("refused: %q", w.refused)
		}
		if now := request(); now == read {
			t.Fatalf("other keys, and still %s", now)
		}
		w.ask(request())
		w.settle()
		w.wantTornDown(11)
	})
}
