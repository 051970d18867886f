package entity

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A document may have a TTL, which its writer sets with the message (Nats-TTL). It is of that message, so a typed write
// has to set what is left of it. NATS counts in whole seconds: each write makes the document last for a part of one
// longer, and one that is written often would never expire. So each says in a header of its own when it is to end.

// ExpiresAnnotation is where an object that was read from a document with a TTL says when it ends, as RFC 3339, or
// "never" where the document outlives the age limit of its bucket. Get, List, listers and handlers show it; see
// ExpiresAt. It is never written: to change it does nothing, and a document that has it is read as if it had not.
// WithTTL sets a TTL.
const ExpiresAnnotation = "nagi/expires-at"

// ExpiresAt returns when the document of an object ends by the TTL that its writer has set. ok is false if it has none,
// or if obj was not read or written by a client. It is as of the revision that obj was read at. The server may keep the
// document for up to a second longer.
func ExpiresAt(obj metav1.Object) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339, obj.GetAnnotations()[ExpiresAnnotation])
	return at, err == nil
}

// showExpiry makes an object tell when its document ends. It replaces the annotations and never changes them, so obj
// may share them with another object.
func showExpiry(obj metav1.Object, expires int64) {
	held := obj.GetAnnotations()
	if shown := held[ExpiresAnnotation]; shown == formatExpiry(expires) {
		return
	}
	all := maps.Clone(held)
	if delete(all, ExpiresAnnotation); expires != 0 {
		if all == nil {
			all = map[string]string{}
		}
		all[ExpiresAnnotation] = formatExpiry(expires)
	}
	if len(all) == 0 {
		all = nil
	}
	obj.SetAnnotations(all)
}

// lifetime is what a write says of when its document expires. The zero value says nothing.
type lifetime struct {
	ttl string // as in the header of NATS
	at  time.Time
}

func (l lifetime) tell(header nats.Header) {
	if l.ttl != "" {
		header[jetstream.MsgTTLHeader] = []string{l.ttl}
	}
	if !l.at.IsZero() {
		header[kvstream.ExpiresHeader] = []string{l.at.UTC().Format(time.RFC3339Nano)}
	}
}

// neverExpires is the oddity.expires of ExpiresNever.
const neverExpires = -1

// lifetimeUntil returns what a write says now of a document that expires then. over reports that the time has come.
func lifetimeUntil(expires int64, now time.Time) (l lifetime, over bool) {
	switch expires {
	case 0:
		return l, false
	case neverExpires:
		return lifetime{ttl: ExpiresNever}, false
	}
	at := time.Unix(0, expires)
	left := at.Sub(now)
	return lifetime{strconv.FormatInt(int64((left+time.Second-1)/time.Second), 10), at}, left <= 0
}

// expiryOf returns when an entry expires by the TTL of its writer, as oddity.expires.
func expiryOf(e natsinformer.Entry) int64 {
	at, never := e.Expires()
	switch {
	case never:
		return neverExpires
	case at.IsZero():
		return 0
	}
	return kvstream.MeantExpiry(e.Header, at).UnixNano()
}

// formatExpiry is an oddity.expires as a record has it.
func formatExpiry(expires int64) string {
	switch expires {
	case 0:
		return ""
	case neverExpires:
		return ExpiresNever
	}
	return time.Unix(0, expires).UTC().Format(time.RFC3339Nano)
}

// keepLifetime makes a draft last as long as the document that it replaces. The clock of the stream's leader counts, as
// it does for the expiry. A document whose time has come is gone, although the server may have it for a moment more.
func (c *Client[T]) keepLifetime(ctx context.Context, d *draft[T], expires int64) error {
	if d.expires = expires; expires == 0 {
		return nil
	}
	now := time.Time{}
	if expires != neverExpires {
		var err error
		if now, err = c.documents.clock(ctx); err != nil {
			return fmt.Errorf("%s %q of bucket %q has a TTL, and how much is left of it is not known: %w",
				c.cfg.Kind, d.key, c.cfg.Bucket, err)
		}
	}
	var over bool
	if d.lasts, over = lifetimeUntil(expires, now); over {
		return newNotFound(c.cfg.Kind, c.cfg.Bucket, d.key)
	}
	return nil
}

// clock returns the time of the stream's leader.
func (b *bucket) clock(ctx context.Context) (time.Time, error) {
	info, err := b.info(ctx, "")
	if err != nil {
		return time.Time{}, err
	}
	return info.now(), nil
}

// now is when the information was given.
func (i *streamInfo) now() time.Time {
	if i.Time.IsZero() {
		return time.Now()
	}
	return i.Time
}
