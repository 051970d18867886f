package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// WithSourceName names a Kubernetes source in errors, logs and Stats. The default is the resource where the deleter knows
// it, else the type of the informer's objects.
func WithSourceName(name string) SourceOption {
	return func(o *sourceOptions) error {
		if name == "" {
			return errors.New(`WithSourceName(""): a name is needed; leave the option away instead`)
		}
		o.name = name
		return nil
	}
}

// WithWatchErrorHandler has h called for each list or watch of a Kubernetes source's informer that fails, instead of
// client-go's handler, which logs. An informer has one watch error handler, which cannot be read, and which can only be set
// before it is started. New, and NewKube, set it, to be able to say in Stats and in Run's error why a cache does not follow;
// so one that was set before is replaced: give it here. Where the informer has been started already nothing is set, and what
// is wrong shows only in the log and, by asking the API server, in the error of a Run whose source does not sync.
func WithWatchErrorHandler(h cache.WatchErrorHandlerWithContext) SourceOption {
	return func(o *sourceOptions) error {
		if h == nil {
			return errors.New("WithWatchErrorHandler(nil): a function is needed; leave the option away instead")
		}
		o.watchErrorHandler = h
		return nil
	}
}

// onlyForKube refuses what would do nothing for a source in NATS.
func (o *sourceOptions) onlyForKube() error {
	switch {
	case o.name != "":
		return errors.New("WithSourceName is for Kubernetes sources; one in NATS is named by its kind and bucket")
	case o.watchErrorHandler != nil:
		return errors.New("WithWatchErrorHandler is for Kubernetes sources; WithOnSourceError tells of those in NATS")
	}
	return nil
}

// watchErrors hands an informer's watch errors to all who share the informer.
type watchErrors struct {
	mu        sync.Mutex
	last      error
	next      int
	listeners map[int]func(error)
	chained   []cache.WatchErrorHandlerWithContext
}

// watchErrorsIndex is an index without values. Several controllers may share an informer, which has one watch error handler
// and nowhere to keep anything of ours, but in the function of an index: asked for the index of a watchErrorsProbe it hands
// out what the first of them made.
const watchErrorsIndex = "nagi/watcherrors"

type watchErrorsProbe struct{ found *watchErrors }

func watchErrorsOf(informer cache.SharedIndexInformer) *watchErrors {
	if found := findWatchErrors(informer); found != nil {
		return found
	}
	made := &watchErrors{listeners: map[int]func(error){}}
	err := informer.AddIndexers(cache.Indexers{watchErrorsIndex: func(obj any) ([]string, error) {
		if probe, ok := obj.(*watchErrorsProbe); ok {
			probe.found = made
		}
		return nil, nil
	}})
	if err != nil {
		if found := findWatchErrors(informer); found != nil {
			return found // another controller that is made now was faster
		}
		return made // the informer has been stopped: nothing will come
	}
	_ = informer.SetWatchErrorHandlerWithContext(made.handle) // it fails where the informer runs already: nothing will come
	return made
}

func findWatchErrors(informer cache.SharedIndexInformer) *watchErrors {
	probe := &watchErrorsProbe{}
	if _, err := informer.GetIndexer().Index(watchErrorsIndex, probe); err != nil {
		return nil
	}
	return probe.found
}

func (w *watchErrors) chain(h cache.WatchErrorHandlerWithContext) {
	if h == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chained = append(w.chained, h)
}

func (w *watchErrors) handle(ctx context.Context, r *cache.Reflector, err error) {
	w.report(err)
	w.mu.Lock()
	chained := w.chained
	w.mu.Unlock()
	if len(chained) == 0 {
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
	for _, h := range chained {
		if panicked := guard(func() error { h(ctx, r, err); return nil }); panicked != nil {
			klog.FromContext(ctx).Error(panicked, "Watch error handler panicked", "watchError", err.Error())
		}
	}
}

// report tells the listeners, also of what else shows that the informer cannot follow.
func (w *watchErrors) report(err error) {
	if !isFault(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err
	for _, tell := range w.listeners {
		tell(err)
	}
}

// isFault is false for how a watch ends every few minutes.
func isFault(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) &&
		!apierrors.IsResourceExpired(err) && !apierrors.IsGone(err)
}

// listen calls tell for each error from now on, and for the last one if there was any.
func (w *watchErrors) listen(tell func(error)) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.next
	w.next++
	w.listeners[id] = tell
	if w.last != nil {
		tell(w.last)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.listeners, id)
	}
}

const (
	// kubeHealAfter is how long after an error an informer counts as healthy again though nothing shows it. A reflector
	// tries at least once a minute, and would have failed again.
	kubeHealAfter = 75 * time.Second
	// kubeHealLook is how often a look is taken at an informer that had an error.
	kubeHealLook = 250 * time.Millisecond
	// An API server that is away is asked whether it is back, first after kubeProbe, then ever more rarely.
	kubeProbe     = 500 * time.Millisecond
	kubeProbeMost = 10 * time.Second
	// kubeProbePatience is how long it has for an answer.
	kubeProbePatience = 5 * time.Second
)

// kubeHealth is whether an informer follows the API server. It is told of errors; that they are over shows in a resource
// version that has moved.
type kubeHealth struct {
	informer cache.SharedIndexInformer
	errors   *watchErrors
	probe    func(context.Context) error // asks the API server for anything; nil if nobody can

	mu      sync.Mutex
	failure error
	at      time.Time
	version string // of the informer when it failed
	looking bool

	ended   chan struct{}
	loops   sync.WaitGroup
	release func()
}

func newKubeHealth(informer cache.SharedIndexInformer, errors *watchErrors) *kubeHealth {
	return &kubeHealth{informer: informer, errors: errors, ended: make(chan struct{})}
}

// start listens until ctx ends. changed is called when err has another answer, answered when the API server, or the
// informer, works again after a failure; both without a lock.
func (h *kubeHealth) start(ctx context.Context, changed, answered func()) {
	h.release = h.errors.listen(func(err error) {
		if ctx.Err() != nil {
			return
		}
		h.fail(ctx, err, changed, answered)
	})
}

// fail is called by the informer itself and must not wait.
func (h *kubeHealth) fail(ctx context.Context, err error, changed, answered func()) {
	h.mu.Lock()
	h.failure, h.at, h.version = err, time.Now(), h.informer.LastSyncResourceVersion()
	look := !h.looking
	h.looking = true
	h.mu.Unlock()
	changed()
	if look {
		h.loops.Go(func() { h.look(ctx, changed, answered) })
	}
}

// look ends when the informer works again. An API server that was away answers long before a watch, which pauses for up to
// a minute between its tries, shows it.
func (h *kubeHealth) look(ctx context.Context, changed, answered func()) {
	tick := time.NewTicker(kubeHealLook)
	defer tick.Stop()
	pause := kubeProbe
	next := time.Now().Add(pause)
	var told time.Time // of which failure it was told that the API server answers: once, or a key would never rest that fails all the same
	for {
		select {
		case <-h.ended:
			return
		case <-tick.C:
		}
		if h.healed() {
			h.errors.forget()
			changed()
			answered()
			return
		}
		if time.Now().Before(next) {
			continue
		}
		if failed := h.failedAt(); failed != told && h.answers(ctx) {
			told = failed
			answered()
		}
		pause = min(2*pause, kubeProbeMost)
		next = time.Now().Add(pause)
	}
}

func (h *kubeHealth) failedAt() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

// answers tells whether an API server that could not be reached says anything by now, be it no.
func (h *kubeHealth) answers(ctx context.Context) bool {
	h.mu.Lock()
	away := unreachable(h.failure)
	h.mu.Unlock()
	if !away || h.probe == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, kubeProbePatience)
	defer cancel()
	err := h.probe(ctx)
	return ctx.Err() == nil && !unreachable(err)
}

func (h *kubeHealth) healed() bool {
	version := h.informer.LastSyncResourceVersion()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.informer.HasSynced() || version == h.version && time.Since(h.at) < kubeHealAfter {
		return false
	}
	h.failure, h.looking = nil, false
	return true
}

// forget keeps an error that is over from being told to who listens later.
func (w *watchErrors) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = nil
}

func (h *kubeHealth) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil {
		return nil
	}
	if advice := kubeAdvice(h.failure); advice != "" {
		return fmt.Errorf("%w (%s)", h.failure, advice)
	}
	return h.failure
}

func (h *kubeHealth) stop() {
	if h.release != nil {
		h.release()
	}
	select {
	case <-h.ended:
	default:
		close(h.ended)
	}
	h.loops.Wait()
}
