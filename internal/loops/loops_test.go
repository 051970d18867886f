package loops

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// key is one that is reconciled, with a clock that stands still unless somebody sleeps.
type key struct {
	t        *testing.T
	trail    *Trail
	revision int
	tripped  []*Trip
}

const pages = "the stream of pages"

var (
	secondary = operation.Of(operation.Secondary)
	put       = operation.Of(operation.Put)
)

// page is the event of a write to a page at a revision.
func page(name string, revision int) Cause {
	of := func(title string) metav1.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name, "resourceVersion": title},
			"spec":     map[string]any{"title": title, "lines": []any{"a", title}, "same": true},
		}}
	}
	return Cause{
		Of: pages, Version: fmt.Sprint(revision), Kind: "Page", Key: name,
		Before: of(fmt.Sprint("secret-", revision-1)), After: of(fmt.Sprint("secret-", revision)),
	}
}

// writes has the run under way write a page, whose event comes.
func (k *key) writes(name string) {
	k.revision++
	k.trail.Wrote(pages, fmt.Sprint(k.revision))
	k.trail.Saw(page(name, k.revision))
}

// run runs the key for these operations, as soon as it may, and returns what it had to wait for.
func (k *key) run(ops operation.Operations, reconcile func()) (pause time.Duration) {
	begun := k.trail.Begin(time.Now(), ops)
	if begun.Pause > 0 {
		pause = begun.Pause
		time.Sleep(pause)
		if begun = k.trail.Begin(time.Now(), ops); begun.Pause > 0 {
			k.t.Errorf("after the pause of %v it has to wait %v more", pause, begun.Pause)
		}
	}
	if begun.Trip != nil {
		k.tripped = append(k.tripped, begun.Trip)
	}
	reconcile()
	k.trail.End(time.Now(), true, false, false)
	return pause
}

// inBubble tests with a key that has written one page already, twice.
func inBubble(t *testing.T, test func(t *testing.T, k *key)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &key{t: t, trail: &Trail{}}
		k.run(put, func() { k.writes("a") })
		k.run(secondary, func() { k.writes("a") })
		test(t, k)
	})
}

// loop runs the key n times, each for the event of what the run before wrote.
func (k *key) loop(n int) (pauses []time.Duration) {
	for range n {
		pauses = append(pauses, k.run(secondary, func() { k.writes("a") }))
	}
	return pauses
}

func TestTenRunsThatOnlyOwnWritesCausedAreALoop(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		if pauses := k.loop(Most - 1); slices.Max(pauses) > 0 || len(k.tripped) != 0 {
			t.Fatalf("after %d runs: tripped %d times, paused %v", Most-1, len(k.tripped), pauses)
		}
		if k.loop(1); len(k.tripped) != 1 {
			t.Fatalf("not noticed with run %d", Most)
		}
		want := []time.Duration{20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000}
		got := k.loop(len(want))
		for i := range want {
			if got[i] != want[i]*time.Millisecond {
				t.Errorf("the pauses are %v, want %v ms", got, want)
				break
			}
		}
		if len(k.tripped) != 1 {
			t.Errorf("told %d times of one loop", len(k.tripped))
		}
	})
}

func TestTheMessageNamesObjectAndPathsAndNoValues(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.loop(Most)
		message := k.tripped[0].Message()
		for _, want := range []string{`Page "a"`, "spec.title", "spec.lines[1]"} {
			if !strings.Contains(message, want) {
				t.Errorf("%q does not name %q", message, want)
			}
		}
		for _, not := range []string{"secret", "same", "resourceVersion"} {
			if strings.Contains(message, not) {
				t.Errorf("%q has %q", message, not)
			}
		}
	})
}

// TestWhatSomebodyElseDoesEndsTheLoop, and the delay with it.
func TestWhatSomebodyElseDoesEndsTheLoop(t *testing.T) {
	for name, somebody := range map[string]func(k *key) operation.Operations{
		"writes the secondary": func(k *key) operation.Operations {
			k.revision++
			k.trail.Saw(page("a", k.revision))
			return secondary
		},
		"writes its status": func(k *key) operation.Operations { k.trail.Saw(Cause{}); return secondary },
		"writes another bucket at a revision that the key wrote here": func(k *key) operation.Operations {
			k.trail.Saw(Cause{Of: "another", Version: fmt.Sprint(k.revision)})
			return secondary
		},
		"writes the primary":  func(*key) operation.Operations { return put },
		"deletes the primary": func(*key) operation.Operations { return operation.Of(operation.Delete) },
		"changes a tertiary": func(k *key) operation.Operations {
			k.trail.Saw(Cause{})
			return operation.Of(operation.Tertiary)
		},
		"calls a handler": func(k *key) operation.Operations {
			k.trail.Saw(Cause{})
			return secondary | operation.ByHand | operation.ByHandler
		},
		"asks for it by hand":    func(*key) operation.Operations { return secondary | operation.ByHand },
		"asks for it":            func(*key) operation.Operations { return operation.Of(operation.Manual) },
		"changes something else": func(*key) operation.Operations { return operation.Of(operation.External) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *key) {
				k.loop(Most + 5)
				if pause := k.run(somebody(k)|secondary, func() { k.writes("a") }); pause != 0 {
					t.Errorf("the run had to wait for %v", pause)
				}
				if pauses := k.loop(Most); slices.Max(pauses) != 0 {
					t.Errorf("the runs after it had to wait %v", pauses)
				}
				if k.loop(1); len(k.tripped) != 2 {
					t.Errorf("told of %d loops, want the second one too", len(k.tripped))
				}
			})
		})
	}
}

// TestRetriesAndResyncsNeitherCountNorEndIt.
func TestRetriesAndResyncsNeitherCountNorEndIt(t *testing.T) {
	for _, op := range []operation.Operation{operation.Retry, operation.Resync} {
		inBubble(t, func(t *testing.T, k *key) {
			k.loop(Most - 2)
			for range 5 {
				k.trail.causes = nil
				if pause := k.run(operation.Of(op), func() {}); pause != 0 {
					t.Errorf("a %v had to wait %v", op, pause)
				}
			}
			k.writes("a")
			if k.loop(1); len(k.tripped) != 0 {
				t.Errorf("%v counts", op)
			}
			if k.loop(1); len(k.tripped) != 1 {
				t.Errorf("%v ended the count", op)
			}
		})
	}
}

// TestAFailingReconcileThatWakesItselfIsALoop: what it was due for comes again, and is no news.
func TestAFailingReconcileThatWakesItselfIsALoop(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.trail.Begin(time.Now(), put|secondary) // a real change
		k.writes("a")
		k.trail.End(time.Now(), true, false, true)
		for range Most {
			begun := k.trail.Begin(time.Now(), put|secondary)
			if begun.Real {
				t.Fatal("its own operations, given back, count as somebody else's")
			}
			if begun.Trip != nil {
				k.tripped = append(k.tripped, begun.Trip)
			}
			k.writes("a")
			k.trail.End(time.Now(), true, false, true)
		}
		if len(k.tripped) != 1 {
			t.Errorf("noticed %d times, want once", len(k.tripped))
		}
	})
}

// TestAReconcileThatMakesOneObjectAfterAnotherIsNoLoop.
func TestAReconcileThatMakesOneObjectAfterAnotherIsNoLoop(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		for n := range 10 * Most {
			if pause := k.run(secondary, func() { k.writes(fmt.Sprint(n)) }); pause != 0 {
				t.Fatalf("object %d had to wait %v", n, pause)
			}
		}
		if len(k.tripped) != 0 {
			t.Error("it was taken for a loop")
		}
	})
}

func TestARequeueWithoutAPauseIsALoopAndOneWithAPauseIsNone(t *testing.T) {
	for short, want := range map[bool]int{true: 1, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			trail := &Trail{}
			trips := 0
			ops := put
			for range 2 * Most {
				begun := trail.Begin(time.Now(), ops)
				if begun.Pause > 0 {
					time.Sleep(begun.Pause)
					begun = trail.Begin(time.Now(), ops)
				}
				if begun.Trip != nil {
					trips++
					if !strings.Contains(begun.Trip.Message(), "RequeueAfter") {
						t.Errorf("%q does not name the reason", begun.Trip.Message())
					}
				}
				trail.End(time.Now(), false, short, false)
				ops = operation.Of(operation.Requeue)
			}
			if trips != want {
				t.Errorf("short %v: noticed %d times, want %d", short, trips, want)
			}
		})
	}
}

// TestTheEventMayComeBeforeTheAnswerAndLongAfterIt.
func TestTheEventMayComeBeforeTheAnswerAndLongAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		late := page("a", 0)
		for n := range Most + 1 {
			k.run(secondary, func() {
				k.revision++
				now := page("a", k.revision)
				if n%2 == 0 { // it is told with the next run
					k.trail.Wrote(pages, now.Version)
					if late.Version != "0" {
						k.trail.Saw(late)
					} else {
						k.trail.Saw(now)
					}
					late = now
					return
				}
				k.trail.Saw(now)
				k.trail.Wrote(pages, now.Version)
			})
		}
		if len(k.tripped) != 1 {
			t.Errorf("noticed %d times, want once", len(k.tripped))
		}
	})
}

func TestMemoryOfATrailIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		for range 3 {
			k.run(secondary, func() {
				for n := range 2 * mostOwn {
					k.writes(fmt.Sprint(n))
				}
			})
		}
		if len(k.trail.own) > mostOwn || len(k.trail.causes) > mostCauses || len(k.trail.before) > mostOwn {
			t.Errorf("%d writes, %d causes and %d objects are kept",
				len(k.trail.own), len(k.trail.causes), len(k.trail.before))
		}
		for range 20 {
			k.run(secondary, func() { k.writes("a") })
		}
		if len(k.trail.own) > 2*remembered {
			t.Errorf("%d writes are still remembered", len(k.trail.own))
		}
	})
}

func TestOnlyKeysThatWriteInEachRunAreSuspects(t *testing.T) {
	var s Suspects
	if s.Busy("a") {
		t.Error("one run that writes is suspicious")
	}
	s.Calm("a")
	if s.Busy("a") {
		t.Error("a calm run between two was forgotten")
	}
	for range 2 {
		if !s.Busy("a") {
			t.Error("a run that writes after another is not suspicious")
		}
	}
	s.Calm("a")
	if allocs := testing.AllocsPerRun(100, func() { s.Busy("a"); s.Calm("a") }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
