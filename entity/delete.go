package entity

import (
	"context"
	"errors"
	"fmt"
)

// DeleteOption changes how Delete works.
type DeleteOption func(*deleteOptions)

type deleteOptions struct {
	conditional bool
	revision    uint64
	purge       bool
}

// IfRevision makes Delete fail with IsConflict if the document is at another revision.
func IfRevision(revision uint64) DeleteOption {
	return func(o *deleteOptions) { o.conditional, o.revision = true, revision }
}

// Purge makes Delete put a purge marker instead of a delete marker. Controllers see OperationPurge. In a bucket with
// history that allows rollups it removes all older revisions of the key.
func Purge() DeleteOption {
	return func(o *deleteOptions) { o.purge = true }
}

// Delete puts a marker that expires after Config.TombstoneTTL. IsNotFound if there is no document. The record stays,
// because it belongs to the controller.
func (c *Client[T]) Delete(ctx context.Context, key string, opts ...DeleteOption) error {
	var o deleteOptions
	for _, opt := range opts {
		opt(&o)
	}
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return err
	}
	w := write{key: natsKey, op: operationDelete}
	if o.purge {
		w.op = operationPurge
	}
	if o.conditional {
		w.expected = o.revision
		return c.deleteIf(ctx, key, w)
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	before := c.moment()
	last, err := c.documents.last(ctx, natsKey)
	for err == nil {
		if last.live() == nil {
			return newNotFound(c.cfg.Kind, c.cfg.Bucket, key)
		}
		w.expected = last.Revision
		var marker uint64
		if marker, err = c.documents.put(ctx, w); err == nil {
			c.forget(ctx, key, sequence{marker, before})
			return nil
		}
		conflict, ok := errors.AsType[*casError](err)
		if !ok || ctx.Err() != nil {
			break
		}
		last, err = conflict.actual, nil // another write came since: delete that revision
	}
	return err
}

func (c *Client[T]) deleteIf(ctx context.Context, key string, w write) error {
	if w.expected == 0 {
		return newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "revision", "IfRevision(0) names no document")
	}
	before := c.moment()
	marker, err := c.documents.put(ctx, w)
	if conflict, ok := errors.AsType[*casError](err); ok {
		if conflict.actual.live() == nil {
			return newNotFound(c.cfg.Kind, c.cfg.Bucket, key)
		}
		return newConflict(c.cfg.Kind, c.cfg.Bucket, key,
			fmt.Sprintf("it is at revision %d, not %d", conflict.actual.Revision, w.expected))
	}
	if err != nil {
		return err
	}
	c.forget(ctx, key, sequence{marker, before})
	return nil
}

// forget shows an own delete in the listers of the clients that share the cache.
func (c *Client[T]) forget(ctx context.Context, key string, marker sequence) {
	if d := c.runningDocuments(); d != nil && !marker.isPlanned() {
		d.writes.delete(ctx, key, marker)
	}
}
