package entity

import (
	"context"
	"fmt"
	"time"
)

// WriteOption changes what CreateWith, CreateDocumentWith, UpdateWith and PatchWith of a Client write. An option that
// is given twice counts as it was given last.
type WriteOption func(*writeOptions)

type writeOptions struct {
	lasts longevity
	ttl   time.Duration // of lastsFor
}

// longevity is what a write says of the TTL of the document.
type longevity uint8

const (
	lastsAsBefore longevity = iota // the zero value
	lastsFor
	lastsAsBucket // no TTL
)

// WithTTL makes the server remove the document when ttl has passed since the write, whatever TTL it had before. It is
// what jetstream.KeyTTL is for Create of nats.go, and serves updates and patches, too. Later writes without an option
// keep what is left of it, ExpiresAt says when it ends, and to a controller the end is a delete of the document.
//
// NATS counts in whole seconds, so the server may keep the document for up to a second longer, never shorter. The write
// asks the leader first for its time and for the settings of the bucket.
//
// The write is IsInvalid, and nothing is sent, if ttl is not above 0, or above 90 years, or above the age limit
// (max_age) of the bucket, at which the server removes a document whatever TTL it has; or if the bucket takes no TTLs.
// An age limit that an operator sets or shortens later ends the document before its time. Buckets that NewClient makes
// on nats-server 2.11 or newer take TTLs; another one does after nats stream edit KV_<bucket> --allow-msg-ttl.
func WithTTL(ttl time.Duration) WriteOption {
	return func(o *writeOptions) { o.lasts, o.ttl = lastsFor, ttl }
}

// WithoutTTL removes the TTL of the document: from then on it lasts for as long as the bucket keeps it. Where there is
// none it changes nothing.
func WithoutTTL() WriteOption {
	return func(o *writeOptions) { o.lasts, o.ttl = lastsAsBucket, 0 }
}

func (c *Client[T]) writeOptions(key string, opts []WriteOption) (o writeOptions, err error) {
	for i, opt := range opts {
		if opt == nil {
			return o, c.invalidTTL(key, "option", fmt.Sprintf("write option %d is nil", i+1))
		}
		opt(&o)
	}
	switch {
	case o.lasts != lastsFor:
	case o.ttl <= 0:
		return o, c.invalidTTL(key, "ttl", fmt.Sprintf("a TTL of %v is over already: give one above 0, or WithoutTTL "+
			"for none", o.ttl))
	case o.ttl > longestTTL:
		return o, c.invalidTTL(key, "ttl", fmt.Sprintf("a TTL of %v is more than 90 years: write it without one",
			o.ttl))
	}
	return o, nil
}

func (c *Client[T]) invalidTTL(key, field, why string) error {
	return newInvalid(c.cfg.Kind, c.cfg.Bucket, key, field, why)
}

// longestTTL is what natsinformer takes for a TTL.
const longestTTL = 90 * 365 * 24 * time.Hour

// setLifetime makes a draft last as the options of its write say. The clock of the stream's leader counts, as it does
// for the expiry.
func (c *Client[T]) setLifetime(ctx context.Context, d *draft[T], o writeOptions) error {
	switch o.lasts {
	case lastsAsBefore:
		return nil
	case lastsAsBucket:
		d.lasts, d.expires = lifetime{}, 0
		return nil
	}
	info, err := c.documents.info(ctx, "")
	if err != nil {
		return fmt.Errorf("the TTL of %s %q of bucket %q cannot be set without the time of the server: %w",
			c.cfg.Kind, d.key, c.cfg.Bucket, err)
	}
	if !info.Config.AllowMsgTTL {
		return c.invalidTTL(d.key, "ttl", fmt.Sprintf("the bucket takes no TTLs of single documents: allow them "+
			"(nats stream edit %s --allow-msg-ttl)%s, or write without a TTL",
			c.documents.stream, needsTTLs(c.documents.nc.ConnectedServerVersion())))
	}
	if limit := info.Config.MaxAge; limit > 0 && o.ttl > limit {
		return c.invalidTTL(d.key, "ttl", fmt.Sprintf("a TTL of %v is above the age limit of the bucket, which ends "+
			"each document after %v: give a TTL of at most that, write without one, which lasts as long, or raise the "+
			"limit for all documents (nats stream edit %s --max-age=%v)", o.ttl, limit, c.documents.stream, o.ttl))
	}
	now := info.now()
	d.expires = now.Add(o.ttl).UnixNano()
	d.lasts, _ = lifetimeUntil(d.expires, now)
	return nil
}
