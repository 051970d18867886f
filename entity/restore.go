package entity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// NotRestorableError says that a document is not put back, and why. Nothing was written.
type NotRestorableError struct {
	Kind, Bucket, Key string
	// Why says it without naming the document.
	Why string
}

func (e *NotRestorableError) Error() string {
	return fmt.Sprintf("%s %q of bucket %q is not restored: %s", e.Kind, e.Key, e.Bucket, e.Why)
}

// expiring adds to what is odd about a revision when it expires. To have a TTL is odd: few documents have one.
func (o *oddity) expiring(expires int64) *oddity {
	if expires == 0 {
		return o
	}
	if o == nil {
		o = &oddity{}
	}
	o.expires = expires
	return o
}

// DocumentExpires implements EnginePort.
func (c enginePort[T]) DocumentExpires(key string, revision uint64) string {
	if c.shared.oddities.count.Load() == 0 {
		return ""
	}
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return ""
	}
	odd, _ := c.shared.oddities.of(natsKey, revision)
	if odd == nil {
		return ""
	}
	return formatExpiry(odd.expires)
}

// PrepareRestore looks whether the last document of a record may be put back under a key of which the bucket has
// nothing any more, and returns what does that, byte for byte and with what is left of its TTL. restore is called once
// at most. Both look: what came since PrepareRestore keeps restore from writing.
//
// IsAlreadyExists if the key has a document; a NotRestorableError if it has a marker, because it was deleted, or
// if the document has expired by its own TTL; IsInvalid if the document does not decode. A marker that the server has
// left of a document that grew older than the bucket's age limit is of no writer's delete: aged is the revision of the
// one that is known to have come in the document's place, 0 if none is.
func (c *Client[T]) PrepareRestore(ctx context.Context, key string, from *Record, aged uint64) (
	restore func(ctx context.Context) (revision uint64, err error), err error,
) {
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return nil, err
	}
	r := &restoration[T]{Client: c, key: key, natsKey: natsKey, aged: aged, value: bytes.Clone(from.LastDocument)}
	if r.expires, err = r.expiryIn(from); err != nil {
		return nil, err
	}
	if r.sent, r.odd, err = c.codec.read(natsKey, 0, r.value, true); err != nil {
		return nil, err
	}
	if err := c.checkSize(key, r.value); err != nil {
		return nil, err
	}
	last, err := c.documents.last(ctx, natsKey)
	if err != nil {
		return nil, err
	}
	if r.expected, err = r.over(last); err != nil {
		return nil, err
	}
	if _, err := r.remains(ctx); err != nil {
		return nil, err
	}
	return r.write, nil
}

// restoration is one document that is put back.
type restoration[T IEntity] struct {
	*Client[T]
	key, natsKey string
	value        []byte
	sent         T // the document, decoded
	odd          *oddity
	expires      int64 // as in an oddity
	aged         uint64
	expected     uint64 // the revision that the key must have
}

// over returns the revision over which the document may be written: 0, or that of the marker of its own age.
func (r *restoration[T]) over(last *stored) (expected uint64, err error) {
	switch {
	case last == nil:
		return 0, nil
	case last.live() != nil:
		return 0, newAlreadyExists(r.cfg.Kind, r.cfg.Bucket, r.key, last.Revision)
	case !last.hasExpired():
		return 0, r.not("somebody deleted it meanwhile, or before: the marker of that is at revision %d", last.Revision)
	case last.Revision != r.aged:
		return 0, r.not("it has expired, as the marker at revision %d says, and nobody knows whether that was the "+
			"document or the marker of a delete. Put it back by other means if it is wanted", last.Revision)
	}
	return last.Revision, nil
}

func (r *restoration[T]) not(format string, args ...any) error {
	return &NotRestorableError{r.cfg.Kind, r.cfg.Bucket, r.key, fmt.Sprintf(format, args...)}
}

func (r *restoration[T]) expiryIn(record *Record) (expires int64, err error) {
	switch record.DocumentExpires {
	case "":
		return 0, nil
	case ExpiresNever:
		return neverExpires, nil
	}
	at, err := time.Parse(time.RFC3339, record.DocumentExpires)
	if err != nil {
		return 0, r.not("its record says that it expires at %s, which is no time",
			printable.Quote(record.DocumentExpires))
	}
	return at.UnixNano(), nil
}

// remains returns how long the document is to last now. The clock of the stream's leader counts, as it does for the
// expiry.
func (r *restoration[T]) remains(ctx context.Context) (lasts lifetime, err error) {
	if r.expires == 0 {
		return lasts, nil
	}
	info, err := r.documents.info(ctx, "")
	if err != nil {
		return lasts, err
	}
	if !info.Config.AllowMsgTTL {
		return lasts, r.not("it has a TTL, and the bucket takes none: allow that "+
			"(nats stream edit %s --allow-msg-ttl), and restore it then", r.documents.stream)
	}
	lasts, over := lifetimeUntil(r.expires, info.now())
	if over {
		return lasts, r.not("its TTL ended at %s: it would have expired by now if it had not vanished",
			formatExpiry(r.expires))
	}
	return lasts, nil
}

// write puts the document back, unless the key has something by now. A marker of its own age may have expired since.
func (r *restoration[T]) write(ctx context.Context) (revision uint64, err error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	before := r.moment()
	lasts, err := r.remains(ctx)
	if err != nil {
		return 0, err
	}
	for {
		w := write{key: r.natsKey, value: r.value, expected: r.expected, lasts: lasts}
		if revision, err = r.documents.put(ctx, w); err == nil {
			break
		}
		conflict, ok := errors.AsType[*casError](err)
		if !ok {
			return 0, r.ended(ctx, err)
		}
		if r.expected, err = r.over(conflict.actual); err != nil {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, conflict
		}
	}
	r.noteOddity(r.natsKey, revision, r.odd.expiring(r.expires), false) // the cache will know it more exactly
	setRevision(r.sent, revision)
	showExpiry(r.sent, r.expires)
	r.remember(ctx, r.key, r.sent, sequence{revision, before})
	return revision, nil
}

// ended returns what keeps a document from being put back after its write failed. Whether a write of which the outcome
// is unknown was applied does not matter any more if the key has something else by now.
func (r *restoration[T]) ended(ctx context.Context, err error) error {
	if !errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	last, unread := r.documents.last(ctx, r.natsKey)
	if unread != nil {
		return err
	}
	if _, has := r.over(last); has != nil {
		return has
	}
	return err
}
