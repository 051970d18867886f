package entity

import (
	"fmt"

	"github.com/nagi-runtime/nagi/internal/fence"
)

// FenceBy has writes of records, and of reserved keys, carry the fence that of returns for their key. Nil ends it.
//
// For the server the fence takes the place of the revision at which the key must be. So a record carries it as long as
// it is at a revision before that of the fence, written by whoever had the key then: one of those who is late is
// refused. Later revisions are those of this writer, and it states them, as ever, so what another wrote to the record
// by hand is a conflict. What somebody wrote by hand before the first write with the fence is one if the cache shows
// it, for then the write states the revision, too; and else is written over.
func (r *Records) FenceBy(of fence.Of) {
	if of == nil {
		r.fence.Store(nil)
		return
	}
	r.fence.Store(&of)
}

// FenceRefused is how many writes were refused because their fence had moved.
func (r *Records) FenceRefused() uint64 { return r.bucket.refusedByFence.Load() }

// fenceOf is the fence that a write of a key needs now.
func (r *Records) fenceOf(natsKey string) (fence.Fence, error) {
	of := r.fence.Load()
	if of == nil {
		return fence.Fence{}, nil
	}
	f, err := (*of)(natsKey)
	if err != nil {
		r.bucket.refusedByFence.Add(1)
		return f, fmt.Errorf("writing key %q of bucket %q: %w", natsKey, r.bucket.name, err)
	}
	return f, nil
}

// fenceOfRecord is fenceOf for a record that is to be at a revision; 0 if there must be none.
func (r *Records) fenceOfRecord(key, natsKey string, revision uint64) (fence.Fence, error) {
	f, err := r.fenceOf(natsKey)
	if err != nil || f.Key == "" || revision > f.Revision {
		return fence.Fence{}, err
	}
	if r.shownRevision(key, natsKey) > revision {
		return fence.Fence{}, nil // the server says whether it is: the cache may show a stream that has gone back
	}
	return f, nil
}

// shownRevision is the revision of a record that the cache shows, also of what is none, or that this process has
// written; 0 if there is none.
func (r *Records) shownRevision(key, natsKey string) uint64 {
	c := r.current()
	if !c.isRunning() {
		return 0
	}
	shown := c.store.InvalidRevision(natsKey)
	if o := c.get(key); o != nil {
		shown = max(shown, o.Record.Revision)
	}
	return shown
}
