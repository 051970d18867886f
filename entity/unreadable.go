package entity

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errAnswer is why a value is neither a document nor a record.
var errAnswer = errors.New("it is an answer of the server that somebody had sent to this key, which nobody wrote")

// decodeStored decodes what the server has in the place of a document.
// cached says that the cache will have it.
func (c *Client[T]) decodeStored(e natsinformer.Entry, cached bool) (T, error) {
	if kvstream.IsReply(e.Header, e.Value) {
		var none T
		return none, newInvalid(c.cfg.Kind, c.cfg.Bucket, c.keys.display(e.Key), "document",
			errAnswer.Error()+"; put the document again")
	}
	obj, odd, err := c.codec.read(e.Key, e.Revision, e.Value, true)
	if err == nil {
		expires := expiryOf(e)
		c.noteOddity(e.Key, e.Revision, odd.expiring(expires), cached)
		showExpiry(obj, expires)
	}
	return obj, err
}

// UnreadableRecordError says that a key of the status bucket holds no record that may be acted on: what is owed to the
// key is not known. Its IsInvalid holds. A record is readable if it parses, was written by a client, has the
// RecordSchemaVersion, and names no controller or the one that the records belong to.
type UnreadableRecordError struct {
	*apierrors.StatusError
	// Revision is that of what the key holds.
	Revision uint64
	// Nobodys reports that no client wrote it: an answer of the server, or no JSON object. A controller that knows
	// what was there, or whose document exists, may replace it. Else it was written as a record: it may be of
	// a newer version, and is left alone.
	Nobodys bool
}

// Unwrap makes apierrors.IsInvalid hold.
func (e *UnreadableRecordError) Unwrap() error { return e.StatusError }

// unreadable is why a value is no record.
type unreadable struct {
	err     error
	nobodys bool
}

func (u *unreadable) Error() string { return u.err.Error() }

// BelongTo says whose records these are. From then on one that names another controller is unreadable. Records that the
// cache has by then are not looked at again, so call it before the client starts.
func (r *Records) BelongTo(controller string) { r.controller.Store(&controller) }

// Controller returns what BelongTo said last; "" at first.
func (r *Records) Controller() string {
	if controller := r.controller.Load(); controller != nil {
		return *controller
	}
	return ""
}

// checkNotAnswer returns an error for what no controller wrote.
func checkNotAnswer(header nats.Header, value []byte) error {
	if kvstream.IsReply(header, value) {
		return &unreadable{errAnswer, true}
	}
	return nil
}

// checkReadable tells of a record that was decoded, or of the error of that, whether it may be acted on.
func (r *Records) checkReadable(value []byte, rec *Record, err error) error {
	controller := r.Controller()
	switch {
	case err != nil && !isObject(value):
		return &unreadable{err, true}
	case err != nil && schemaVersionOf(value) == RecordSchemaVersion:
		return &unreadable{err, false}
	case err != nil || rec.SchemaVersion != RecordSchemaVersion:
		if !isObject(value) {
			return &unreadable{errors.New("it is no JSON object"), true}
		}
		return &unreadable{fmt.Errorf("its schemaVersion is %d, and this version of Nagi reads %d: run the version "+
			"that wrote it", schemaVersionOf(value), RecordSchemaVersion), false}
	case rec.Controller != "" && controller != "" && rec.Controller != controller:
		return &unreadable{fmt.Errorf("it is of controller %.100q, and the records of this bucket are of %q",
			rec.Controller, controller), false}
	}
	return nil
}

// isObject is for what is no record. null decodes as an empty one.
func isObject(value []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("{")) && stdjson.Valid(value)
}

// schemaVersionOf is for a record that may be of another shape; 0 if it has none.
func schemaVersionOf(value []byte) int {
	var shape struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	_ = stdjson.Unmarshal(value, &shape) // what is no number is no version
	return shape.SchemaVersion
}

// newUnreadable is the error for a key that holds no record at this revision.
func (r *Records) newUnreadable(natsKey string, revision uint64, why error) *UnreadableRecordError {
	reason, ok := errors.AsType[*unreadable](why)
	status, _ := errors.AsType[*apierrors.StatusError](
		newInvalid(r.cfg.Kind, r.bucket.name, r.keys.display(natsKey), "record",
			r.unreadableText(natsKey, revision, why)))
	return &UnreadableRecordError{StatusError: status, Revision: revision, Nobodys: ok && reason.nobodys}
}

func (r *Records) unreadableText(natsKey string, revision uint64, why error) string {
	return fmt.Sprintf("revision %d: %v; mend or delete it (nats kv del %s %s)", revision, why,
		r.bucket.name, printable.Typed(natsKey, "KEY"))
}

// Unreadable reports whether a key holds what is no record, see UnreadableRecordError, as far as the cache knows.
// Cached still has the last good one, if the cache had one.
func (r *Records) Unreadable(key string) bool {
	c := r.current()
	// Each reconcile asks, and mostly there is none.
	if !c.isRunning() || !c.store.IsInvalid(strings.Replace(key, "/", ".", 1)) {
		return false
	}
	_, unreadable := r.presence(key)
	return unreadable
}

// UnreadableKeys returns the keys for which Unreadable holds, in no order.
func (r *Records) UnreadableKeys() (keys []string) {
	c := r.current()
	if !c.isRunning() {
		return nil
	}
	for key := range c.unreadable.all() {
		if r.Unreadable(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Exists reports whether a key holds something in the place of its record, as far as the cache knows: a record, also
// one that is about to be in the cache, or what is none.
func (r *Records) Exists(key string) bool {
	exists, _ := r.presence(key)
	return exists
}

func (r *Records) presence(key string) (exists, unreadable bool) {
	c := r.current()
	natsKey, err := r.keys.toNATS(key)
	if !c.isRunning() || err != nil {
		return false, false
	}
	own, written := c.writes.Get(key)
	unreadable = c.store.IsInvalid(natsKey)
	if state, _ := c.unreadable.get(key); written &&
		(!unreadable || own.revision > state.revision || own.isAheadOf(c.store)) {
		return !own.deleted, false
	}
	return unreadable || c.store.Exists(natsKey), unreadable
}
