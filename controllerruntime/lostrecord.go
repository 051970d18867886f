package controllerruntime

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/entity"
)

// lostRecords are anchors that somebody deleted by hand, until they are written again. A key that is reconciled would get
// its anchor anyway; one that rests (suspended, invalid, parked) would not, and its delete would be lost.
type lostRecords struct {
	size  atomic.Int64
	mu    sync.Mutex
	byKey map[string]*entity.Record
}

func (l *lostRecords) add(key string, record *entity.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = map[string]*entity.Record{}
	}
	l.byKey[key] = record
	l.size.Store(int64(len(l.byKey)))
}

// take returns a record that was lost, once; nil if it was not.
func (l *lostRecords) take(key string) *entity.Record {
	if l.size.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	record := l.byKey[key]
	delete(l.byKey, key)
	l.size.Store(int64(len(l.byKey)))
	return record
}

// restore writes a lost anchor again, with the document as it is now where that is known.
func (a *anchors) restore(ctx context.Context, key string, v view) error {
	lost := a.losses.take(key)
	if lost == nil || a.cached(key) != nil {
		return nil
	}
	record := a.next(lost)
	record.Revision = 0
	if v.object != nil {
		var err error
		if record, err = a.anchorFor(record, v, a.engine.primary.streamID()); err != nil {
			return err
		}
	}
	err := a.put(ctx, key, record)
	if err != nil {
		a.losses.add(key, lost)
	}
	return err
}
