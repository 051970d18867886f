package controllerruntime

import (
	"context"
	"github.com/nagi-runtime/nagi/entity"
)

// lostRecords are anchors that somebody deleted by hand, until they are written again. A key that is reconciled would get
// its anchor anyway; one that rests (suspended, invalid, parked) would not, and its delete would be lost.
type lostRecords = keyed[*entity.Record]

// restore writes a lost anchor again, with the document as it is now where that is known.
func (a *anchors) restore(ctx context.Context, key string, v view) error {
	lost, ok := a.losses.take(key)
	if !ok || a.cached(key) != nil {
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
		a.losses.put(key, lost)
	}
	return err
}
