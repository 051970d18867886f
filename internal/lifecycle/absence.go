package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
)

// absence says that a primary has no document, while what it owned is deleted. A cascade may take long, and the
// document may be put back meanwhile: from then on nothing more may go.
type absence struct {
	teardown *Teardown
	key      string
	asked    time.Time           // the leader
	spared   bool                // something that it owned stays: external.ObserveOnly
	unproven map[string]struct{} // what stays because nothing proves whose it is, by source and key
	crossing map[string]struct{} // what stays because it is in another namespace, likewise
	held     error               // what is being deleted and does not go; nil if nothing is
	// stale are sources in which nothing is to be deleted: the last list is older than the teardown, and what it
	// shows may be somebody else's by now; or an operation goes on; or the source is outdated.
	stale []source.Owned
}

// AbsenceTrusted is how long the leader's answer is acted on.
const AbsenceTrusted = source.LeaderTrusted

// still asks the cache, and the leader if its last answer is old; ErrDocumentReturned if the document exists.
func (a *absence) still(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if a.teardown.Primaries.Exists(a.key) {
		return ErrDocumentReturned
	}
	now := time.Now()
	if now.Sub(a.asked) < AbsenceTrusted {
		return nil
	}
	if err := a.teardown.Confirm(ctx, a.key); err != nil {
		return err
	}
	a.asked = now
	return nil
}

// Confirm asks the leader whether the document is gone; ErrDocumentReturned if it exists.
func (t *Teardown) Confirm(ctx context.Context, key string) error {
	_, err := t.Marker(ctx, key)
	return err
}

// Marker returns what the leader has in the place of a document that is gone; ErrDocumentReturned if it exists.
func (t *Teardown) Marker(ctx context.Context, key string) (entity.Presence, error) {
	found, err := t.Primaries.Confirm(ctx, key)
	if err != nil {
		t.Counters.LeaderErrors()
		return found, fmt.Errorf("ask the leader whether %s %q is gone: %w", t.Kind, key, err)
	}
	if found.Exists {
		return found, ErrDocumentReturned
	}
	return found, nil
}
