package kubesource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/owner"
	"k8s.io/client-go/tools/cache"
)

const (
	// followTick is how often an informer without an error is looked at, in its own memory.
	followTick = time.Second
	// followSilence is how long nothing comes from an informer before the API server is probed. An API server sends a
	// bookmark each minute, with a new version where etcd tells of its progress, so an idle controller probes rarely.
	followSilence = 90 * time.Second
	// stoppedTicks is for how long an informer must have been stopped before that is news: a program that ends stops
	// all at once.
	stoppedTicks = 3
)

// watchHealth is whether an informer follows the API server. It is told of errors; a resource version that has moved
// shows that they are over.
//
// A request that was not answered only makes the API server suspect: maybe no other was lost. A probe tells whether the
// API server is away, and the answer to a probe that it is back.
type watchHealth struct {
	informer cache.SharedIndexInformer
	errors   *WatchErrors
	events   healthEvents       // set by start
	claim    func() owner.Claim // what the controller owns; nil if nothing

	mu      sync.Mutex
	failure error
	version string // of the informer when it failed
	// lastSeen is when it was seen to fail the last time, by itself or by a probe.
	lastSeen   time.Time
	suspected  bool
	probed     time.Time // the last time
	recovering bool      // watchRecovery runs

	stopped atomic.Bool

	loops   sync.WaitGroup
	release func()
}

// healthEvents are called without a lock.
type healthEvents struct {
	changed  func()      // err has another answer
	answered func()      // the API server was away and answers again, or the informer's view is no longer old
	stopping func() bool // the controller stops, so the informer may be stopped
}

// newWatchHealth has chain, if it is not nil, called until stop: an informer may fail before its controller runs. claim
// says what the controller owns; nil if nothing.
func newWatchHealth(
	informer cache.SharedIndexInformer, errors *WatchErrors, chain cache.WatchErrorHandlerWithContext,
	claim func() owner.Claim,
) *watchHealth {
	h := &watchHealth{informer: informer, errors: errors, claim: claim, release: func() {}}
	if chain != nil {
		h.release = errors.listen(listener{chain: chain})
	}
	return h
}

// start listens until ctx ends or stop is called.
func (h *watchHealth) start(ctx context.Context, events healthEvents) {
	ctx, cancel := context.WithCancel(ctx)
	h.events = events
	unchain := h.release
	unlisten := h.errors.listen(listener{
		failed:  func(err error) { h.fail(ctx, err) },
		suspect: func() { h.suspect(ctx) },
		viewed:  func(over bool) { h.tellOfView(ctx, over) },
		claim:   h.claim,
	})
	h.release = func() {
		unlisten()
		unchain()
		h.mu.Lock()
		defer h.mu.Unlock()
		cancel() // nothing is begun from now on
	}
	h.loops.Go(func() { h.follow(ctx) })
	if h.errors.view.err() != nil {
		h.tellOfView(ctx, false)
	}
}

func (h *watchHealth) stop() {
	h.release()
	h.loops.Wait()
}

// follow notices what no watch error tells: that the informer was stopped; that its view is old; and that the API
// server is away, for client-go itself tries a watch again that is refused.
func (h *watchHealth) follow(ctx context.Context) {
	tick := time.NewTicker(followTick)
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
			if stopped++; stopped == stoppedTicks {
				h.noteStopped()
				return
			}
			continue
		}
		if v := h.errors.view; v.follow() {
			h.loops.Go(func() { v.compareOnce(ctx) })
		}
		if now := h.informer.LastSyncResourceVersion(); now != version || h.isRecovering() {
			version, since = now, time.Now()
		}
		if time.Since(since) >= followSilence && h.errors.prober() != nil {
			since = time.Now()
			h.suspect(ctx)
		}
	}
}

func (h *watchHealth) noteStopped() {
	if !h.events.stopping() {
		h.stopped.Store(true)
		h.events.changed()
	}
}

func (h *watchHealth) isRecovering() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recovering
}

// beginLocked calls f in a goroutine that stop waits for, unless the source has stopped: an informer that is shared may
// call a listener a moment after it was taken off.
func (h *watchHealth) beginLocked(ctx context.Context, f func()) {
	if ctx.Err() == nil {
		h.loops.Go(f)
	}
}

// tellOfView is called when the view became old, or is no longer.
func (h *watchHealth) tellOfView(ctx context.Context, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beginLocked(ctx, func() {
		h.events.changed()
		if over {
			h.events.answered() // what waited for it is due
		}
	})
}

// fail is called by the informer itself and must not wait.
func (h *watchHealth) fail(ctx context.Context, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	h.failLocked(err)
	h.recoverLocked(ctx)
	h.beginLocked(ctx, h.events.changed)
}

func (h *watchHealth) failLocked(err error) {
	h.failure, h.version, h.lastSeen = err, h.informer.LastSyncResourceVersion(), time.Now()
}

// suspect has the API server probed. It must only be called where there is a prober.
func (h *watchHealth) suspect(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	h.suspected = true
	h.recoverLocked(ctx)
}

func (h *watchHealth) recoverLocked(ctx context.Context) {
	if !h.recovering {
		h.recovering = true
		h.beginLocked(ctx, func() { h.watchRecovery(ctx) })
	}
}

func (h *watchHealth) err() error {
	if h.stopped.Load() {
		return errors.New("the informer was stopped, so no event comes any more; " +
			"stop it after the controller, which needs a new one now")
	}
	old, failure := h.errors.view.err(), h.failing()
	if old != nil && failure != nil {
		return fmt.Errorf("%w; and %w", old, failure)
	}
	return cmp.Or(old, failure)
}

// failing is the error that the watch or a probe has.
func (h *watchHealth) failing() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil {
		return nil
	}
	failure := h.failure
	if advice := kubeapi.Advice(failure); advice != "" && !strings.Contains(failure.Error(), advice) {
		failure = fmt.Errorf("%w (%s)", failure, advice)
	}
	if kubeapi.Unanswered(failure) {
		return notify.Because("no answer", failure) // to a list, a watch or a probe
	}
	return failure
}
