package entity

import (
	"context"
	"github.com/nagi-runtime/nagi/natsinformer"
	"slices"
	"sync"
	"time"
)

// WriteLog remembers what was written under a context, so that its holder can wait until the caches show it. The zero
// value is ready. It may be used concurrently.
type WriteLog struct {
	mu     sync.Mutex
	writes []loggedWrite // the last one of each informer; a reconcile writes to a bucket or two
}

type loggedWrite struct {
	informer natsinformer.Informer
	revision uint64
	stream   uint64 // the informer's count of stream changes: revisions of another stream are never reached
}

// WriteLogKey is the key under which a context has the *WriteLog of WithWriteLog, for contexts that have it without.
type WriteLogKey struct{}

// WithWriteLog returns a context under which the successful writes of every client are added to log: documents,
// records, deletes. Writes of clients whose informers do not run are not, since no cache will show them.
func WithWriteLog(ctx context.Context, log *WriteLog) context.Context {
	return context.WithValue(ctx, WriteLogKey{}, log)
}

func logWrite(ctx context.Context, informer natsinformer.Informer, revision uint64) {
	log, ok := ctx.Value(WriteLogKey{}).(*WriteLog)
	if !ok || log == nil {
		return
	}
	stream := informer.Status().StreamChanges
	log.mu.Lock()
	defer log.mu.Unlock()
	for i := range log.writes {
		if old := &log.writes[i]; old.informer == informer {
			if old.revision < revision || old.stream != stream {
				old.revision, old.stream = revision, stream
			}
			return
		}
	}
	log.writes = append(log.writes, loggedWrite{informer, revision, stream})
}

// Empty tells whether nothing was written.
func (l *WriteLog) Empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.writes) == 0
}

// Reached tells whether a Wait would return at once.
func (l *WriteLog) Reached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(l.writes, func(w loggedWrite) bool { return !w.reached() })
}

// Reset forgets everything.
func (l *WriteLog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = nil
}

// Wait blocks until the caches have reached all writes. Those of informers that have stopped, or that follow another
// stream since, are passed over. The error is the context's.
func (l *WriteLog) Wait(ctx context.Context) error {
	l.mu.Lock()
	writes := slices.Clone(l.writes)
	l.mu.Unlock()
	for _, w := range writes {
		if err := w.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain is how often a wait checks that what it waits for can still come.
const lookAgain = 500 * time.Millisecond

func (w loggedWrite) reached() bool {
	return w.informer.IsStopped() || w.informer.Status().StreamChanges != w.stream || w.informer.Cursor() >= w.revision
}

func (w loggedWrite) wait(ctx context.Context) error {
	for {
		if w.reached() {
			return nil
		}
		slice, cancel := context.WithTimeout(ctx, lookAgain)
		err := w.informer.WaitCursor(slice, w.revision)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
