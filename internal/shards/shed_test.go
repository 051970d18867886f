package shards

import (
	"slices"
	"testing"
	"time"
)

func sheds(_ *node, c *Config) { c.Sheds = true }

// keeps is what the host was told to keep.
func (h *host) keeps() []Set {
	h.workMu.Lock()
	defer h.workMu.Unlock()
	return slices.Clone(h.kept)
}

// hasLoaded are the slots that the host has loaded.
func (h *host) hasLoaded() (slots []int) {
	h.workMu.Lock()
	defer h.workMu.Unlock()
	for slot := range h.loaded {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return slots
}

// slotsOf are the slots that a member owns.
func (n *node) slotsOf() (slots []int) {
	for slot := range few {
		if _, ok := n.Owns(slot); ok {
			slots = append(slots, slot)
		}
	}
	return slots
}

// TestAMemberForgetsWhatItHasNotNeededForAWhile and loads it again before it takes it: the host of the test complains of
// a slot that it has not loaded.
func TestAMemberForgetsWhatItHasNotNeededForAWhile(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		a := w.join("a", sheds)
		w.held(a)
		b := w.join("b", sheds)
		w.held(a, b)
		time.Sleep(keepPause - time.Second)
		if len(a.host.hasLoaded()) != few || len(b.host.keeps()) > 0 {
			t.Errorf("a second before, a has loaded %d, and b keeps %v", len(a.host.hasLoaded()), b.host.keeps())
		}
		time.Sleep(2 * time.Second)
		for _, n := range []*node{a, b} {
			if loaded := n.host.hasLoaded(); len(n.host.keeps()) == 0 || !slices.Equal(loaded, n.slotsOf()) {
				t.Errorf("%v has loaded %v, and owns %v", n, loaded, n.slotsOf())
			}
		}
		keeps := len(a.host.keeps())
		time.Sleep(time.Minute)
		if n := len(a.host.keeps()); n != keeps {
			t.Errorf("while nothing changed it was told %d times more", n-keeps)
		}
		b.leave()
		w.held(a)
		if loaded := a.host.hasLoaded(); len(loaded) != few {
			t.Errorf("alone it has loaded %v", loaded)
		}
	})
}

// TestAMemberThatForgetsNothingStaysReady for all that it ever loaded.
func TestAMemberThatForgetsNothingStaysReady(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		a := w.join("a")
		w.held(a)
		w.held(a, w.join("b"))
		time.Sleep(2 * keepPause)
		if len(a.host.keeps()) > 0 || len(a.host.hasLoaded()) != few {
			t.Errorf("it keeps %v, and has loaded %d", a.host.keeps(), len(a.host.hasLoaded()))
		}
	})
}
