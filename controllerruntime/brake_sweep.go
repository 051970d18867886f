package controllerruntime

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
)

// holdsSwept tells whether the sweep found secondaries of an owner without an anchor, and the brake holds them.
func (b *brake) holdsSwept(key string) bool {
	if !b.busy.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, held := b.swept[key]
	return held
}

// sweep is asked about everything that a sweep found, and returns the owners that may be cleaned up after. What it holds
// back replaces what it held back of the sweep before.
func (b *brake) sweep(ctx context.Context, found []orphaned) (free []string) {
	b.mu.Lock()
	reason := ""
	if !b.state.Engaged && len(found) > 0 {
		reason = b.sweepReasonLocked(found)
	}
	engaged := b.state.Engaged || reason != ""
	b.swept, b.sweptOnce = map[string]struct{}{}, true
	b.forgetSweptLocked(found)
	for _, o := range found {
		for owner := range o.owners {
			if _, ok := b.allowed[owner]; ok || !engaged {
				b.noteCleanedLocked(owner, o)
				free = append(free, owner)
			} else {
				b.swept[owner] = struct{}{}
				b.busy.Store(true)
			}
		}
	}
	b.poke()
	b.mu.Unlock()
	if reason != "" {
		b.engage(ctx, reason)
	}
	return free
}

// forgetSweptLocked ends the permission of owners that have nothing left to clean up after.
func (b *brake) forgetSweptLocked(found []orphaned) {
	if len(b.allowed) == 0 {
		return
	}
	left := map[string]struct{}{}
	for _, o := range found {
		for owner := range o.owners {
			left[owner] = struct{}{}
		}
	}
	for key := range b.allowed {
		if _, ok := left[key]; !ok && !record.IsAnchor(b.engine.anchors.Cached(key)) {
			delete(b.allowed, key)
		}
	}
}

// cleaned is what a sweep let go of an owner that does not exist.
type cleaned struct {
	at      time.Time
	objects map[string]int // by source
}

// noteCleanedLocked remembers an owner, once however many sweeps find what is left of it. One that a release let go does
// not count.
func (b *brake) noteCleanedLocked(owner string, o orphaned) {
	if _, released := b.allowed[owner]; released {
		return
	}
	if b.cleaned == nil {
		b.cleaned = map[string]cleaned{}
	}
	c, ok := b.cleaned[owner]
	if !ok {
		c = cleaned{at: time.Now(), objects: map[string]int{}}
		b.cleaned[owner] = c
	}
	c.objects[o.source] = max(c.objects[o.source], o.owners[owner])
}

// cleanedLocked counts the objects of a source that sweeps within the window let go, but for those that this one found.
func (b *brake) cleanedLocked(o orphaned) int {
	oldest, count := time.Now().Add(-b.engine.opts.brakeWindow), 0
	for owner, c := range b.cleaned {
		if c.at.Before(oldest) {
			delete(b.cleaned, owner)
			continue
		}
		count += max(0, c.objects[o.source]-o.owners[owner])
	}
	return count
}

func (b *brake) sweepReasonLocked(found []orphaned) string {
	for _, o := range found {
		count := o.count
		for owner, objects := range o.owners {
			if _, released := b.allowed[owner]; released {
				count -= objects
			}
		}
		if count > 0 && b.streamChangedLocked() {
			return fmt.Sprintf("the stream of the bucket is not the one that was known, and %d objects of %s would be swept", count, o.source)
		}
		before := b.cleanedLocked(o)
		if count > 0 && count+before >= brakeLeast && 2*(count+before) > o.known+before {
			return fmt.Sprintf("the sweep would delete %d of %d objects of %s, whose owners do not exist, within %v",
				count+before, o.known+before, o.source, b.engine.opts.brakeWindow)
		}
	}
	return ""
}
