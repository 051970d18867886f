package natsinformer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/tools/cache"
)

// startProgress makes a progress over a store whose resourceVersion the test moves with bookmarks, as client-go does.
func startProgress() (*progress, cache.Indexer) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	return &progress{store: store, wakeup: make(chan struct{})}, store
}

// meddled is a store in which something happens just before or after its resourceVersion is read.
type meddled struct {
	cache.Indexer
	before, after func()
}

func (m *meddled) LastStoreSyncResourceVersion() string {
	once := func(happens *func()) {
		if f := *happens; f != nil {
			*happens = nil
			f()
		}
	}
	once(&m.before)
	defer once(&m.after)
	return m.Indexer.LastStoreSyncResourceVersion()
}

// A caller of cursor runs beside the informer, and may be stopped at any place.
func TestNothingIsClaimedThatIsHeldWhileTheCursorIsRead(t *testing.T) {
	for name, hold := range map[string]func(*progress){
		"a span":   func(p *progress) { p.hold(10) },
		"a relist": func(p *progress) { p.freeze(10) },
	} {
		meddle := func() *progress {
			p, store := startProgress()
			store.Bookmark("10")
			p.store = &meddled{Indexer: store, before: func() { hold(p); store.Bookmark("15") }}
			return p
		}
		if c := meddle().cursor(); c != 10 {
			t.Errorf("%s: the cursor is %d, and beyond 10 is held", name, c)
		}
		if p := meddle(); p.has(11) && p.frozen != nil {
			t.Errorf("%s: it has 11, and what is beyond 10 is of another stream", name)
		}
	}
}

func TestASpanIsHeldThoughTheCursorIsReadWhileTheStreamBecomesAnother(t *testing.T) {
	p, store := startProgress()
	store.Bookmark("50")
	p.store = &meddled{Indexer: store, after: func() {
		p.freeze(0)
		store.Bookmark("2") // of the other stream
		p.thaw()
		p.hold(2)
		p.release(5)
	}}
	p.cursor()
	store.Bookmark("4")
	if c := p.cursor(); c != 2 {
		t.Errorf("it is %d, and a span from 2 to 5 is held", c)
	}
}

func TestCursorStandsStillWhileARelistIsApplied(t *testing.T) {
	p, store := startProgress()
	store.Bookmark("10")
	p.freeze(10)
	store.Bookmark("50") // of an inferred delete, which comes first
	if c := p.cursor(); c != 10 {
		t.Errorf("frozen at 10, it is %d", c)
	}
	store.Bookmark("00050")
	if !p.applied("00050") || p.applied("050") {
		t.Error("the bookmark of the relist was not told from others")
	}
	p.thaw()
	if c := p.cursor(); c != 50 {
		t.Errorf("thawed, it is %d", c)
	}
}

func TestCursorStandsBeforeSpansUntilTheStoreHasReachedTheirEnds(t *testing.T) {
	p, store := startProgress()
	at := func(version string, want uint64) {
		t.Helper()
		store.Bookmark(version)
		if c := p.cursor(); c != want {
			t.Errorf("with the store at %s it is %d, not %d", version, c, want)
		}
	}
	at("10", 10)
	p.hold(12)
	p.hold(15) // within the same span
	at("11", 11)
	at("18", 12)
	p.release(20)
	p.hold(25) // the next one, while the store is still behind
	p.release(30)
	at("19", 12)
	at("20", 20)
	at("27", 25)
	at("30", 30)
	at("31", 31)
}

func TestGapsCostNothingWhenNobodyAsksForTheCursor(t *testing.T) {
	p, store := startProgress()
	for i := range uint64(10_000) {
		p.hold(3 * i)
		p.release(3*i + 2)
		store.Bookmark(formatVersion(3*i + 2))
	}
	if n := len(p.spans); n > 1 {
		t.Errorf("%d spans are kept", n)
	}
}

func TestWaitCursorEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, store := startProgress()
		ctx, cancel := context.WithCancel(t.Context())
		failed, reached := make(chan error, 1), make(chan error, 1)
		go func() { failed <- p.wait(ctx, 7) }()
		go func() { reached <- p.wait(t.Context(), 5) }()
		synctest.Wait()
		store.Bookmark("5")
		p.advance(5)
		if err := <-reached; err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("after the context ended: %v", err)
		}
	})
}
