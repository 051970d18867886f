package kubesource

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/owner"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// WatchErrors hands the watch errors of an informer, requests to its API server that were not answered, and own writes
// that it does not show, to all sources that share the informer. All methods may be called concurrently.
//
// No listener is called with mu held: a listener may call its user, who may write with a handle over the same informer.
type WatchErrors struct {
	informer cache.SharedIndexInformer
	server   kubeapi.Server
	install  sync.Once
	view     *view

	mu        sync.Mutex
	last      error
	at        time.Time // of the last
	version   string    // of the informer then
	next      int
	listeners map[int]listener
	probe     Prober // see ProbeWith
}

// listener has what it wants to be called for; any may be nil.
type listener struct {
	failed  func(error)                        // for a watch error
	suspect func()                             // for a reason to probe, if there is a prober
	viewed  func(over bool)                    // when the view became old, or is no longer
	claim   func() owner.Claim                 // for what its controller owns
	chain   cache.WatchErrorHandlerWithContext // in place of client-go's handler
}

// WatchErrorsOf returns the watch errors of an informer, the same to everybody who asks. An informer that was not
// started gets a watch error handler; of one that runs already no error comes.
func WatchErrorsOf(informer cache.SharedIndexInformer) *WatchErrors {
	w := informers.of(informer)
	w.install.Do(func() {
		_ = informer.SetWatchErrorHandlerWithContext(w.handle) // fails if the informer runs already
	})
	return w
}

func (w *WatchErrors) handle(ctx context.Context, r *cache.Reflector, err error) {
	w.report(err)
	chained := w.chained()
	if len(chained) == 0 {
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
	for _, h := range chained {
		if panicked := guard.Call(func() error { h(ctx, r, err); return nil }); panicked != nil {
			klog.FromContext(ctx).Error(panicked, "Watch error handler panicked", "watchError", err.Error())
		}
	}
}

func (w *WatchErrors) chained() []cache.WatchErrorHandlerWithContext {
	var chained []cache.WatchErrorHandlerWithContext
	for _, l := range w.all() {
		if l.chain != nil {
			chained = append(chained, l.chain)
		}
	}
	return chained
}

// all are the listeners, to be called without a lock.
func (w *WatchErrors) all() []listener {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.listeners))
}

// report tells the listeners that the informer cannot follow.
func (w *WatchErrors) report(err error) {
	if !isFault(err) {
		return
	}
	version := w.informer.LastSyncResourceVersion()
	w.mu.Lock()
	w.last, w.at, w.version = err, time.Now(), version
	w.mu.Unlock()
	for _, l := range w.all() {
		if l.failed != nil {
			l.failed(err)
		}
	}
}

// isFault is false for how a watch ends every few minutes.
func isFault(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) &&
		!apierrors.IsResourceExpired(err) && !apierrors.IsGone(err)
}

// NoteUnanswered is told of the error of a request to the API server. If the request was not answered, the listeners
// probe whether the API server is away, and the error returned is marked with the server. Any other error is returned
// as it is.
func (w *WatchErrors) NoteUnanswered(err error) error {
	if !kubeapi.Unanswered(err) {
		return err
	}
	w.Suspect()
	return kubeapi.MarkUnanswered(err, w.server)
}

// Suspect has the listeners probe the API server: a request was not answered, or an own write has another version than
// it should.
func (w *WatchErrors) Suspect() {
	if w.prober() == nil {
		return
	}
	for _, l := range w.all() {
		if l.suspect != nil {
			l.suspect()
		}
	}
}

// NoteUnshown is told that the informer does not show an own write though it had seconds for it.
func (w *WatchErrors) NoteUnshown() { w.view.doubt() }

// viewChanged tells the listeners that the view became old, or is no longer.
func (w *WatchErrors) viewChanged(over bool) {
	for _, l := range w.all() {
		if l.viewed != nil {
			l.viewed(over)
		}
	}
}

// claims are those of the controllers that listen.
func (w *WatchErrors) claims() (claims []owner.Claim) {
	for _, l := range w.all() {
		if l.claim != nil {
			claims = append(claims, l.claim())
		}
	}
	return claims
}

// ProbeWith says how to ask the API server. The first to say it stays.
func (w *WatchErrors) ProbeWith(probe Prober) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.probe == nil {
		w.probe = probe
	}
}

// prober asks the API server; nil if there is none.
func (w *WatchErrors) prober() Prober {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.probe
}

// listen calls l for each error from now on, and tells it the last one unless that is over. l may be called once more
// by whoever was about to when cancel was called.
func (w *WatchErrors) listen(l listener) (cancel func()) {
	version := w.informer.LastSyncResourceVersion()
	w.mu.Lock()
	id, last := w.next, w.last
	w.next++
	w.listeners[id] = l
	fresh := last != nil && w.version == version && time.Since(w.at) < healAfter
	w.mu.Unlock()
	if fresh && l.failed != nil {
		l.failed(last)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.listeners, id)
	}
}
