package brake_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
)

// held is a world in which the brake holds eleven of twenty.
func held(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 11)...)
		w.settle()
		w.wantHeld(11)
		test(t, w)
	})
}

func TestAReleaseLetsGoAllThatIsHeld(t *testing.T) {
	for how, release := range map[string]func(w *world){
		"by ReleaseBrake":      func(w *world) { w.release() },
		"by an operator's put": func(w *world) { w.ask(w.request()) },
	} {
		t.Run(how, func(t *testing.T) {
			held(t, func(t *testing.T, w *world) {
				w.stuck["site-00"] = true
				release(w)
				w.settle()
				w.wantTornDown(10)
				if state := w.b.State(); !state.Released || w.has(record.KeyRelease) {
					t.Errorf("%+v; the request is there: %v", state, w.has(record.KeyRelease))
				}
				w.stuck["site-00"] = false
				w.work(due{key: "site-00"})
				w.settle()
				w.wantTornDown(11)
				if state := w.b.State(); state.Released || w.has(record.KeyBrake) {
					t.Errorf("%+v when all has gone; kept: %v", state, w.has(record.KeyBrake))
				}
			})
		})
	}
}

// TestWhatIsReleasedIsDueAtOnce, with the priority of what happens now, and not with that of the backlog.
func TestWhatIsReleasedIsDueAtOnce(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.release()
		synctest.Wait()
		if len(w.due) != 11 {
			t.Errorf("%d are due", len(w.due))
		}
		for _, d := range w.due {
			if d.ops != operation.Of(operation.Delete) || d.prio != queue.Secondary {
				t.Errorf("%+v", d)
			}
		}
	})
}

func TestAReleaseCoversSuspectsThatAreNotDecidedYet(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.lose(names(11, 13)...)
		w.release()
		w.settle()
		w.wantTornDown(13)
	})
}

func TestAReleaseCoversNothingThatVanishesLater(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.stuck[name(0)] = true // so that the release is not over
		w.release()
		w.settle()
		w.put(20, 40)
		w.lose(names(20, 40)...)
		w.settle()
		w.wantHeld(20)
	})
}

// TestAReleaseBeginsTheWindowAnew: what went before it and what it let go do not count against what vanishes after it.
func TestAReleaseBeginsTheWindowAnew(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 9)...)
		w.settle()
		w.lose(names(9, 11)...)
		w.settle()
		w.release()
		w.settle()
		w.lose(names(11, 13)...)
		w.settle()
		w.wantTornDown(13)
	})
}

func TestAReleaseOfNothingDoesNotReleaseLater(t *testing.T) {
	t.Run("while it runs", func(t *testing.T) {
		run(t, 20, func(t *testing.T, w *world) {
			w.release()
			w.settle()
			if w.has(record.KeyRelease) || len(w.told) > 0 {
				t.Errorf("the request is there: %v; told %+v", w.has(record.KeyRelease), w.told)
			}
			w.lose(names(0, 11)...)
			w.settle()
			w.wantHeld(11)
		})
	})
	t.Run("while it is down", func(t *testing.T) {
		run(t, 20, func(t *testing.T, w *world) {
			w.restart(func() {
				w.write(record.KeyRelease, "go")
				w.lose(names(0, 11)...)
			})
			w.settle()
			w.wantHeld(11)
			if w.has(record.KeyRelease) {
				t.Error("the request is still there")
			}
		})
	})
}

func TestAReleaseWhileItIsDownCountsForWhatWasHeld(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.restart(func() { w.ask(w.request()) })
		w.settle()
		w.wantTornDown(11)
	})
}

// TestAReleaseWhileItIsDownWaitsForTheFirstSweep, because it also covers what that holds back.
func TestAReleaseWhileItIsDownWaitsForTheFirstSweep(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.sweep(orphans(20, "gone"))
		w.settle()
		w.halt()
		w.ask(w.request())
		w.begin()
		w.settle()
		w.wantHeld(11)
		if free := w.sweep(orphans(20, "gone")); len(free) > 0 {
			t.Errorf("%v are free before the release", free)
		}
		w.settle()
		w.wantTornDown(12)
	})
}

// TestAReleaseOutlivesARestart: what it let go goes, and nothing else.
func TestAReleaseOutlivesARestart(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		for _, key := range names(0, 11) {
			w.stuck[key] = true
		}
		w.release()
		w.settle()
		left, _ := kept[struct{ ReleasedKeys []string }](w, record.KeyBrake)
		if strings.Join(left.ReleasedKeys, " ") != strings.Join(names(0, 11), " ") {
			t.Errorf("kept %q", left.ReleasedKeys)
		}
		clear(w.stuck)
		w.restart(func() { w.put(20, 40) })
		w.lose(names(20, 35)...)
		w.settle()
		if state := w.wantHeld(15); len(w.tornDown) != 11 {
			t.Errorf("%d torn down, %+v; want what was released", len(w.tornDown), state)
		}
	})
}

// TestTooManyReleasedKeysAreNotKept: after a restart they have to be released again.
func TestTooManyReleasedKeysAreNotKept(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		long := strings.Repeat("k", 30<<10)
		for _, key := range names(0, 11) {
			w.docs[key+long], w.anchors[key+long] = 1, brake.Anchor{Stream: "first", Document: 1}
			w.stuck[key+long] = true
		}
		for _, key := range names(0, 11) {
			w.lose(key + long)
		}
		w.settle()
		w.wantHeld(11)
		w.release()
		w.settle()
		if left, ok := kept[struct{ ReleasedKeys []string }](w, record.KeyBrake); !ok || left.ReleasedKeys != nil {
			t.Errorf("kept: %v, %d keys", ok, len(left.ReleasedKeys))
		}
		w.restart(func() {})
		w.settle()
		w.wantHeld(11)
	})
}

// TestItDisengagesWhenEverythingCameBack, and takes the stream for the known one.
func TestItDisengagesWhenEverythingCameBack(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.recreate(0, 5)
		w.settle()
		w.put(5, 20)
		w.settle()
		if state := w.b.State(); state.Engaged || state.Released || w.has(record.KeyBrake) || len(w.tornDown) > 0 {
			t.Errorf("%+v, kept: %v, torn down %v", state, w.has(record.KeyBrake), w.tornDown)
		}
		if last := w.told[len(w.told)-1]; last.message != "nothing waits for a release any more" {
			t.Errorf("told %+v", last)
		}
		if w.b.StreamChanged() {
			t.Error("the stream is still another one")
		}
		if stream, _ := kept[brake.Stream](w, record.KeyStream); stream.Created != w.stream.Created {
			t.Errorf("kept %+v", stream)
		}
	})
}

// TestItDoesNotDisengageBeforeTheFirstSweep of a term, which says whether there is anything to hold.
func TestItDoesNotDisengageBeforeTheFirstSweep(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		w.halt()
		w.put(0, 11)
		w.begin()
		w.settle()
		w.wantHeld(0)
		w.sweep()
		w.settle()
		if state := w.b.State(); state.Engaged {
			t.Errorf("%+v", state)
		}
	})
}

func TestAReleaseIsForWhicheverReplicaLeads(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		standby := brake.New(brake.Config{Bucket: w.b.Bucket})
		must(t, standby.Release(quiet(t)))
		request, _ := kept[struct {
			At, By, Engagement string
			Count              int
		}](w, record.KeyRelease)
		at, err := time.Parse(time.RFC3339, request.At)
		if err != nil || !at.Equal(time.Now().Truncate(time.Second)) || request.By != "ReleaseBrake" ||
			request.Engagement != w.b.State().Engagement || request.Count != 11 {
			t.Errorf("requested with %+v", request)
		}
		w.b.ReleaseRequested() // the leader's cache tells it
		w.settle()
		w.wantTornDown(11)
	})
}
