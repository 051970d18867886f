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

	watchesDocument bool // too, and not the record alone
	news            chan struct{}
}

func newWaiter[T IEntity](client IEntityClient[T], key string) (*waiter, error) {
	if err := client.CheckKey(key); err != nil {
		return nil, err
	}
	w := &waiter{
		kind: client.Kind(), bucket: client.Config().Bucket, key: key,
		records: client.Records(), informer: client.Informer,
		confirm: func(ctx context.Context) (Presence, error) { return client.Confirm(ctx, key) },
		news:    make(chan struct{}, 1),
	}
	if w.records == nil {
		return w, nil
	}
	w.documents = &bucket{}
	*w.documents = *w.records.bucket
	w.documents.name, w.documents.stream = w.bucket, "KV_"+w.bucket
	natsKey, err := w.records.keys.toNATS(key)
	w.natsKey = natsKey
	return w, err
}

// until looks until that is done, fails with an answer, or ctx ends; then the error is a *waitEnded. Where nobody
// answers it looks again.
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
		cursor := w.cursor()
		done, err := look(ctx)
		switch {
		case err == nil && done:
			return nil
		case ctx.Err() != nil:
			return &waitEnded{context.Cause(ctx), err}
		case err != nil && !passes(err):
			return err
		}
		if !watching && time.Since(began) >= watchAfter && w.records != nil && !w.isCached() {
			watching, ended = true, w.watch(watch)
		}
		if watching {
			pause = waitPollMax
		}
		w.wait(ctx, cursor, pause)
		if ctx.Err() != nil {
			return &waitEnded{context.Cause(ctx), err}
		}
	}
}

// wait returns when there may be news, or after pause.
func (w *waiter) wait(ctx context.Context, cursor uint64, pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	if w.isCached() {
		_ = w.records.current().store.WaitCursor(ctx, cursor+1) // in time or not: a look tells
		return
	}
	select {
	case <-w.news:
	case <-ctx.Done():
	}
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

// isCached reports whether the client's caches can be believed.
func (w *waiter) isCached() bool {
	if w.records == nil {
		return false
	}
	c := w.records.current()
	return c.isRunning() && c.store.HasSynced() && c.store.Status().Err == nil
}

func (w *waiter) cursor() uint64 {
	if w.isCached() {
		return w.records.current().store.Cursor()
	}
	return 0
}

// record returns the record from the cache, else live; nil if there is none.
func (w *waiter) record(ctx context.Context) (*Record, error) {
	if w.isCached() {
		rec, _ := w.records.Cached(w.key)
		return rec, nil
	}
	rec, err := w.records.Get(ctx, w.key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return rec, err
}

// documentCached reports whether the cache knows that there is a document. Its delete, if any, will be news.
func (w *waiter) documentCached() bool {
	if !w.isCached() {
		return false
	}
	informer := w.informer()
	return informer.Status().Err == nil && informer.Exists(w.natsKey)
}

// stream returns the identity of the documents' stream, from the cache if that knows it, else from the leader.
func (w *waiter) stream(ctx context.Context) (string, error) {
	if w.isCached() {
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
