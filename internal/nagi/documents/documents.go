// Package documents reads the documents of a kind as they are stored, each with its record: one, all of them as they
// stream by, or what changes.
//
// The rule: what is read is exact and never held. A list has each key that exists throughout, once; it keeps eight
// bytes of a key that it has passed, and no more. It asks for nothing that entity.RoleReader may not do: it looks at
// the stream, makes a consumer, and reads single messages from the leader.
package documents

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reader reads the documents of one kind, over a connection of the caller's. Methods may be called concurrently.
type Reader struct {
	kind      *kinds.Kind
	documents *bucket
	records   *bucket // nil if the kind has none
}

// New makes a reader. An answer of the server is waited for no longer than timeout.
func New(js jetstream.JetStream, kind *kinds.Kind, timeout time.Duration) *Reader {
	r := &Reader{kind: kind, documents: newBucket(js, kind.Bucket, timeout)}
	if kind.StatusBucket != "" {
		r.records = newBucket(js, kind.StatusBucket, timeout)
	}
	return r
}

// Get reads a document and its record from the leaders of their streams. key is client-go's. apimachinery's IsNotFound
// holds for the error if there is no document; the record is returned all the same if there is one, for its teardown is
// owed.
func (r *Reader) Get(ctx context.Context, key string) (kinds.Document, error) {
	d := kinds.Document{Key: key}
	cfg := r.kind.Config()
	if err := cfg.CheckKey(key); err != nil {
		return d, err
	}
	m, err := r.documents.last(ctx, r.natsKey(key))
	if err != nil {
		return d, err
	}
	if d.Record, err = r.record(ctx, r.natsKey(key)); err != nil {
		return d, err
	}
	if m == nil || m.gone {
		return d, r.notFound(key)
	}
	d.Revision, d.Value, d.Expires = m.seq, m.value, m.expires()
	return d, nil
}

// Record reads the record of a key from the leader; nil if there is none.
func (r *Reader) Record(ctx context.Context, key string) ([]byte, error) {
	return r.record(ctx, r.natsKey(key))
}

// Count is how many keys have a document, or the marker of a delete that is still there.
func (r *Reader) Count(ctx context.Context) (uint64, error) {
	s, err := r.documents.state(ctx)
	if err != nil {
		return 0, err
	}
	return s.subjects, nil
}

// record reads a record; nil if there is none.
func (r *Reader) record(ctx context.Context, natsKey string) ([]byte, error) {
	if r.records == nil {
		return nil, nil
	}
	m, err := r.records.last(ctx, natsKey)
	if apierrors.IsNotFound(err) { // no controller has ever made its bucket
		return nil, nil
	}
	if err != nil || m == nil || m.gone {
		return nil, err
	}
	return m.value, nil
}

func (r *Reader) notFound(key string) error {
	return statusError(http.StatusNotFound, metav1.StatusReasonNotFound, "there is no %s %s: nagi get %s lists those "+
		"that there are", printable.Text(r.kind.Kind), printable.Quote(key), printable.Text(r.kind.Bucket))
}

// natsKey is the key of NATS for client-go's.
func (r *Reader) natsKey(key string) string {
	if r.kind.Namespaced {
		return strings.Replace(key, "/", ".", 1)
	}
	return key
}

// key is client-go's for the key of NATS. What no document can have as a key stays as it is; one that would look like
// another's is quoted.
func (r *Reader) key(natsKey string) string {
	if strings.Contains(natsKey, "/") {
		return printable.Quote(natsKey)
	}
	if r.kind.Namespaced {
		return strings.Replace(natsKey, ".", "/", 1)
	}
	return natsKey
}

// isReserved reports whether a key belongs to the runtime.
func isReserved(natsKey string) bool { return strings.HasPrefix(natsKey, entity.ReservedPrefix) }

// statusError is an error of apimachinery's, so that its kind is recognised.
func statusError(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
}
