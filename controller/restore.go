package controller

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/restore"
)

// Vanished is a primary whose document is gone although no delete of it was seen, and whose delete the brake holds.
// It has nothing of the document. Its fields:
//
//	Key      string
//	Revision uint64    // of the last document that the record has; the one that vanished may have been younger
//	Since    time.Time // when the brake engaged that holds the delete
//	// Why the document cannot be put back; "" if it can.
//	NotRestorable string
type Vanished = restore.Vanished

// ListVanished lists the primaries whose documents vanished, and whose deletes the brake holds, in the order of keys.
// Those that [Controller.RestoreVanished] cannot put back say why in NotRestorable. Only the replica that leads knows.
func (c *Controller[T]) ListVanished(ctx context.Context) ([]Vanished, error) {
	return c.engine.Restorer(c.client.EnginePort().PrepareRestore).List(ctx)
}

// RestoreVanished puts the documents back of all that ListVanished lists as restorable, from the last documents in
// their records. engagement is BrakeState.Engagement, count how many they are: if either is another one by now, the
// error names what it is, and nothing is put back. A document that is there by now stays as it is, what somebody
// deleted meanwhile stays deleted, and what has a TTL gets what is left of it. The error names the keys that were not
// restored, and why; the others are. When all are back the brake goes off by itself.
func (c *Controller[T]) RestoreVanished(ctx context.Context, engagement string, count int) (restored int, err error) {
	return c.engine.Restorer(c.client.EnginePort().PrepareRestore).Restore(ctx, engagement, count)
}
