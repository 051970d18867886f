package reconciletest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// buckets knows the keys of all buckets of the account, and what has changed since it looked last.
type buckets struct {
	js      jetstream.JetStream
	streams map[string]*bucketStream // by bucket
}

type bucketStream struct {
	created time.Time
	last    uint64 // sequence up to which it was read
	live    map[string]bool
}

// change is one message in a bucket: the last of its key.
type change struct {
	bucket, key string // the key as in NATS
	revision    uint64
	at          time.Time
	existed     bool
	deleted     bool
	expired     bool // the server removed it: nobody wrote
	value       []byte
}

// read returns what was written since the last call, in order.
func (b *buckets) read(ctx context.Context) ([]change, error) {
	var all []change
	streams := b.js.ListStreams(ctx, jetstream.WithStreamListSubject("$KV.*.>"))
	for info := range streams.Info() {
		bucket, ok := strings.CutPrefix(info.Config.Name, "KV_")
		if !ok {
			continue
		}
		known := b.streams[bucket]
		if known == nil || !known.created.Equal(info.Created) {
			known = &bucketStream{created: info.Created, live: map[string]bool{}}
			b.streams[bucket] = known
		}
		changes, err := b.readBucket(ctx, bucket, known, info.State.LastSeq)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // it was deleted just now
		}
		if err != nil {
			return nil, fmt.Errorf("read what was written to bucket %s: %w", bucket, err)
		}
		all = append(all, changes...)
	}
	if err := streams.Err(); err != nil {
		return nil, fmt.Errorf("list the buckets: %w", err)
	}
	slices.SortStableFunc(all, func(a, b change) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.revision, b.revision))
	})
	return all, nil
}

func (b *buckets) readBucket(
	ctx context.Context, bucket string, known *bucketStream, last uint64,
) (changes []change, err error) {
	if known.last >= last {
		return nil, nil
	}
	stream, err := b.js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return nil, err
	}
	prefix := "$KV." + bucket + "."
	for known.last < last {
		msg, err := stream.GetMsg(ctx, known.last+1, jetstream.WithGetMsgSubject(prefix+">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			known.last = last
			break
		}
		if err != nil {
			return nil, err
		}
		c := change{
			bucket: bucket, key: strings.TrimPrefix(msg.Subject, prefix), revision: msg.Sequence, at: msg.Time,
			value: msg.Data, expired: msg.Header.Get("Nats-Marker-Reason") != "",
		}
		c.deleted = msg.Header.Get("KV-Operation") != "" || c.expired
		c.existed = known.live[c.key]
		known.live[c.key] = !c.deleted
		known.last = msg.Sequence
		changes = append(changes, c)
	}
	return changes, nil
}

// written is the change as it is told; ok is false if nobody wrote.
func (c change) written(kind, key string) (w Write, ok bool) {
	w = Write{Kind: kind, Bucket: c.bucket, Key: key}
	switch {
	case c.expired:
		return w, false
	case c.deleted:
		w.Change = Deleted
	case c.existed:
		w.Change, w.Document = Updated, c.value
	default:
		w.Change, w.Document = Created, c.value
	}
	return w, true
}
