package controllerruntime

import (
	"context"
	"github.com/nagi-runtime/nagi/entity"
	"maps"
	"slices"
	"sync"
	"time"
)

// writeLog is what was written and what the caches have to show before the next reconcile.
type writeLog interface {
	Empty() bool
	// Reached tells whether the caches show all of it.
	Reached() bool
	// Wait blocks until the caches show all of it; the error is the context's.
	Wait(ctx context.Context) error
}

// allWrites are the writes of one reconcile or one cascade, in NATS and in Kubernetes. The zero value is ready.
type allWrites struct {
	nats entity.WriteLog
	kube kubeWriteLog
}

// under returns a context whose writes are logged.
func (w *allWrites) under(ctx context.Context) context.Context {
	return context.WithValue(entity.WithWriteLog(ctx, &w.nats), kubeWriteLogKey{}, &w.kube)
}

func (w *allWrites) Empty() bool { return w.nats.Empty() && w.kube.Empty() }

func (w *allWrites) Reached() bool { return w.nats.Reached() && w.kube.Reached() }

func (w *allWrites) Wait(ctx context.Context) error {
	if err := w.nats.Wait(ctx); err != nil {
		return err
	}
	return w.kube.Wait(ctx)
}

// kubeWriteLog remembers writes to Kubernetes by how the cache shows each; of one object the last.
type kubeWriteLog struct {
	mu     sync.Mutex
	writes map[kubeLogged]func() bool
}

// kubeLogged names an object in one cache.
type kubeLogged struct {
	cache any
	key   string
}

type kubeWriteLogKey struct{}

func logKubeWrite(ctx context.Context, cache any, key string, shown func() bool) {
	log, ok := ctx.Value(kubeWriteLogKey{}).(*kubeWriteLog)
	if !ok {
		return
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.writes == nil {
		log.writes = map[kubeLogged]func() bool{}
	}
	log.writes[kubeLogged{cache, key}] = shown
}

func (l *kubeWriteLog) Empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.writes) == 0
}

// kubeLookAgain is the first and the longest pause between two looks at a cache: an event usually comes within milliseconds,
// and nothing but a look tells that a store has it.
const (
	kubeLookAgain     = time.Millisecond
	kubeLookAgainMost = 50 * time.Millisecond
)

func (l *kubeWriteLog) Reached() bool {
	for _, shown := range l.all() {
		if !shown() {
			return false
		}
	}
	return true
}

func (l *kubeWriteLog) all() []func() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.writes))
}

func (l *kubeWriteLog) Wait(ctx context.Context) error {
	waiting := l.all()
	for pause := kubeLookAgain; ; pause = min(2*pause, kubeLookAgainMost) {
		for len(waiting) > 0 && waiting[0]() {
			waiting = waiting[1:]
		}
		if len(waiting) == 0 {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
