package brake_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/owner"
	"k8s.io/apimachinery/pkg/util/sets"
)

// owns gives an owner a secondary that carries a revision of it.
func (w *world) owns(key, stream string, revision uint64) {
	w.change(func() {
		if w.pages == nil {
			w.pages = map[string]owner.Stamp{}
		}
		w.pages[key] = owner.Stamp{Stream: stream, Revision: revision}
	})
}

// one is a single secondary of a missing owner, among many.
func one(key string) brake.Orphans { return among(1000, 1, key) }

// TestOneStampOfALaterStateHoldsASweep, and what has none goes with it.
func TestOneStampOfALaterStateHoldsASweep(t *testing.T) {
	for how, tt := range map[string]struct {
		stream   string
		revision func(w *world) uint64
		says     string
	}{
		"not reached":        {"first", func(w *world) uint64 { return w.stream.Highest + 1 }, "of 1 missing owners"},
		"another document's": {"first", func(w *world) uint64 { return w.docs[name(3)] }, "of 1 one that is another"},
		"another stream's":   {"older", func(*world) uint64 { return 1 }, "of 1 one of another stream"},
	} {
		t.Run(how, func(t *testing.T) {
			run(t, 20, func(t *testing.T, w *world) {
				w.owns("young", tt.stream, tt.revision(w))
				if free := w.sweep(one("young"), one("plain")); len(free) > 0 || !w.b.HoldsOrphans("young") {
					t.Errorf("free %v, %+v", free, w.b.State())
				}
				if state := w.b.State(); !strings.Contains(state.Reason, tt.says) || state.Swept != 2 {
					t.Errorf("%+v does not say %q", state, tt.says)
				}
				w.release()
				synctest.Wait()
				if free := w.sweep(one("young")); len(free) != 1 || w.b.State().Engaged {
					t.Errorf("after the release: free %v, %+v", free, w.b.State())
				}
			})
		})
	}
}

// TestStampsThatTheStreamHasReachedHoldNothing, nor do those of owners that exist.
func TestStampsThatTheStreamHasReachedHoldNothing(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		gone := w.docs[name(3)]
		w.delete(name(3))
		w.owns(name(3), "first", gone)
		w.owns(name(4), "first", w.stream.Highest+100)
		w.owns(name(5), "older", 7)
		if free := w.sweep(one(name(3))); len(free) != 1 {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
		w.restart(func() { w.lose(name(6)) })
		w.settle()
		w.wantTornDown(2)
	})
}

// TestASweepWaitsForWhatStampsTellOf: the replica that led before was ahead of this one's cache.
func TestASweepWaitsForWhatStampsTellOf(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.owns("young", "first", w.stream.Highest+1)
		w.await = func() {
			w.change(func() {
				w.stream.Highest++
				w.docs["young"] = w.stream.Highest
			})
		}
		if free := w.sweep(one("young")); len(free) > 0 || w.b.State().Engaged {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
	})
}

// TestATermWaitsForWhatStampsTellOf, as for what anchors tell of: then nothing is wrong with the stream.
func TestATermWaitsForWhatStampsTellOf(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.halt()
		w.owns("young", "first", w.stream.Highest+1)
		w.await = func() {
			w.change(func() {
				w.stream.Highest++
				w.docs["young"] = w.stream.Highest
			})
		}
		w.begin()
		w.sweep()
		if w.b.StreamChanged() {
			t.Error("the stream is taken for another one")
		}
		w.lose(name(3))
		w.settle()
		w.wantTornDown(1)
	})
}

// unproved is a single secondary of an owner of which nothing tells that it ever was.
func unproved(key string) brake.Orphans {
	o := one(key)
	o.Count, o.Unproved = 0, sets.New(key)
	return o
}

// TestAnOwnerThatNeverWasIsNotTheBrakes: neither does it go, nor does it engage the brake, nor does an engaged one hold
// it, so that no release can let it go.
func TestAnOwnerThatNeverWasIsNotTheBrakes(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.owns("ghost", "first", 1) // a revision that the stream has long passed
		mass := among(1000, 900, "ghost")
		mass.Count, mass.Unproved = 0, sets.New("ghost")
		free := w.sweep(mass, unproved("spectre"))
		if len(free) > 0 || w.b.State().Engaged || w.b.HoldsOrphans("ghost") {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
		w.owns("young", "first", w.stream.Highest+1)
		free = w.sweep(one("young"), mass)
		if state := w.b.State(); len(free) > 0 || !state.Engaged || state.Swept != 1 || w.b.HoldsOrphans("ghost") {
			t.Errorf("engaged for another: free %v, %+v", free, state)
		}
		w.release()
		synctest.Wait()
		if free := w.sweep(one("young"), mass); len(free) != 1 || free[0] != "young" {
			t.Errorf("after the release: free %v", free)
		}
	})
}

// TestAStampOfAnOwnerThatNeverWasIsReported, and holds nothing: who may write secondaries can make it up. So it is at a
// start. Others go, and what is held for other reasons is released without it.
func TestAStampOfAnOwnerThatNeverWasIsReported(t *testing.T) {
	for how, tt := range map[string]struct {
		stream   string
		revision func(w *world) uint64
		says     string
	}{
		"not reached":        {"first", func(w *world) uint64 { return w.stream.Highest + 100 }, "a revision of 1 that"},
		"another document's": {"first", func(w *world) uint64 { return w.docs[name(0)] }, "of 1 one that is another"},
		"another stream's":   {"older", func(*world) uint64 { return 1 }, "of 1 one of another stream"},
	} {
		t.Run(how, func(t *testing.T) {
			run(t, 20, func(t *testing.T, w *world) {
				w.owns("ghost", tt.stream, tt.revision(w))
				if free := w.sweep(unproved("ghost"), one("plain")); len(free) != 1 || w.b.State().Engaged {
					t.Errorf("free %v, %+v", free, w.b.State())
				}
				w.wantReported("of 1 owners that, as far as anybody can tell, never were", tt.says)
				w.restart(func() { w.lose(name(3)) })
				w.settle()
				w.wantTornDown(1)
				w.restart(func() { w.lose(names(4, 18)...) })
				w.sweep(unproved("ghost"))
				w.settle()
				w.wantHeld(14)
				if state := w.b.State(); state.Swept != 0 || w.b.HoldsOrphans("ghost") {
					t.Errorf("what never was is held: %+v", state)
				}
				w.wantReported(tt.says)
				w.release()
				w.settle()
				if free := w.sweep(unproved("ghost")); len(free) > 0 || slices.Contains(w.tornDown, "ghost") {
					t.Errorf("free %v, torn down %v", free, w.tornDown)
				}
				w.sweep()
				if err := w.board.Degraded()["restore (bucket sites-status)"]; err != nil {
					t.Errorf("it is gone, and reported still: %v", err)
				}
			})
		})
	}
}

// TestASweepReportsNothingAfterItsTerm: nobody would take it off the board of a replica that does not lead.
func TestASweepReportsNothingAfterItsTerm(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.owns("ghost", "older", 1)
		ctx, cancel := context.WithCancel(quiet(t))
		w.onCompare = func() {
			w.onCompare = nil
			cancel()
			w.halt()
		}
		w.b.Sweep(ctx, w.withStamps(unproved("ghost")))
		if failing := w.board.Degraded(); len(failing) > 0 {
			t.Errorf("after the term: %v", failing)
		}
		w.begin()
	})
}

// wantReported wants a report that the stream may have gone back.
func (w *world) wantReported(parts ...string) {
	w.t.Helper()
	err := w.board.Degraded()["restore (bucket sites-status)"]
	for _, part := range append(parts, "may have been restored", `as "`) {
		if err == nil || !strings.Contains(err.Error(), part) {
			w.t.Errorf("%v does not say %q", err, part)
		}
	}
}

// TestAnOwnerThatWasReportedIsHeldOnceItIsKnown: somebody made it and deleted it, and its stamp tells of a later state.
func TestAnOwnerThatWasReportedIsHeldOnceItIsKnown(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.owns("young", "first", w.stream.Highest+100)
		w.sweep(unproved("young"))
		w.wantReported("a revision of 1 that")
		if free := w.sweep(one("young")); len(free) > 0 || !w.b.HoldsOrphans("young") {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
		if err := w.board.Degraded()["restore (bucket sites-status)"]; err != nil {
			t.Errorf("the brake holds it, and it is reported as one that never was: %v", err)
		}
	})
}

// TestNoOtherStampHidesOneOfALaterState: somebody writes one more secondary of the owner.
func TestNoOtherStampHidesOneOfALaterState(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.recreate(0, 20)
		time.Sleep(5 * time.Minute) // the stream before is a former one
		found := one("young")
		found.Stamps = []owner.Stamped{
			{Key: "young", Stamp: owner.Stamp{Stream: w.stream.Created, Revision: w.stream.Highest + 1}},
			{Key: "young", Stamp: owner.Stamp{Stream: "first", Revision: 1_000_000}},
		}
		if free := w.b.Sweep(quiet(t), []brake.Orphans{found}); len(free) > 0 || !w.b.State().Engaged {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
	})
}

// TestAReleaseIsNotForWhatNobodyKnows: it may never have been. The brake stays engaged for it until then, and the next
// sweep decides.
func TestAReleaseIsNotForWhatNobodyKnows(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.sweep(among(30, 20, "gone"))
		silent := unproved("ghost")
		silent.Unknown = sets.New("ghost")
		w.sweep(among(30, 20, "gone"), silent)
		if state := w.b.State(); state.Swept != 1 || !w.b.HoldsOrphans("ghost") {
			t.Errorf("%+v", state)
		}
		w.release()
		synctest.Wait()
		if free := w.sweep(among(30, 20, "gone"), silent); !slices.Equal(free, []string{"gone"}) {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
		w.settle()
		if slices.Contains(w.tornDown, "ghost") || w.b.State().Engaged {
			t.Errorf("torn down %v, %+v", w.tornDown, w.b.State())
		}
	})
}

// TestWhatWasHeldStaysHeldWhileTheLeaderDoesNotAnswer, or the brake would let itself off.
func TestWhatWasHeldStaysHeldWhileTheLeaderDoesNotAnswer(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		if free := w.sweep(among(30, 20, "gone")); len(free) > 0 || !w.b.State().Engaged {
			t.Fatalf("free %v, %+v", free, w.b.State())
		}
		silent := among(30, 20, "gone")
		silent.Count, silent.Unproved = 0, sets.New("gone")
		if free := w.sweep(silent); len(free) > 0 || !w.b.HoldsOrphans("gone") {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
		w.settle()
		if !w.b.State().Engaged {
			t.Error("the brake let itself off")
		}
	})
}

// TestAnEngagedBrakeHoldsWhatNobodyKnows, in a term that finds the leader silent: it cannot tell what the term before
// held.
func TestAnEngagedBrakeHoldsWhatNobodyKnows(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.sweep(among(30, 20, "gone"))
		w.settle()
		w.halt()
		w.begin()
		silent := among(30, 20, "gone")
		silent.Count, silent.Unproved, silent.Unknown = 0, sets.New("gone"), sets.New("gone")
		if free := w.sweep(silent); len(free) > 0 || !w.b.HoldsOrphans("gone") {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
		w.settle()
		if !w.b.State().Engaged {
			t.Error("the brake let itself off")
		}
	})
}

// TestAStreamThatSomebodyLetGoAccusesNoMore: what was not written since still carries its identity.
func TestAStreamThatSomebodyLetGoAccusesNoMore(t *testing.T) {
	for how, letGo := range map[string]func(w *world){
		"by a release": func(w *world) {
			w.recreate(1, 20)
			w.settle()
			w.release()
			w.settle()
		},
		"because nothing was missing": func(w *world) {
			w.recreate(0, 20)
			time.Sleep(5 * time.Minute)
		},
	} {
		t.Run(how, func(t *testing.T) {
			run(t, 20, func(t *testing.T, w *world) {
				w.owns(name(5), "first", 3)
				letGo(w)
				w.restart(func() { w.lose(name(5)) })
				if w.b.StreamChanged() {
					t.Error("the stream is taken for another one")
				}
			})
		})
	}
}

// TestWhatAReleaseLetGoIsNoEvidenceAgain, although some of it is still there after the clean-up.
func TestWhatAReleaseLetGoIsNoEvidenceAgain(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.owns("young", "first", w.stream.Highest+100)
		w.sweep(one("young"))
		w.release()
		w.settle() // the worker has cleaned up
		if free := w.sweep(one("young")); len(free) != 1 || w.b.State().Engaged {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
	})
}

// TestTheEndOfATermEngagesNothing: what a sweep waited for did not come because nobody waits any more.
func TestTheEndOfATermEngagesNothing(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.owns("young", "first", w.stream.Highest+1)
		ctx, cancel := context.WithCancel(quiet(t))
		time.AfterFunc(time.Second, cancel)
		if free := w.b.Sweep(ctx, w.withStamps(one("young"))); len(free) > 0 || w.b.State().Engaged || w.engaged() > 0 {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
	})
}

// TestAStampOfALaterStateHoldsWhatIsOwedAtTheStart: the record went back with the documents, and the key was put again
// after that.
func TestAStampOfALaterStateHoldsWhatIsOwedAtTheStart(t *testing.T) {
	for how, known := range map[string]bool{"and the stream that was kept": true, "and no stream is kept": false} {
		t.Run(how, func(t *testing.T) {
			run(t, 20, func(t *testing.T, w *world) {
				w.restart(func() {
					w.lose(name(3))
					w.owns(name(3), "first", w.stream.Highest+5)
					if !known {
						delete(w.reserved, "_nagi.stream")
					}
				})
				w.settle()
				w.wantOtherStream()
				w.release()
				w.settle()
				w.wantTornDown(1)
			})
		})
	}
}

// TestAnEngagedBrakeIsDegraded, with why and what to do, while its term lasts; and so it is in the next.
func TestAnEngagedBrakeIsDegraded(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 15)...)
		w.settle()
		w.wantHeld(15)
		degraded := func() string {
			if err := w.board.Degraded()["brake"]; err != nil {
				return err.Error()
			}
			return ""
		}
		command := "nats kv put sites-status _nagi.release \"" + w.request() + "\""
		for _, part := range []string{"15 of 20 primaries", "ReleaseBrake", command} {
			if !strings.Contains(degraded(), part) {
				t.Errorf("%q does not say %q", degraded(), part)
			}
		}
		w.halt()
		if text := degraded(); text != "" {
			t.Errorf("after the term: %q", text)
		}
		w.begin()
		synctest.Wait()
		if degraded() == "" {
			t.Error("the next term does not say so")
		}
		w.sweep()
		w.settle()
		w.release()
		w.settle()
		if text := degraded(); text != "" {
			t.Errorf("after the release: %q", text)
		}
	})
}
