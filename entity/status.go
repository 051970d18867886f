package entity

import (
	"bytes"
	"context"
	stdjson "encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// UpdateStatus writes obj's status to the record of its key, unless it is there already. If obj was read with Get or a
// lister, or is a copy of such a one, it conflicts only if the status was updated since; an obj made by hand,
// or of JSON, overwrites. obj gets the client's kind if it has none. IsNotFound if there is neither document nor
// record.
func (c *Client[T]) UpdateStatus(ctx context.Context, obj T) error {
	change, err := enginePort[T]{c}.StatusChange(obj)
	if err != nil {
		return err
	}
	key := change.key
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	rec := c.records.recentCopy(key)
	if rec != nil && !change.isFor(rec) {
		rec = nil // one of the two is behind; the leader says which
	}
	first := rec == nil && change.isFirst() && c.awaitsRecord(key)
	for {
		if rec == nil {
			if rec, err = c.recordForStatus(ctx, key, natsKey, first); err != nil {
				return err
			}
			first = false
		}
		changed, err := change.Apply(rec)
		if err != nil {
			return err
		}
		if !changed {
			break
		}
		if err = c.records.Put(ctx, key, rec); err == nil {
			break
		}
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			return err
		}
		rec = nil
	}
	markStatusRevision(obj, c.cfg.Kind, rec.StatusRevision)
	return nil
}

// recentCopy returns the full record as this process saw it last, if the cache has that revision; else nil.
func (r *Records) recentCopy(key string) *Record {
	cached := r.cached(key)
	if cached == nil {
		return nil
	}
	if rec, ok := r.recently().get(key); ok && rec.Revision == cached.Record.Revision {
		return rec
	}
	return nil
}

// awaitsRecord reports whether the cache has no record of a key. If the cache is behind, the write conflicts.
func (c *Client[T]) awaitsRecord(key string) bool {
	g := c.current.Load()
	return g != nil && g.running.Load() && g.hasSynced() && g.records.get(key) == nil
}

// recordForStatus reads the record live, unless first says that there is none. If there is a document and no record, it
// returns a new one that anchors nothing.
func (c *Client[T]) recordForStatus(ctx context.Context, key, natsKey string, first bool) (*Record, error) {
	if !first {
		rec, err := c.records.read(ctx, key, natsKey)
		if err != nil || rec != nil {
			return rec, err
		}
	}
	last, err := c.documents.last(ctx, natsKey)
	if err != nil {
		return nil, err
	}
	if last.live() == nil {
		return nil, newNotFound(c.cfg.Kind, c.cfg.Bucket, key)
	}
	return &Record{}, nil
}

// sameStatus compares two statuses as JSON values, because another program may have written the record.
func sameStatus(a, b stdjson.RawMessage) bool {
	if isEmptyStatus(a) || isEmptyStatus(b) {
		return isEmptyStatus(a) && isEmptyStatus(b)
	}
	return bytes.Equal(a, b) || sameJSON(a, b)
}

func isEmptyStatus(status stdjson.RawMessage) bool {
	return len(status) == 0 || bytes.Equal(status, []byte("null"))
}
