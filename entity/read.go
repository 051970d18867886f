package entity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// Get reads document and record live, in parallel, from the leaders of their streams, and joins them. IsNotFound if
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
	if err != nil {
		return obj, err // the read of the record ends with the context; the channel has room for its answer
	}
	if c.records == nil {
		setMark(obj, c.cfg.Kind, mark{read: readWhole})
		return obj, nil
	}
	a := <-records
	if a.err != nil {
		return none, a.err
	}
	return c.joinLive(obj, key, a.rec), nil
}

func (c *Client[T]) joinLive(obj T, key string, rec *Record) T {
	if rec == nil {
		return c.codec.join(obj, nil, readWhole)
	}
	return c.codec.join(obj, c.records.object(key, copyOf(rec)), readWhole)
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
	return c.decodeStored(last.entry(natsKey), false)
}

// List reads all documents and statuses live. The result has every key that existed throughout the call, unless its
// document does not decode. Such keys are left out; if the client is started, Hooks.Invalid reports them. List costs a
// consumer on each bucket: to read often, use the Lister.
func (c *Client[T]) List(ctx context.Context) ([]T, error) { return c.list(ctx, c.cfg.Filter) }

func (c *Client[T]) list(ctx context.Context, filter string) ([]T, error) {
	if err := c.documents.ensureOpen(ctx); err != nil {
		return nil, err
	}
	records := map[string]*RecordObject{}
	if c.records != nil {
		if err := c.records.bucket.ensureOpen(ctx); err != nil {
			return nil, err
		}
		items, err := c.listBucket(ctx, natsinformer.Config{
			Bucket: c.cfg.StatusBucket, Filter: filter, Decode: c.records.decode,
		})
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if o, ok := item.(*RecordObject); ok && o.Record != nil {
				records[o.key] = o
			}
		}
	}
	items, err := c.listBucket(ctx, natsinformer.Config{
		Bucket: c.cfg.Bucket, Filter: filter, Decode: c.decodeEntry,
	})
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(items))
	for _, item := range items {
		obj := item.(T)
		if c.records == nil {
			setMark(obj, c.cfg.Kind, mark{read: readWhole})
			out = append(out, obj)
			continue
		}
		key, err := c.keys.of(obj)
		if err != nil {
			return nil, err
		}
		out = append(out, c.codec.join(obj, records[key], readWhole))
	}
	return out, nil
}

// listBucket runs an informer until it has synced: the informer promises that nothing is missing then.
func (c *Client[T]) listBucket(ctx context.Context, cfg natsinformer.Config) ([]any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	cfg.OnError = func(err error) {
		// A late answer is waited for as long as ctx lasts.
		if err != nil && !errors.Is(err, natsinformer.ErrUnanswered) {
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

// waitSynced waits until synced returns true. Informers have no channel for that, so it polls, ever more rarely.
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

// Confirm asks the leader whether a key exists, for decisions that delete. A deposed leader may answer for some
// seconds. So Confirm fails with IsServiceUnavailable if the answer is behind the cache, or from another stream.
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
	if moved, err := c.documents.moved(ctx, info.Config); err != nil {
		return Presence{}, fmt.Errorf("confirming %s %q: %w", c.cfg.Kind, key, err)
	} else if moved {
		return Presence{}, newUnavailable(c.cfg.Kind, key, "confirming %s %q: the stream of bucket %q keeps its keys "+
			"under other subjects than it did; try again", c.cfg.Kind, key, c.cfg.Bucket)
	}
	ages := info.Config.MaxAge > 0 && !c.cfg.DocumentsExpire
	if info.Messages == 0 {
		return Presence{Expired: ages && info.Config.SubjectDeleteMarkerTTL == 0}, nil
	}
	last, err := c.documents.last(ctx, natsKey)
	if err != nil {
		return Presence{}, err
	}
	if last.revision() < seen.revision {
		return Presence{}, c.behind(key, last.revision(), seen.revision)
	}
	return Presence{
		Exists: last.live() != nil, Revision: last.revision(),
		Expired: last.hasExpired() && ages,
	}, nil
}

// cacheView is the state of the cache. It is zero if no cache runs.
type cacheView struct {
	created  time.Time // of the stream
	cursor   uint64
	revision uint64 // of the key, own writes included
}

// seen returns the cache's view of a key. Call it before asking the leader: the cache may overtake an answer under way.
func (c *Client[T]) seen(key string) (v cacheView) {
	g := c.current.Load()
	if g == nil || !g.running.Load() {
		return v
	}
	v.revision, _ = g.documents.revisionOf(key)
	v.created, v.cursor = g.docs.Status().StreamCreated, g.docs.Cursor()
	return v
}

// checkNotOlder returns an error if an answer is older than the cache was before the question.
func (c *Client[T]) checkNotOlder(key string, seen cacheView, info *streamInfo) error {
	if !seen.created.IsZero() && !seen.created.Equal(info.Created) {
		return newUnavailable(c.cfg.Kind, key, "confirming %s %q: bucket %q is not the stream that the cache follows "+
			"(created %v, not %v); try again when the cache has listed it",
			c.cfg.Kind, key, c.cfg.Bucket, info.Created, seen.created)
	}
	if known := max(seen.cursor, seen.revision); info.LastSeq < known {
		return c.behind(key, info.LastSeq, known)
	}
	return nil
}

// StreamIdentity asks the leader for the identity of the documents' stream, for Record.Stream.
func (c *Client[T]) StreamIdentity(ctx context.Context) (string, error) {
	info, err := c.documents.info(ctx, "")
	if err != nil {
		return "", err
	}
	return StreamIdentity(info.Created), nil
}

func (c *Client[T]) behind(key string, got, known uint64) error {
	return newUnavailable(c.cfg.Kind, key,
		"confirming %s %q: the leader of bucket %q answered as of sequence %d, and the cache is at %d; try again",
		c.cfg.Kind, key, c.cfg.Bucket, got, known)
}
