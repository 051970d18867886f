package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
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

// WithWatchErrorHandler has h called for each list or watch of a Kubernetes source's informer that fails, until the
// controller stops, instead of client-go's handler, which logs. An informer has one watch error handler, which cannot be read, and which can only be set
// before it is started. New, and NewKube, set it, to be able to say in Stats and in Run's error why a cache does not follow;
// so one that was set before is replaced: give it here. Where the informer has been started already nothing is set, and what
// is wrong shows only in the log and, by asking the API server, in the error of a Run whose source does not sync. The Kumori
// API, which has no place for options, leaves the handler of its informers alone, unless a handle (NewKube) has set it.
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
	informer cache.SharedIndexInformer

	mu        sync.Mutex
	last      error
	at        time.Time // of the last
	version   string    // of the informer then
	next      int
	listeners map[int]listener
	asks      func(context.Context) error // asks the API server for anything; nil if nobody can
}

type listener struct {
	tell  func(error)                        // of a watch error; or nil
	doubt func()                             // of anything else that was not answered; or nil
	chain cache.WatchErrorHandlerWithContext // or nil; the user's
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
	made := newWatchErrors(informer)
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

func newWatchErrors(informer cache.SharedIndexInformer) *watchErrors {
	return &watchErrors{informer: informer, listeners: map[int]listener{}}
}

func findWatchErrors(informer cache.SharedIndexInformer) *watchErrors {
	probe := &watchErrorsProbe{}
	if _, err := informer.GetIndexer().Index(watchErrorsIndex, probe); err != nil {
		return nil
	}
	return probe.found
}

func (w *watchErrors) handle(ctx context.Context, r *cache.Reflector, err error) {
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

func (w *watchErrors) chained() []cache.WatchErrorHandlerWithContext {
	w.mu.Lock()
	defer w.mu.Unlock()
	var chained []cache.WatchErrorHandlerWithContext
	for _, l := range w.listeners {
		if l.chain != nil {
			chained = append(chained, l.chain)
		}
	}
	return chained
}

// report tells the listeners that the informer cannot follow.
func (w *watchErrors) report(err error) {
	if !isFault(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.at, w.version = err, time.Now(), w.informer.LastSyncResourceVersion()
	for _, l := range w.listeners {
		if l.tell != nil {
			l.tell(err)
		}
	}
}

// noteUnanswered has the listeners ask whether the API server is away, if err, of a request to it, may mean that. It returns
// err, with a mark of where it comes from.
func (w *watchErrors) noteUnanswered(err error) error {
	if !kubeerrors.Unanswered(err) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.listeners {
		if l.doubt != nil && w.asks != nil {
			l.doubt()
		}
	}
	return &unansweredError{error: err, by: w}
}

// isFault is false for how a watch ends every few minutes.
func isFault(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) &&
		!apierrors.IsResourceExpired(err) && !apierrors.IsGone(err)
}

// listen calls l for each error from now on, and tells it the last one unless that is over.
func (w *watchErrors) listen(l listener) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.next
	w.next++
	w.listeners[id] = l
	if w.last != nil && l.tell != nil && w.version == w.informer.LastSyncResourceVersion() && time.Since(w.at) < kubeHealAfter {
		l.tell(w.last)
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
	// An API server that may be away is asked whether it is there: at once, for an absence may be short, but no more often than
	// this, and then ever more rarely.
	kubeProbe     = 500 * time.Millisecond
	kubeProbeMost = 10 * time.Second
	// kubeProbePatience is how long it has for an answer.
	kubeProbePatience = 5 * time.Second

	// kubeFollowLook is how often a look is taken at an informer that has no error, in its own memory.
	kubeFollowLook = time.Second
	// kubeFollowAsk is how long nothing comes from an informer before the API server is asked for a sign of life. It sends a
	// bookmark each minute, with a new version where etcd tells of its progress, so an idle controller asks little or nothing.
	kubeFollowAsk = 90 * time.Second
)

// kubeHealth is whether an informer follows the API server. It is told of errors; that they are over shows in a resource
// version that has moved.
//
// A request that is not answered is no more than a doubt: maybe only that one did not get through. Whether the API server is
// away tells asking it, and that it is back tells its answer.
type kubeHealth struct {
	informer cache.SharedIndexInformer
	errors   *watchErrors
	events   kubeHealthEvents // set by start

	mu      sync.Mutex
	failure error
	version string // of the informer when it failed
	// lastSeen is when it was seen to fail the last time, be it by asking.
	lastSeen time.Time
	doubted  bool
	asked    time.Time // when the API server was asked the last time
	looking  bool

	stopped atomic.Bool

	loops   sync.WaitGroup
	release func()
}

// kubeHealthEvents are called without a lock.
type kubeHealthEvents struct {
	changed  func()      // err has another answer
	answered func()      // the API server was away and answers again
	stopping func() bool // the controller is, so that an informer may be stopped
}

// newKubeHealth has chain, if it is not nil, called until stop: an informer may fail before its controller runs.
func newKubeHealth(informer cache.SharedIndexInformer, errors *watchErrors, chain cache.WatchErrorHandlerWithContext) *kubeHealth {
	h := &kubeHealth{informer: informer, errors: errors, release: func() {}}
	if chain != nil {
		h.release = errors.listen(listener{chain: chain})
	}
	return h
}

// start listens until ctx ends.
func (h *kubeHealth) start(ctx context.Context, events kubeHealthEvents) {
	ctx, cancel := context.WithCancel(ctx)
	h.events = events
	unchain := h.release
	unlisten := h.errors.listen(listener{
		tell:  func(err error) { h.fail(ctx, err) },
		doubt: func() { h.doubt(ctx) },
	})
	h.release = func() {
		unlisten()
		unchain()
		cancel()
	}
	h.loops.Go(func() { h.follow(ctx) })
}

// follow sees what no watch error tells: that the informer was stopped; and that the API server is away, for a watch that is
// refused is tried again by client-go itself.
func (h *kubeHealth) follow(ctx context.Context) {
	tick := time.NewTicker(kubeFollowLook)
	defer tick.Stop()
	stopped := 0
	version, since := h.informer.LastSyncResourceVersion(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if h.informer.IsStopped() {
			// A program that ends stops everything at once, and that is no news.
			if stopped++; stopped == 3 {
				if !h.events.stopping() {
					h.stopped.Store(true)
					h.events.changed()
				}
				return
			}
			continue
		}
		if now := h.informer.LastSyncResourceVersion(); now != version || h.busy() {
			version, since = now, time.Now()
		}
		if time.Since(since) >= kubeFollowAsk && h.errors.asker() != nil {
			since = time.Now()
			h.doubt(ctx)
		}
	}
}

// busy tells whether it is looked after already.
func (h *kubeHealth) busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.looking
}

// fail is called by the informer itself and must not wait.
func (h *kubeHealth) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	h.failLocked(err)
	h.lookLocked(ctx)
	h.mu.Unlock()
	h.events.changed()
}

func (h *kubeHealth) failLocked(err error) {
	h.failure, h.version, h.lastSeen = err, h.informer.LastSyncResourceVersion(), time.Now()
}

// doubt has the API server asked whether it is away. It is for where somebody can ask.
func (h *kubeHealth) doubt(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubted = true
	h.lookLocked(ctx)
}

func (h *kubeHealth) lookLocked(ctx context.Context) {
	if !h.looking {
		h.looking = true
		h.loops.Go(func() { h.look(ctx) })
	}
}

// look ends when the informer works and nothing is in doubt. An API server that was away answers long before a watch, which
// pauses for up to a minute between its tries, shows it.
func (h *kubeHealth) look(ctx context.Context) {
	tick := time.NewTicker(kubeHealLook)
	defer tick.Stop()
	away := false
	for pause := kubeProbe; ; {
		if over, healed := h.heal(); healed {
			h.events.changed()
			if kubeerrors.Unanswered(over) && h.errors.asker() == nil {
				h.events.answered() // there is no other sign of it
			}
			return
		}
		if h.mustAsk(pause) {
			switch err := h.ask(ctx); {
			case ctx.Err() != nil:
				return
			case kubeerrors.Unanswered(err):
				away = true
				h.noteAway(err)
				h.events.changed()
			case errors.Is(err, context.DeadlineExceeded): // it was not even sent, so it says nothing
				h.doubt(ctx)
			case away: // once for each absence, or a key would never rest that fails all the same
				away = false
				h.events.answered()
			}
			pause = min(2*pause, kubeProbeMost)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// mustAsk tells whether the API server may be away, can be asked, and was not within pause.
func (h *kubeHealth) mustAsk(pause time.Duration) bool {
	asker := h.errors.asker()
	h.mu.Lock()
	defer h.mu.Unlock()
	return asker != nil && (h.doubted || kubeerrors.Unanswered(h.failure)) && time.Since(h.asked) >= pause
}

// ask asks the API server for a sign of life; a refusal is one too. What comes up from now on is not settled by its answer.
func (h *kubeHealth) ask(ctx context.Context) error {
	h.mu.Lock()
	h.doubted = false
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.asked = time.Now()
		h.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(ctx, kubeProbePatience)
	defer cancel()
	return h.errors.asker()(ctx)
}

// noteAway has the API server asked until it answers: that the informer moves is no answer, for it may have another way there.
// And it keeps a failure from being taken for healed by the time that has passed.
func (h *kubeHealth) noteAway(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil {
		h.failLocked(err)
	}
	h.lastSeen, h.doubted = time.Now(), true
}

// heal ends the look if nothing is wrong any more, and returns what was.
func (h *kubeHealth) heal() (over error, healed bool) {
	version := h.informer.LastSyncResourceVersion()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.doubted || h.failure != nil && (!h.informer.HasSynced() || version == h.version && time.Since(h.lastSeen) < kubeHealAfter) {
		return nil, false
	}
	over = h.failure
	h.failure, h.looking = nil, false
	return over, true
}

// canAsk gives the informer who can ask the API server for a sign of life; the first stays.
func (w *watchErrors) canAsk(asks func(context.Context) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asks == nil {
		w.asks = asks
	}
}

func (w *watchErrors) asker() func(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asks
}

func (h *kubeHealth) err() error {
	if h.stopped.Load() {
		return errors.New("the informer was stopped, so no event comes any more; stop it after the controller, which needs a new one now")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil {
		return nil
	}
	if advice := kubeerrors.Advice(h.failure); advice != "" && !strings.Contains(h.failure.Error(), advice) {
		return fmt.Errorf("%w (%s)", h.failure, advice)
	}
	return h.failure
}

func (h *kubeHealth) stop() {
	h.release()
	h.loops.Wait()
}
