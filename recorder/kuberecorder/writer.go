package kuberecorder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/nagi-runtime/nagi/recorder"
)

const (
	// requestTimeout bounds how long a half-open connection holds the queue up.
	requestTimeout = 15 * time.Second
	minBackoff     = 50 * time.Millisecond
	maxBackoff     = 5 * time.Second

	// startGrace: a server that comes back refuses everybody until it has loaded the rules of RBAC, which takes seconds.
	startGrace = 30 * time.Second
	// internalGrace: a change of etcd's leader causes internal errors for a second or two. A broken webhook causes them for
	// ever, and must not hold up the other events.
	internalGrace = 5 * time.Second
	// refusalGrace: while nothing is recorded nobody notices that the server is away, so a refusal may come from one that
	// has just started. It is asked again for this long. One that took an event this short a time ago is not: it knows who
	// may do what, and a missing right must not hold up the other events.
	refusalGrace = 5 * time.Second
)

// writer writes events to the API server. It waits itself for a server that is away. client-go's broadcaster would look
// every ten seconds, give an event up after two minutes, and take a busy server's answer for a refusal.
type writer struct {
	ctx     context.Context // EventSink's methods have none; a request ends when the recorder does
	api     typedcorev1.EventInterface
	maxAge  time.Duration
	logger  klog.Logger
	flushed chan struct{} // an event about flushKind came through

	published, failed, dropped atomic.Uint64
	lastErr                    atomic.Pointer[error]

	busy          sync.Mutex // held while an event is sent, and for what follows
	awayAt        time.Time  // when the server was last away
	takenAt       time.Time  // when it last took an event
	internalSince time.Time  // of internal errors since then
	refusedSince  time.Time  // of refusals since then
}

var _ record.EventSink = (*writer)(nil)

func newWriter(ctx context.Context, api typedcorev1.EventInterface, cfg recorder.Config) *writer {
	return &writer{ctx: ctx, api: api, maxAge: cfg.MaxAge, logger: *cfg.Logger, flushed: make(chan struct{}, 1)}
}

func (w *writer) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.InvolvedObject.Kind == flushKind {
		select {
		case w.flushed <- struct{}{}:
		default:
		}
		return event, nil
	}
	return w.send(event, func(ctx context.Context, again bool) (*corev1.Event, error) {
		created, err := w.api.CreateWithEventNamespaceWithContext(ctx, event)
		if again && apierrors.IsAlreadyExists(err) {
			return event, nil // the former try arrived, and its answer was lost
		}
		return created, err
	})
}

func (w *writer) Update(event *corev1.Event) (*corev1.Event, error) {
	return w.send(event, func(ctx context.Context, _ bool) (*corev1.Event, error) {
		return w.api.UpdateWithEventNamespaceWithContext(ctx, event)
	})
}

func (w *writer) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return w.send(event, func(ctx context.Context, _ bool) (*corev1.Event, error) {
		return w.api.PatchWithEventNamespaceWithContext(ctx, event, data)
	})
}

// send tries until the server has the event or refuses it, the event is too old, or the recorder ends.
func (w *writer) send(event *corev1.Event, request func(ctx context.Context, again bool) (*corev1.Event, error)) (*corev1.Event, error) {
	w.busy.Lock()
	defer w.busy.Unlock()
	for backoff, again := minBackoff, false; ; backoff, again = min(2*backoff, maxBackoff), true {
		ctx, cancel := context.WithTimeout(w.ctx, requestTimeout)
		written, err := request(ctx, again)
		cancel()
		switch {
		case err == nil:
			w.published.Add(1)
			w.taken()
			return written, nil
		case w.ctx.Err() != nil:
			w.dropped.Add(1)
			return nil, err
		case apierrors.IsNotFound(err) && event.Count > 1:
			return nil, err // it aged out on the server, or its namespace is gone: client-go creates it next
		case !w.mayPass(err):
			w.failed.Add(1)
			w.report(event, err)
			return nil, err
		case time.Since(event.LastTimestamp.Time) > w.maxAge:
			w.failed.Add(1)
			// A transport error would make client-go try again.
			return nil, apierrors.NewTimeoutError(fmt.Sprintf("the API server did not take the event for %v: %v", w.maxAge, err), 0)
		}
		if !again {
			w.report(event, err)
			w.logger.Info("The API server does not take events, which wait", "err", err)
		}
		select {
		case <-w.ctx.Done():
		case <-time.After(backoff/2 + rand.N(backoff)):
		}
	}
}

func (w *writer) taken() {
	w.takenAt, w.internalSince, w.refusedSince = time.Now(), time.Time{}, time.Time{}
}

// waitIdle returns when the event that is being sent, if any, has come to its end. It is for after the context's end.
func (w *writer) waitIdle() {
	w.busy.Lock()
	//lint:ignore SA2001 getting the lock is the wait
	w.busy.Unlock()
}

func (w *writer) report(event *corev1.Event, err error) {
	err = fmt.Errorf("recorder: write the event %s about %s %q to the API server: %w", event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, err)
	w.lastErr.Store(&err)
}

// mayPass tells whether the request that failed with err can succeed later.
func (w *writer) mayPass(err error) bool {
	now := time.Now()
	switch {
	case isTemporary(err):
		if !isBusy(err) {
			w.awayAt = now
		}
		return true
	case apierrors.IsInternalError(err):
		return within(internalGrace, &w.internalSince, now)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		if now.Sub(w.awayAt) < startGrace {
			return true
		}
		return now.Sub(w.takenAt) >= refusalGrace && within(refusalGrace, &w.refusedSince, now)
	}
	return false
}

// within tells whether the grace of what began at since, or begins now, lasts.
func within(grace time.Duration, since *time.Time, now time.Time) bool {
	if since.IsZero() {
		*since = now
	}
	return now.Sub(*since) < grace
}

// isTemporary tells whether err is of a server that is away or busy.
func isTemporary(err error) bool {
	var construction *rest.RequestConstructionError
	if errors.As(err, &construction) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // nothing that the server said
	}
	return isBusy(err) || apierrors.IsServiceUnavailable(err)
}

func isBusy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}
