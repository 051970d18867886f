package entity

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// Get reads document and record live, from the leaders of their streams and in parallel, and joins them. IsNotFound if
// there is no document, IsInvalid if it does not decode.
func (c *Client[T]) Get(ctx context.Context, key string) (T, error) {
	var none T
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		rec *Record
		err error
	}
	records := make(chan answer, 1)
	if c.records != nil {
		go func() {
			rec, err := c.records.read(ctx, key, natsKey)
			records <- answer{rec, err}
		}()
	}
	obj, err := c.document(ctx, key, natsKey)
	if c.records == nil || err != nil {
		return obj, err // the read of the record ends with the context, into the channel's buffer
	}
	a := <-records
	if a.err != nil {
		return none, a.err
	}
	return c.joinLive(obj, key, a.rec), nil
}

func (c *Client[T]) joinLive(obj T, key string, rec *Record) T {
	if rec == nil {
		return c.codec.join(obj, nil)
	}
	return c.codec.join(obj, c.records.object(key, copyOf(rec)))
}

// document reads a document live, without its status.
func (c *Client[T]) document(ctx context.Context, key, natsKey string) (T, error) {
	var none T
	last, err := c.documents.last(ctx, natsKey)
	if err != nil {
		return none, err
	}
	if last.live() == nil {
		return none, newNotFound(c.cfg.Kind, c.cfg.Bucket, key)
	}
	return c.codec.decode(natsKey, last.Revision, last.Value)
}

// List reads all documents and statuses live. Every key that existed throughout the call is in the result, unless its
// document does not decode; those are left out, and told to Hooks.Invalid of a client that is started. It costs a
// consumer on each bucket: for reading often, use the Lister.
func (c *Client[T]) List(ctx context.Context) ([]T, error) {
	records := map[string]*RecordObject{}
	if c.records != nil {
		items, err := c.listBucket(ctx, natsinformer.Config{Bucket: c.cfg.StatusBucket, Filter: c.cfg.Filter, Decode: c.records.decode})
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if o, ok := item.(*RecordObject); ok && o.Record != nil {
				records[o.key] = o
			}
		}
	}
	items, err := c.listBucket(ctx, natsinformer.Config{Bucket: c.cfg.Bucket, Filter: c.cfg.Filter, Decode: c.decodeEntry})
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(items))
	for _, item := range items {
		obj := item.(T)
		if c.records == nil {
			out = append(out, obj)
			continue
		}
		key, err := c.keys.of(obj)
		if err != nil {
			return nil, err
		}
		out = append(out, c.codec.join(obj, records[key]))
	}
	return out, nil
}

// listBucket runs an informer until it has synced: its first promise is that nothing is missing then.
func (c *Client[T]) listBucket(ctx context.Context, cfg natsinformer.Config) ([]any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	cfg.OnError = func(err error) {
		if err != nil {
			cancel(err)
		}
	}
	informer, err := natsinformer.New(c.js, cfg)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("listing bucket %q: %w", cfg.Bucket, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	defer func() {
		cancel(nil)
		<-done
	}()
	if err := waitSynced(ctx, informer.HasSynced); err != nil {
		return nil, fmt.Errorf("listing bucket %q: %w", cfg.Bucket, err)
	}
	return informer.GetStore().List(), nil
}

// waitSynced waits until synced returns true. The informers tell it by no channel, so it asks, ever more rarely.
func waitSynced(ctx context.Context, synced func() bool) error {
	for wait := time.Millisecond; !synced(); wait = min(2*wait, 50*time.Millisecond) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

// Confirm reads a key's presence from the leader, for decisions that delete. IsServiceUnavailable if the one that
// answers is behind what the cache has seen, or speaks of another stream: a deposed leader may answer for some seconds.
func (c *Client[T]) Confirm(ctx context.Context, key string) (Presence, error) {
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return Presence{}, err
	}
	seen := c.seen(key)
	info, err := c.documents.info(ctx, natsKey)
	if err != nil {
		return Presence{}, err
	}
	if err := c.checkNotOlder(key, seen, info); err != nil {
		return Presence{}, err
	}
	if info.Subjects[c.documents.subject+natsKey] == 0 {
		return Presence{}, nil
	}
	last, err := c.documents.last(ctx, natsKey)
	if err != nil {
		return Presence{}, err
	}
	if last.revision() < seen.revision {
		return Presence{}, c.behind(key, last.revision(), seen.revision)
	}
	return Presence{Exists: last.live() != nil, Revision: last.revision()}, nil
}

// cacheView is what the cache has seen. It is zero where no cache runs.
type cacheView struct {
	created  time.Time // of the stream
	cursor   uint64
	revision uint64 // of the key, by this process's own writes too
}

// seen must be called before the leader is asked: while the question is under way the cache may well overtake the answer.
func (c *Client[T]) seen(key string) (v cacheView) {
	g := c.current.Load()
	if g == nil || !g.running.Load() {
		return v
	}
	_, v.revision, _ = g.lookup(key)
	v.created, v.cursor = g.docs.Status().StreamCreated, g.docs.Cursor()
	return v
}

// checkNotOlder refuses an answer that is older than what was seen before.
func (c *Client[T]) checkNotOlder(key string, seen cacheView, info *streamInfo) error {
	if !seen.created.IsZero() && !seen.created.Equal(info.Created) {
		return newUnavailable(c.cfg.Kind, key, "confirming %s %q: bucket %q is not the stream that the cache follows (created %v, not %v); try again when the cache has listed it",
			c.cfg.Kind, key, c.cfg.Bucket, info.Created, seen.created)
	}
	if known := max(seen.cursor, seen.revision); info.LastSeq < known {
		return c.behind(key, info.LastSeq, known)
	}
	return nil
}

// StreamIdentity is the identity of the documents' stream as its leader says, for Record.Stream.
func (c *Client[T]) StreamIdentity(ctx context.Context) (string, error) {
	info, err := c.documents.info(ctx, "")
	if err != nil {
		return "", err
	}
	return StreamIdentity(info.Created), nil
}

func (c *Client[T]) behind(key string, got, known uint64) error {
	return newUnavailable(c.cfg.Kind, key, "confirming %s %q: the leader of bucket %q answered as of sequence %d, and the cache is at %d; try again",
		c.cfg.Kind, key, c.cfg.Bucket, got, known)
}
