package controllerruntime

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// pretended is a primary that tells of another stream than it has.
type pretended struct {
	primary
	as      atomic.Pointer[func(source.Stream) source.Stream]
	onAwait func()
}

func (p *pretended) Stream() source.Stream {
	now := p.primary.Stream()
	if as := p.as.Load(); as != nil {
		now = (*as)(now)
	}
	return now
}

func (p *pretended) Await(ctx context.Context, sequence uint64) error {
	if p.onAwait != nil {
		p.onAwait()
	}
	return p.primary.Await(ctx, sequence)
}

// pretending starts a controller with some sites over such a primary.
func (w *world) pretending() (*Controller[*site], *pretended) {
	w.t.Helper()
	sites := w.sites()
	c, err := New("sites", sites, (&calls{}).reconciler(nil), WithResyncInterval(0))
	must(w.t, err)
	p := &pretended{primary: c.engine.primary}
	c.engine.primary = p
	w.run(c)
	w.make(sites, 3)
	w.settled(c, sites, 3)
	return c, p
}

func (w *world) keptStream() streamIdentity {
	w.t.Helper()
	entry, err := w.kv("sites-status").Get(w.t.Context(), record.KeyStream)
	must(w.t, err)
	var kept streamIdentity
	must(w.t, json.Unmarshal(entry.Value(), &kept))
	return kept
}

// TestAnotherStreamIsNotAdoptedBeforeItsDeletesAreKnown: that the stream is another one is known before the cache is. So
// nothing seems to be missing at a checkpoint that falls between the two.
func TestAnotherStreamIsNotAdoptedBeforeItsDeletesAreKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.pretending()
	b, ctx := c.engine.brake, t.Context()
	b.keepStream(ctx)
	before := w.keptStream()
	if before.Highest == 0 {
		t.Fatalf("kept %+v, want how far it has come", before)
	}
	another := func(now source.Stream) source.Stream {
		now.Created, now.Changes = "another", now.Changes+1
		return now
	}
	frozen := func(now source.Stream) source.Stream {
		now = another(now)
		now.Highest = 0
		return now
	}
	unadopted := func(when string) {
		t.Helper()
		b.mu.Lock()
		changed := b.streamChangedLocked()
		b.mu.Unlock()
		if kept := w.keptStream(); !changed || kept != before {
			t.Errorf("%s: the other stream was adopted; kept %+v", when, kept)
		}
	}
	p.as.Store(&another)
	b.keepStream(ctx)
	unadopted("at the first checkpoint")
	b.keepStreamAtEnd(ctx)
	unadopted("at the end")
	p.as.Store(&frozen)
	for range 3 {
		b.keepStream(ctx)
		unadopted("while the cache changes")
	}
	p.as.Store(&another)
	b.keepStream(ctx)
	unadopted("at the first checkpoint after that")
	b.keepStream(ctx)
	if kept := w.keptStream(); kept.Created != "another" {
		t.Errorf("kept %+v after two calm checkpoints, want the other stream", kept)
	}
}

// TestAStreamThatIsNotKnownIsNotKept, because what was known would be lost.
func TestAStreamThatIsNotKnownIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.pretending()
	b, ctx := c.engine.brake, t.Context()
	b.keepStream(ctx)
	before := w.keptStream()
	unknown := func(source.Stream) source.Stream { return source.Stream{} }
	p.as.Store(&unknown)
	for range 3 {
		b.keepStream(ctx)
		b.keepStreamAtEnd(ctx)
	}
	if kept := w.keptStream(); kept != before {
		t.Errorf("kept %+v, want still %+v", kept, before)
	}
}

// TestANewLeaderWaitsForItsDocuments: the records that the leader before wrote may be ahead of our cache of documents,
// which does not make the stream another one.
func TestANewLeaderWaitsForItsDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.pretending()
	b, ctx := c.engine.brake, t.Context()
	behind := func(now source.Stream) source.Stream {
		now.Highest = 1
		return now
	}
	p.as.Store(&behind)
	p.onAwait = func() { p.as.Store(nil) }
	must(t, b.start(ctx))
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.as.Load() != nil || b.streamChangedLocked() {
		t.Errorf("the stream is taken for another one: known %+v, now %+v", b.known, p.primary.Stream())
	}
}
