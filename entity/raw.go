package entity

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/kvstream"
)

// GetRaw reads the bytes that a key holds, whatever they are, live from the leader of the stream. It is for a key to
// which others may put anything, and of which the caller judges what it says, such as a lease. IsNotFound if there is
// none; revision is then that of its delete marker, or 0 if it has none. What a server wrote there as an answer is
// recognised by its text; of a forwarded message, which has its mark in the headers, another answer's text is returned.
func (c *Client[T]) GetRaw(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return nil, 0, err
	}
	return c.documents.getRaw(ctx, c.cfg.Kind, natsKey)
}

// PutRaw writes the bytes of a key if the key, or its delete marker, is at this revision; 0 means that there must be no
// document. It returns the new revision. IsConflict if the key is at another one. Nothing is checked of the bytes but
// their number: what is no document is invalid to all who read documents.
func (c *Client[T]) PutRaw(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return 0, err
	}
	w := write{key: natsKey, value: value, expected: revision}
	return c.documents.putRaw(ctx, c.cfg.Kind, w, c.cfg.MaxDocumentBytes)
}

// getRaw reads what a key holds. kind is what errors call it.
func (b *bucket) getRaw(ctx context.Context, kind, natsKey string) (value []byte, revision uint64, err error) {
	last, err := b.last(ctx, natsKey)
	if err != nil {
		return nil, 0, err
	}
	if last.live() == nil {
		return nil, last.revision(), newNotFound(kind, b.name, natsKey)
	}
	if kvstream.IsReply(last.Header, last.Value) {
		return []byte(kvstream.ReplyText), last.Revision, nil
	}
	return last.Value, last.Revision, nil
}

// putRaw writes a key if it is at a revision; 0 if it must hold nothing.
func (b *bucket) putRaw(ctx context.Context, kind string, w write, limit int) (uint64, error) {
	if len(w.value) > limit {
		return 0, newTooLarge(kind, b.name, w.key, len(w.value), limit, "the value")
	}
	put := b.put
	if w.expected == 0 {
		put = b.create
	}
	seq, err := put(ctx, w)
	return seq, b.rawConflict(kind, w.key, err)
}

func (b *bucket) rawConflict(kind, natsKey string, err error) error {
	if conflict, ok := errors.AsType[*casError](err); ok {
		return newConflict(kind, b.name, natsKey,
			fmt.Sprintf("it is at revision %d, not %d", conflict.actual.live().revision(), conflict.expected))
	}
	return err
}
