package controllerruntime

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
)

// TestFewInferredDeletesAreJudgedWithoutTheRecords: to count a million records for each of them would hold up the workers.
func TestFewInferredDeletesAreJudgedWithoutTheRecords(t *testing.T) {
	t.Parallel()
	c, err := New("sites", newWorld(t).sites(), (&calls{}).reconciler(nil))
	must(t, err)
	b := c.engine.brake
	suspect := func(n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for i := range n {
			b.suspectLocked(siteName(i))
		}
	}
	suspect(brakeLeast - 1)
	if going, several := b.goingNow(); len(going) != brakeLeast-1 || several {
		t.Errorf("%d going, several: %v; want %d, few", len(going), several, brakeLeast-1)
	}
	suspect(brakeLeast)
	if _, several := b.goingNow(); !several {
		t.Errorf("%d at once are few", brakeLeast)
	}
	b.suspects = map[string]struct{}{}
	suspect(1)
	for range brakeLeast - 1 {
		b.recent = append(b.recent, time.Now())
	}
	if _, several := b.goingNow(); !several {
		t.Errorf("%d within the window are few", brakeLeast)
	}
}

// TestTheSweepsOfAWindowCountTogether: nine orphans of nineteen are few, and nine more are too many.
func TestTheSweepsOfAWindowCountTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sites, pages := w.sites(), w.pages()
	ctx := t.Context()
	c, err := New("sites", sites, (&calls{}).reconciler(nil), Owns(pages), WithResyncInterval(100*time.Millisecond), WithWorkers(4))
	must(t, err)
	w.run(c)
	must(t, sites.Create(ctx, newSite("home", "one")))
	eventually(t, "it is reconciled", func() bool { return c.Stats().Reconciles > 0 })
	add := func(owner string, n int) {
		for i := range n {
			p := newSite(fmt.Sprintf("%s-%d", owner, i), "")
			c.SetOwner(p, owner)
			must(t, pages.Create(ctx, p))
		}
	}
	add("home", 10)
	add("first", brakeLeast-1)
	eventually(t, "the first are swept", func() bool { return count(t, pages) == 10 })
	if c.Stats().BrakeEngaged != 0 {
		t.Fatalf("the brake engaged: %+v", c.Stats().Brake)
	}
	sweeps := c.Stats().Sweeps
	eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps > sweeps+2 })
	add("second", brakeLeast-1)
	eventually(t, "the brake holds the second", func() bool { return c.Stats().Brake.Swept == 1 })
	// Some of the second may have been swept while they were made, before they were too many.
	if n := count(t, pages); n <= 10 {
		t.Errorf("%d pages are left", n)
	}
	must(t, c.ReleaseBrake(ctx))
	eventually(t, "they are swept after the release", func() bool { return count(t, pages) == 10 })
}

// TestAReleaseWhileItIsDownCoversTheSweep: what the sweep held is known again only after the first sweep.
func TestAReleaseWhileItIsDownCoversTheSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.installed()
	w.orphanedPages(w.client("Page", "pages", onDisk), many)
	m := w.massed(WithResyncInterval(30 * time.Millisecond))
	m.holds(many)
	m = m.restarted(func() {
		_, err := m.kv("sites-status").Put(t.Context(), record.KeyRelease, nil)
		must(t, err)
	}, WithResyncInterval(30*time.Millisecond))
	m.tornDown()
	if n := m.c.Stats().BrakeEngaged; n != 0 {
		t.Errorf("the brake engaged %d times after the release", n)
	}
}

// TestWhatIsKeptOfTheBrakeIsItsNewestState: a release that comes while the brake engages is not overwritten.
func TestWhatIsKeptOfTheBrakeIsItsNewestState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c *Controller[*site]
	var released atomic.Bool
	c, err := New("sites", w.sites(), (&calls{}).reconciler(nil), WithResyncInterval(0), WithOnBrake(func(state BrakeState) {
		if state.Engaged && released.CompareAndSwap(false, true) {
			c.engine.brake.letGo(t.Context())
		}
	}))
	must(t, err)
	w.run(c)
	eventually(t, "it has swept", func() bool { return c.Stats().Sweeps > 0 })
	c.engine.brake.engage(t.Context(), "for this test")
	entry, err := w.kv("sites-status").Get(t.Context(), record.KeyBrake)
	if err != nil {
		return // released, and cleared
	}
	var kept BrakeState
	must(t, json.Unmarshal(entry.Value(), &kept))
	if kept.Engaged {
		t.Errorf("kept %+v after the release", kept)
	}
}
