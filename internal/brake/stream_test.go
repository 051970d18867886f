package brake_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/record"
)

func (w *world) wantOtherStream() {
	w.t.Helper()
	state := w.wantHeld(1)
	if !strings.Contains(state.Reason, "the stream of the bucket is not the one that was known") {
		w.t.Errorf("reason %q", state.Reason)
	}
}

// TestInAnotherStreamOneMissingPrimaryIsHeld.
func TestInAnotherStreamOneMissingPrimaryIsHeld(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.recreate(1, 20)
		if !w.b.StreamChanged() {
			t.Error("the stream is taken for the known one")
		}
		w.settle()
		w.wantOtherStream()
		w.release()
		w.settle()
		w.wantTornDown(1)
		if w.b.StreamChanged() {
			t.Error("the stream is another one after the release")
		}
	})
}

func TestAStreamThatChangedWhileNobodyLedIsAnother(t *testing.T) {
	for how, change := range map[string]func(w *world){
		"recreated":                     func(w *world) { w.recreate(1, 20) },
		"recreated, and longer already": func(w *world) { w.recreate(1, 20); w.stream.Highest += 100 },
		"restored to an earlier state": func(w *world) {
			w.lose(name(19))
			w.stream.Highest--
		},
		"restored, and written past where it was": func(w *world) {
			was := w.docs[name(19)]
			w.lose(name(19))
			w.docs[name(0)] = was
			w.stream.Highest += 100
		},
		"kept as something that does not decode": func(w *world) {
			w.lose(name(19))
			w.write(record.KeyStream, "release please")
		},
		"far ahead as the stream was kept": func(w *world) {
			w.lose(name(19))
			w.write(record.KeyStream, `{"created":"first","highestSequence":1000}`)
		},
	} {
		t.Run(how, func(t *testing.T) {
			run(t, 20, func(t *testing.T, w *world) {
				w.restart(func() { change(w) })
				w.settle()
				w.wantOtherStream()
			})
		})
	}
}

func TestAStreamThatDidNotChangeWhileNobodyLedIsTheSame(t *testing.T) {
	for how, change := range map[string]func(w *world){
		"nothing happened":   func(*world) {},
		"documents were put": func(w *world) { w.put(20, 30) },
		// This process counts from 0.
		"the informer noticed changes before": func(w *world) { w.stream.Changes = 0 },
		// What is missing was deleted long ago, and its sequence is not taken.
		"the anchors are older than the stream": func(w *world) {
			w.anchors[name(5)] = brake.Anchor{Stream: "an older one", Document: 3, Observed: 1000}
		},
	} {
		t.Run(how, func(t *testing.T) {
			run(t, 20, func(t *testing.T, w *world) {
				w.stream.Changes = 3
				w.restart(func() {
					change(w)
					w.lose(name(0))
				})
				w.settle()
				w.wantTornDown(1)
			})
		})
	}
}

// TestTheFirstStreamIsKeptAtOnce, or a crash soon after the first start would forget it.
func TestTheFirstStreamIsKeptAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 20)
		w.begin()
		if text := w.reserved[record.KeyStream].text; text != `{"created":"first","highestSequence":21}` {
			t.Errorf("kept %s", text)
		}
		w.restart(func() { w.recreate(1, 20) })
		w.settle()
		w.wantOtherStream()
		w.halt()
	})
}

func TestAStreamThatIsNotKnownYetIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		w.stream = brake.Stream{}
		w.begin()
		w.sweep()
		time.Sleep(time.Hour)
		w.b.KeepProgress(quiet(t))
		if w.has(record.KeyStream) {
			t.Errorf("kept %s", w.reserved[record.KeyStream].text)
		}
		w.halt()
	})
}

// TestAStreamThatIsNotKnownAnyMoreIsNotKept, because what was known would be lost.
func TestAStreamThatIsNotKnownAnyMoreIsNotKept(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		before := w.reserved[record.KeyStream]
		w.change(func() { w.stream = brake.Stream{} })
		for range 3 {
			time.Sleep(time.Minute)
			synctest.Wait()
			w.b.KeepProgress(quiet(t))
		}
		if kept := w.reserved[record.KeyStream]; kept != before || !w.has(record.KeyStream) {
			t.Errorf("kept %+v, want still %+v", kept, before)
		}
	})
}

// TestANewLeaderWaitsForItsDocuments: the anchors that the leader before wrote may be ahead of its cache.
func TestANewLeaderWaitsForItsDocuments(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		ahead := w.stream
		w.restart(func() {
			w.stream.Highest -= 5
			w.await = func() { w.stream = ahead }
		})
		if w.b.StreamChanged() {
			t.Error("the stream is taken for another one")
		}
	})
}

func TestANewLeaderDoesNotWaitForeverForItsDocuments(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		start := time.Now()
		w.restart(func() { w.stream.Highest -= 5 })
		if took := time.Since(start); took != 3*time.Second || !w.b.StreamChanged() {
			t.Errorf("took %v; another stream: %v", took, w.b.StreamChanged())
		}
	})
}

func TestAtEachCheckpointIsKeptHowFarTheStreamHasCome(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		for n := range 3 {
			w.put(20+n, 21+n)
			highest := w.stream.Highest
			time.Sleep(59 * time.Second)
			synctest.Wait()
			if stream, _ := kept[brake.Stream](w, record.KeyStream); stream.Highest >= highest {
				t.Errorf("kept %+v before the checkpoint", stream)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if stream, _ := kept[brake.Stream](w, record.KeyStream); stream.Highest != highest {
				t.Errorf("kept %+v, want %d", stream, highest)
			}
		}
		w.put(23, 24)
		w.b.KeepProgress(quiet(t)) // at the end of a term
		if stream, _ := kept[brake.Stream](w, record.KeyStream); stream.Highest != w.stream.Highest {
			t.Errorf("kept %+v at the end, want %d", stream, w.stream.Highest)
		}
	})
}

// TestTheEndOfATermDoesNotWaitLongForNATS.
func TestTheEndOfATermDoesNotWaitLongForNATS(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.put(20, 21)
		w.change(func() { w.away = true })
		start := time.Now()
		w.b.KeepProgress(quiet(t))
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestAnotherStreamIsAdoptedAfterTwoCalmCheckpoints: that it is another one is known before what it deletes has reached
// the cache, so nothing seems to be missing at a checkpoint that falls between the two.
func TestAnotherStreamIsAdoptedAfterTwoCalmCheckpoints(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		checkpoint := func() {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		var before brake.Stream
		unadopted := func(when string) {
			t.Helper()
			if stream, _ := kept[brake.Stream](w, record.KeyStream); stream != before || !w.b.StreamChanged() {
				t.Errorf("%s: adopted; kept %+v", when, stream)
			}
		}
		checkpoint()
		before, _ = kept[brake.Stream](w, record.KeyStream)
		if before.Created != "first" || before.Highest == 0 {
			t.Fatalf("kept %+v, want how far it has come", before)
		}
		w.recreate(0, 20)
		checkpoint()
		unadopted("at the first checkpoint")
		w.b.KeepProgress(quiet(t))
		unadopted("at the end of a term")
		highest := w.stream.Highest
		w.change(func() { w.stream.Highest = 0 }) // on the way to a stream
		for range 3 {
			checkpoint()
			unadopted("while the cache changes")
		}
		w.change(func() { w.stream.Highest = highest })
		checkpoint()
		unadopted("at the first checkpoint after that")
		w.change(func() { w.stream.Changes++ })
		checkpoint()
		unadopted("at the first checkpoint of the next stream")
		checkpoint()
		if stream, _ := kept[brake.Stream](w, record.KeyStream); stream.Created != "first'" || w.b.StreamChanged() {
			t.Errorf("kept %+v after two calm checkpoints, want the other stream", stream)
		}
		w.lose(name(0))
		w.settle()
		w.wantTornDown(1)
	})
}

func TestAnotherStreamIsNotAdoptedWhileAnythingIsMissingOrHeld(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.recreate(0, 20)
		w.change(func() { delete(w.docs, name(0)) }) // nobody has told the brake
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if !w.b.StreamChanged() {
			t.Fatal("adopted while something is missing")
		}
		w.work(due{key: name(0)})
		w.settle()
		w.wantOtherStream()
		w.change(func() { delete(w.anchors, name(0)) }) // as by hand
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if !w.b.StreamChanged() {
			t.Error("adopted under the engaged brake")
		}
	})
}

// TestAChangeOfStreamIsOverOnlyWhenItIsKept, or a crash would take the adopted one for another.
func TestAChangeOfStreamIsOverOnlyWhenItIsKept(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.recreate(0, 20)
		w.change(func() { w.away = true })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if !w.b.StreamChanged() {
			t.Error("adopted although it could not be kept")
		}
		w.change(func() { w.away = false })
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.b.StreamChanged() {
			t.Error("not adopted once NATS is back")
		}
	})
}
