package entity

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// waiter looks at one key again and again. Between two looks it waits for news of the key: from the client's caches if
// they run, else from a watch of its own. Once a second it looks without news, because a bucket that vanishes is none.
type waiter struct {
	kind, bucket, key, natsKey string

	records   *Records // nil without a status bucket
	documents *bucket  // nil without a status bucket
	informer  func() natsinformer.Informer
	confirm   func(context.Context) (Presence, error)
	// brought is how documents and records come here, if both do: then the record is about the stream of the origin.
	brought brought

	watchesDocument bool // too, and not the record alone
	news            chan struct{}
}

func newWaiter[T IEntity](client IEntityClient[T], key string) (*waiter, error) {
	port := client.EnginePort()
	if err := port.CheckKey(key); err != nil {
		return nil, err
	}
	w := &waiter{
		kind: client.Kind(), bucket: client.Config().Bucket, key: key,
		records: port.Records(), informer: client.Informer,
		confirm: func(ctx context.Context) (Presence, error) { return port.Confirm(ctx, key) },
		news:    make(chan struct{}, 1),
	}
	if w.records == nil {
		return w, nil
	}
	w.documents = &bucket{}
	*w.documents = *w.records.bucket
	w.documents.name, w.documents.stream = w.bucket, "KV_"+w.bucket
	if _, elsewhere := errors.AsType[*readOnlyError](w.records.ReadOnly()); elsewhere {
		if e, ok := errors.AsType[*readOnlyError](port.ReadOnly()); ok {
			w.brought = e.brought
		}
	}
	natsKey, err := w.records.keys.toNATS(key)
	w.natsKey = natsKey
	return w, err
}

// until looks until that is done, fails with an answer, or ctx ends; then the error is a *waitEnded. Where no reply
// comes it looks again.
func (w *waiter) until(ctx context.Context, look func(context.Context) (done bool, err error)) error {
	began, watching := time.Now(), false
	watch, stop := context.WithCancel(ctx)
	var ended []chan struct{}
	defer func() {
		stop()
		for _, end := range ended {
			<-end
		}
	}()
	for pause := waitPollMin; ; pause = min(2*pause, waitPollMax) {
		before := w.sight()
		done, err := look(ctx)
		switch {
		case err == nil && done:
			return nil
		case ctx.Err() != nil:
			return &waitEnded{context.Cause(ctx), err}
		case err != nil && !passes(err):
			return err
		}
		if !watching && time.Since(began) >= watchAfter && w.records != nil && w.cache() == nil {
			watching, ended = true, w.watch(watch)
		}
		if watching {
			pause = waitPollMax
		}
		w.wait(ctx, before, pause)
		if ctx.Err() != nil {
			return &waitEnded{context.Cause(ctx), err}
		}
	}
}

// wait returns when there may be news of the key since a sight, or after pause. News of other keys are none: a look may
// ask the leader.
func (w *waiter) wait(ctx context.Context, before sight, pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	for c := w.cache(); c != nil; {
		cursor := c.store.Cursor()
		if w.sight() != before || c.store.WaitCursor(ctx, cursor+1) != nil {
			return
		}
	}
	select {
	case <-w.news:
	case <-ctx.Done():
	}
}

// sight is what the client's caches say of the key.
type sight struct {
	cache    *recordCache // nil if they cannot be believed
	record   uint64       // the revision of the record, 0 for none
	document bool
}

func (w *waiter) sight() (s sight) {
	if s.cache = w.cache(); s.cache == nil {
		return s
	}
	if rec := s.cache.get(w.key); rec != nil {
		s.record = rec.Record.Revision
	}
	s.document = w.documentCached()
	return s
}

// watch watches the keys on the server until ctx ends, and then closes the channels. Without the permission it ends
// before, and the waiter asks now and then.
func (w *waiter) watch(ctx context.Context) (ended []chan struct{}) {
	buckets := []string{w.records.Bucket()}
	if w.watchesDocument {
		buckets = append(buckets, w.bucket)
	}
	ctx = klog.NewContext(ctx, logr.Discard()) // the looks tell what is wrong
	for _, name := range buckets {
		ctx, cancel := context.WithCancel(ctx)
		informer, err := natsinformer.New(w.records.js, natsinformer.Config{
			Bucket: name, Filter: w.natsKey, Decode: decodeReserved,
			OnError: func(err error) {
				if errors.Is(err, nats.ErrPermissionViolation) {
					cancel()
				}
			},
		})
		if err == nil {
			_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { w.wake() },
				UpdateFunc: func(_, _ any) { w.wake() },
				DeleteFunc: func(any) { w.wake() },
			})
		}
		if err != nil {
			cancel() // it cannot watch, and asks
			continue
		}
		end := make(chan struct{})
		ended = append(ended, end)
		go func() {
			defer close(end)
			defer cancel()
			informer.RunWithContext(ctx)
		}()
	}
	return ended
}

func (w *waiter) wake() {
	select {
	case w.news <- struct{}{}:
	default: // it has not looked since the news before
	}
}

// cache returns the cache of records if the client's caches can be believed, else nil. It may be over at any time.
func (w *waiter) cache() *recordCache {
	if w.records == nil {
		return nil
	}
	c := w.records.current()
	if !c.isRunning() || !c.store.HasSynced() || c.store.Status().Err != nil {
		return nil
	}
	return c
}

// record returns the record from the cache, else live; nil if there is none.
func (w *waiter) record(ctx context.Context) (*Record, error) {
	if c := w.cache(); c != nil {
		if rec := c.get(w.key); rec != nil {
			return rec.Record, nil
		}
		return nil, nil
	}
	rec, err := w.records.Get(ctx, w.key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return rec, err
}

// documentCached reports whether the cache knows that there is a document. Its delete, if any, will be news.
func (w *waiter) documentCached() bool {
	if w.cache() == nil {
		return false
	}
	informer := w.informer()
	return informer.Status().Err == nil && informer.Exists(w.natsKey)
}

// stream returns the identity of the stream whose revisions the documents have: from the cache if that knows it, else
// from the leader. Where documents and records are mirrors only the record knows it.
func (w *waiter) stream(ctx context.Context, rec *Record) (string, error) {
	if w.brought == mirrored {
		return rec.about(), nil
	}
	if w.cache() != nil {
		status := w.informer().Status()
		if status.Err == nil && !status.Relisting && !status.StreamCreated.IsZero() {
			return StreamIdentity(status.StreamCreated), nil
		}
	}
	info, err := w.documents.info(ctx, "")
	if err != nil {
		return "", err
	}
	return StreamIdentity(info.Created), nil
}
