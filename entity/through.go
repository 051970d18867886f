package entity

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/mergediff"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// complete adds to the draft of an update what a transform left out of the object that obj is, or is a copy of. It asks
// the leader for the document, and finds out what the transform made of it, and what was changed since. An object
// without a mark may have been read whole or through the transform: it is refused unless both give the same document. A
// document that is written without a transform pays nothing.
func (c *Client[T]) complete(ctx context.Context, obj T, d *draft[T], expected uint64) error {
	t, read := c.shared.transform.Load(), markOf(obj).read
	switch {
	case read == readWhole || t == nil && read != readTransformed:
		return nil
	case t == nil:
		return newInvalid(c.cfg.Kind, c.cfg.Bucket, d.key, wholeDocument, "it came through the transform of another "+
			"client's informer (SetTransform, or Config.OnlyMetadata), so it may lack members: write it with that "+
			"client, or write what Get has read")
	}
	last, err := c.stillAt(ctx, d.key, d.natsKey, expected)
	if err != nil {
		return err
	}
	if kvstream.IsReply(last.Header, last.Value) {
		return nil // no object was made of it
	}
	full, view, err := c.seenThrough(t, d, last)
	if err != nil {
		return err
	}
	changed, err := parseObject(d.data)
	if err != nil {
		return err
	}
	merged, err := mergediff.ThroughView(full, view, changed)
	both, ok := errors.AsType[*mergediff.BothChanged](err)
	switch {
	case read != readTransformed && (ok || !reflect.DeepEqual(merged, changed)):
		return newInvalid(c.cfg.Kind, c.cfg.Bucket, d.key, wholeDocument, fmt.Sprintf("it does not tell whether it "+
			"came through %s, because its kind was set or it was made of JSON, and it lacks or changes what that "+
			"does: update what Get has returned, without setting its kind, or use Patch", t.call.Name()))
	case ok:
		return c.refuseBoth(t, d.key, both)
	case read != readTransformed:
		return nil
	}
	return c.redraft(d, merged)
}

// stillAt reads what a write expects to find. Another revision is a conflict.
func (c *Client[T]) stillAt(ctx context.Context, key, natsKey string, expected uint64) (*stored, error) {
	last, err := c.documents.last(ctx, natsKey)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the document must be read, to keep what the transform of the cache (SetTransform, or "+
			"Config.OnlyMetadata) left out: %w", err)
	case last != nil && last.Revision < expected: // it is deposed, or the stream was restored
		return nil, newUnavailable(c.cfg.Kind, key, "the leader of bucket %q has revision %d of %s %s, which was at "+
			"%d before; read it again", c.cfg.Bucket, last.Revision, c.cfg.Kind, printable.Quote(key), expected)
	case last.live() == nil:
		return nil, newNotFound(c.cfg.Kind, c.cfg.Bucket, key)
	case last.Revision != expected:
		return nil, newConflict(c.cfg.Kind, c.cfg.Bucket, key,
			fmt.Sprintf("it is at revision %d, not %d", last.Revision, expected))
	}
	return last, nil
}

// seenThrough returns a document as T encodes it, and as T encodes what the transform makes of it.
func (c *Client[T]) seenThrough(t *transformer[T], d *draft[T], last *stored) (full, view map[string]any, err error) {
	whole, err := c.codec.decode(d.natsKey, last.Revision, last.Value)
	if err != nil {
		return nil, nil, err
	}
	if full, err = c.encoded(whole, d.key); err != nil {
		return nil, nil, err
	}
	shown, err := t.apply(d.key, whole)
	if err != nil {
		return nil, nil, err
	}
	view, err = c.encoded(shown, d.key)
	return full, view, err
}

func (c *Client[T]) encoded(obj T, key string) (map[string]any, error) {
	document, err := c.codec.encodeOnly(obj, key)
	if err != nil {
		return nil, err
	}
	return parseObject(document)
}

// parseObject parses a document that this process has encoded.
func parseObject(document []byte) (map[string]any, error) {
	value, err := parseAny(document)
	if err != nil {
		return nil, err
	}
	object, _ := value.(map[string]any)
	return object, nil
}

func (c *Client[T]) refuseBoth(t *transformer[T], key string, both *mergediff.BothChanged) error {
	path := both.Path
	if secret := c.codec.secrets.Within(path); secret < len(path) { // the names below a secret may be secrets
		path = path[:secret]
	}
	return newInvalid(c.cfg.Kind, c.cfg.Bucket, key, pathText(path), t.call.Name()+" left out or "+
		"changed something of it, and the update changes it, too, so that would be lost: update what Get has read, or "+
		"use Patch")
}

// redraft makes another document of a draft.
func (c *Client[T]) redraft(d *draft[T], document map[string]any) error {
	var out bytes.Buffer
	e := stdjson.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return newInvalid(c.cfg.Kind, c.cfg.Bucket, d.key, wholeDocument, "it cannot be encoded: "+c.codec.told(err))
	}
	d.data, d.sent = bytes.TrimRight(out.Bytes(), "\n"), c.codec.new()
	if err := c.codec.parse(d.data, d.sent); err != nil {
		return newInvalidDocument(c.cfg.Kind, c.cfg.Bucket, d.key, err)
	}
	c.codec.clean(d.sent)
	return c.checkSize(d.key, d.data)
}
