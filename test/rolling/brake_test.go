package rolling

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// many is enough for a mass delete.
const many = 20

// sweeping makes resyncs so frequent that sweeps run within a test.
var sweeping = []string{"-resync", "300ms"}

func engaged(s state) bool { return s.Engaged }

// TestTheOtherCodeHoldsTheBrake that one has engaged, until it is released.
func TestTheOtherCodeHoldsTheBrake(t *testing.T) {
	t.Parallel()
	// Each of these makes a replica that starts engage the brake for so many sites.
	for name, vanish := range map[string]func(w *world, r *process) (held int){
		"all vanished without markers": func(w *world, r *process) int {
			w.made(0, many, `{"spec":{"title":"first"}}`)
			r.stop()
			w.emptied()
			return many
		},
		"the stream was restored from a backup": func(w *world, r *process) int {
			w.made(0, many-3, `{"spec":{"title":"first"}}`)
			backup, err := natstest.TakeSnapshot(w.t.Context(), w.js.Conn(), "KV_"+sites)
			must(w.t, err)
			w.made(many-3, many, `{"spec":{"title":"first"}}`)
			r.leads()
			r.stop()
			must(w.t, w.js.DeleteStream(w.t.Context(), "KV_"+sites))
			must(w.t, backup.Restore(w.t.Context(), w.js.Conn()))
			return 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(t *testing.T, first, second side) {
				w := newWorld(t)
				r := w.start(first)
				held := vanish(w, r)

				r = w.start(second, sweeping...)
				since := w.holds(r, held)
				r.kill()

				r = w.start(first, sweeping...)
				if again := w.holds(r, held); !again.Since.Equal(since.Since) || again.Reason != since.Reason {
					t.Errorf("the brake was engaged anew: %+v, it was %+v", again, since)
				}
				w.release(first)
				w.letGo(r, held)
			})
		})
	}
}

// TestTheOtherCodeFinishesWhatAReleaseLetGo: one replica is killed before it has torn down the released keys. The other
// tears them down without another release.
func TestTheOtherCodeFinishesWhatAReleaseLetGo(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		w := newWorld(t)
		r := w.start(first)
		w.made(0, many, `{"spec":{"title":"first"}}`)
		r.stop()
		w.emptied()

		r = w.start(first, "-refuse-deletes")
		natstest.Eventually(t, "the brake is engaged", func() bool { return r.state().Engaged })
		w.release(first)
		natstest.Eventually(t, "the brake is released, and the deletes are tried", func() bool {
			return !r.state().Engaged && r.state().Released &&
				r.endedOf(siteName(0)) > 0 && !w.exists(status, releaseKey)
		})
		r.kill()

		r = w.start(second)
		w.letGo(r, many)
		if r.ever(engaged) {
			t.Error("the brake engaged again after the release")
		}
	})
}

// TestTheOtherCodeTakesAReleaseThatCameWhileNobodyRan, for the keys that the replica before held. The old code keeps no
// id of the engagement that a request could name, so the new one ignores the request, and holds until one names its
// own.
func TestTheOtherCodeTakesAReleaseThatCameWhileNobodyRan(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		w := newWorld(t)
		r := w.start(first)
		w.made(0, many, `{"spec":{"title":"first"}}`)
		r.stop()
		w.emptied()

		r = w.start(first)
		w.holds(r, many)
		r.kill()
		w.release(first)

		r = w.start(second)
		if first == oldCode {
			w.holds(r, many)
			natstest.Eventually(t, "the request is removed", func() bool { return !w.exists(status, releaseKey) })
			w.release(second)
		}
		w.letGo(r, many)
	})
}

// release puts what an operator puts who reads what a side keeps of the brake. For the old code that is anything.
func (w *world) release(s side) {
	w.t.Helper()
	if s == oldCode {
		w.put(status, releaseKey, "now")
		return
	}
	var kept struct {
		Engagement          string
		Held, Swept, Pruned int
	}
	natstest.Eventually(w.t, "the engagement has an id, and holds something", func() bool {
		value, revision := w.get(status, brakeKey)
		return revision > 0 && json.Unmarshal(value, &kept) == nil && kept.Engagement != "" && kept.Held > 0
	})
	w.put(status, releaseKey, fmt.Sprintf("%s %d", kept.Engagement, kept.Held+kept.Swept+kept.Pruned))
}

// emptied removes all sites by a purge, of which no watcher gets a message.
func (w *world) emptied() {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+sites)
	must(w.t, err)
	must(w.t, stream.Purge(w.t.Context(), jetstream.WithPurgeSubject("$KV."+sites+".>")))
}

// holds waits for the engaged brake, and checks that it holds all sites while time goes by.
func (w *world) holds(r *process, held int) state {
	w.t.Helper()
	natstest.Eventually(w.t, "the brake of the "+string(r.side)+" replica is engaged and holds all", func() bool {
		s := r.state()
		return s.Leading && s.Idle && s.Engaged && s.Held == held && w.exists(status, brakeKey)
	})
	state := r.state()
	if slices.Contains(r.cmd.Args, sweeping[0]) {
		natstest.Eventually(w.t, "sweeps go by", func() bool { return r.state().Sweeps > state.Sweeps+2 })
	}
	if n := len(w.keys(pages, "")); n != many {
		w.t.Errorf("%d pages are left of %d under the brake of the %s replica", n, many, r.side)
	}
	if n := w.records(); n != many {
		w.t.Errorf("%d records are left of %d under the brake of the %s replica", n, many, r.side)
	}
	if !r.state().Engaged {
		w.t.Errorf("the %s replica let the brake go by itself: %+v", r.side, r.state())
	}
	return state
}

// letGo waits until exactly the held sites have gone.
func (w *world) letGo(r *process, held int) {
	w.t.Helper()
	natstest.Eventually(w.t, "what was held is torn down by the "+string(r.side)+" replica", func() bool {
		return w.records() == many-held && len(w.keys(pages, "")) == many-held
	})
	natstest.Eventually(w.t, "the brake is off, and nothing of it is left", func() bool {
		s := r.state()
		return !s.Engaged && !s.Released && !w.exists(status, brakeKey) && !w.exists(status, releaseKey)
	})
	for i := range many - held {
		if !w.exists(sites, siteName(i)) || !w.exists(status, siteName(i)) {
			w.t.Errorf("%s is gone, which had not vanished", siteName(i))
		}
	}
}
