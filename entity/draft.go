package entity

import (
	"context"
	"reflect"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
)

// draft is a document about to be written.
type draft[T IEntity] struct {
	key, natsKey string
	data         []byte
	sent         T // the copy that was encoded
	lasts        lifetime
	expires      int64 // the same, as an oddity has it
	before       moment
}

func (c *Client[T]) prepare(obj T) (draft[T], error) {
	var d draft[T]
	if reflect.ValueOf(obj).IsNil() {
		return d, newInvalid(c.cfg.Kind, c.cfg.Bucket, "", "object", "it is nil")
	}
	d.before = c.moment()
	var err error
	if d.key, err = c.keys.of(obj); err != nil {
		return d, err
	}
	if d.natsKey, err = c.keys.toNATS(d.key); err != nil {
		return d, err
	}
	if d.data, d.sent, err = c.codec.encode(obj, d.key); err != nil {
		return d, err
	}
	if err := c.checkType(d.key, d.sent); err != nil {
		return d, err
	}
	return d, c.checkSize(d.key, d.data)
}

func (c *Client[T]) checkSize(key string, document []byte) error {
	if len(document) > c.cfg.MaxDocumentBytes {
		return newTooLarge(c.cfg.Kind, c.cfg.Bucket, key, len(document), c.cfg.MaxDocumentBytes, "the document")
	}
	return nil
}

// wrote sets obj's revision, and adds the write to the lister and to the context's log.
func (c *Client[T]) wrote(ctx context.Context, obj T, d draft[T], revision uint64) {
	c.noteOddity(d.natsKey, revision, c.codec.look(d.key, d.data, d.sent).expiring(d.expires), false)
	setRevision(obj, revision)
	showExpiry(obj, d.expires)
	showExpiry(d.sent, d.expires)
	c.codec.stamp(d.sent, obj.GetNamespace(), obj.GetName(), revision)
	c.remember(ctx, d.key, d.sent, sequence{revision, d.before})
}

// remember shows an own write in the listers of the clients that share the cache, and to what observes ctx. The caller
// must not change sent any more.
func (c *Client[T]) remember(ctx context.Context, key string, sent T, at sequence) {
	if at.isPlanned() {
		return
	}
	ownwrites.Tell(ctx, c.cfg.Bucket, sent)
	if d := c.runningDocuments(); d != nil {
		d.wrote(ctx, key, at, sent)
	}
}
