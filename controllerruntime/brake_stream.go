package controllerruntime

import (
	"context"
	"time"
)

func (b *brake) knownStream(ctx context.Context) (streamIdentity, error) {
	var known streamIdentity
	found, err := b.engine.load(ctx, reservedStream, &known)
	if err != nil || found {
		return known, err
	}
	now := b.engine.primary.stream()
	return now, b.engine.replace(ctx, reservedStream, now)
}

func sameStream(known, now streamIdentity) streamIdentity {
	if known.Created == "" {
		return now // never seen before
	}
	known.Changes = now.Changes
	if known.Created != now.Created || now.Highest < known.Highest {
		known.Changes-- // never equal to what the informer counts from now on
	}
	return known
}

func (b *brake) streamChangedLocked() bool {
	now := b.engine.primary.stream()
	return now.Changes != b.known.Changes || now.Created != b.known.Created
}

func (b *brake) keepStream(ctx context.Context) {
	now := b.engine.primary.stream()
	b.mu.Lock()
	changed := b.streamChangedLocked()
	calm := len(b.suspects)+len(b.held)+len(b.swept)+len(b.allowed) == 0 && !b.state.Engaged
	kept := b.known
	b.mu.Unlock()
	if changed && (!calm || b.anythingMissing()) || !changed && now.Highest == kept.Highest {
		return
	}
	if err := b.engine.replace(ctx, reservedStream, now); err != nil {
		return // logged by nobody on purpose: the next checkpoint, or the records, tell the same
	}
	b.mu.Lock()
	b.known = now
	b.mu.Unlock()
}

func (b *brake) keepStreamAtEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	b.keepStream(ctx)
}

func (b *brake) anythingMissing() bool {
	for key := range b.engine.anchoredRecords() {
		if !b.engine.primary.exists(key) {
			return true
		}
	}
	return false
}
