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

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/recorder"
)

const (
	// requestTimeout bounds how long a half-open connection holds the queue up.
	requestTimeout = 15 * time.Second
	minBackoff     = 50 * time.Millisecond
	maxBackoff     = 5 * time.Second

	// startGrace is how long a refusal is not believed after the server was away. It refuses everybody until it has
	// loaded the rules of RBAC, which takes seconds.
	startGrace = 30 * time.Second
	// internalGrace is how long internal errors are waited out. A change of etcd's leader causes them for a second or
	// two. A broken webhook causes them for ever, and must not hold up the other events.
	internalGrace = 5 * time.Second
	// refusalGrace is how long a refusal is not believed if it could not have been noticed that the server was away,
	// because nothing was recorded. It is believed at once if the server took an event this short a time ago: it knows
	// who may do what, and a missing right must not hold up the other events.
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

	busy          sync.Mutex // held while an event is sent; guards the fields below
	awayAt        time.Time  // when the server was last away
	takenAt       time.Time  // when it last took an event
	internalSince time.Time  // the first internal error after that
	refusedSince  time.Time  // the first refusal after that
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

// request makes one request for an event. again says that it is not the first for this event.
type request func(ctx context.Context, again bool) (*corev1.Event, error)

// send tries until the server has the event or refuses it, the event is too old, or the recorder ends.
func (w *writer) send(event *corev1.Event, request request) (*corev1.Event, error) {
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
			return nil, apierrors.NewTimeoutError(
				fmt.Sprintf("the API server did not take the event for %v: %v", w.maxAge, err), 0)
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

// waitIdle returns when no event is being sent. Call it after the end of the context, which ends requests.
func (w *writer) waitIdle() {
	w.busy.Lock()
	//lint:ignore SA2001 getting the lock is the wait
	w.busy.Unlock()
}

func (w *writer) report(event *corev1.Event, err error) {
	about := event.InvolvedObject
	err = fmt.Errorf("recorder: write the event %s about %s %q to the API server: %w",
		event.Reason, about.Kind, about.Name, err)
	err = printable.Error(err)
	w.lastErr.Store(&err)
}

// mayPass reports whether the request that failed with err can succeed later.
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

// within reports whether less than grace has passed since *since, which it sets to now if it is zero.
func within(grace time.Duration, since *time.Time, now time.Time) bool {
	if since.IsZero() {
		*since = now
	}
	return now.Sub(*since) < grace
}

// isTemporary reports whether err comes from a server that is away or busy.
func isTemporary(err error) bool {
	var construction *rest.RequestConstructionError
	if errors.As(err, &construction) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // the server said nothing
	}
	return isBusy(err) || apierrors.IsServiceUnavailable(err)
}

func isBusy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}
