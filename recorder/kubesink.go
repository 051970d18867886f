package recorder

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
)

const (
	// A connection that is half open holds the queue up for no longer than this.
	kubeRequestTimeout = 15 * time.Second
	kubeMinBackoff     = 50 * time.Millisecond
	kubeMaxBackoff     = 5 * time.Second

	// A server that was away refuses everybody until it has loaded RBAC's rules, which takes it seconds.
	kubeStartGrace = 30 * time.Second
	// A change of etcd's leader is an internal error for a second or two; a webhook that is broken is one for good, and may
	// not hold up the other events.
	kubeInternalGrace = 5 * time.Second
	// Nobody notices the absence of a server while nothing is recorded. So who refuses is asked again for this long, unless it
	// has taken an event this short a time before: then it knows who may do what, and a missing right may not hold up the others.
	kubeRefusalGrace = 5 * time.Second
)

// kubeSink writes events to the API server. It waits itself for a server that is away: client-go's broadcaster would look
// every ten seconds, give the first event up after two minutes, and take a busy server's answer for a refusal.
type kubeSink struct {
	ctx     context.Context // the sink's methods have none; a request ends when the recorder does
	events  typedcorev1.EventInterface
	maxAge  time.Duration
	logger  klog.Logger
	counts  *counters
	lastErr atomic.Pointer[error]
	flushed chan struct{}

	busy          sync.Mutex // held while an event is sent, and for what follows
	awayAt        time.Time  // when the server was last away
	takenAt       time.Time  // when it last took an event
	internalSince time.Time  // of internal errors since then
	refusedSince  time.Time  // of refusals since then
}

var _ record.EventSink = (*kubeSink)(nil)

func newKubeSink(ctx context.Context, cfg Config, counts *counters) *kubeSink {
	return &kubeSink{
		ctx:     ctx,
		events:  cfg.Clientset.CoreV1().Events(""),
		maxAge:  cfg.MaxAge,
		logger:  *cfg.Logger,
		counts:  counts,
		flushed: make(chan struct{}, 1),
	}
}

func (s *kubeSink) Create(event *corev1.Event) (*corev1.Event, error) {
	if event.InvolvedObject.Kind == flushKind {
		select {
		case s.flushed <- struct{}{}:
		default:
		}
		return event, nil
	}
	return s.send(event, func(ctx context.Context, again bool) (*corev1.Event, error) {
		created, err := s.events.CreateWithEventNamespaceWithContext(ctx, event)
		if again && apierrors.IsAlreadyExists(err) {
			return event, nil // the former try arrived, and its answer was lost
		}
		return created, err
	})
}

func (s *kubeSink) Update(event *corev1.Event) (*corev1.Event, error) {
	return s.send(event, func(ctx context.Context, _ bool) (*corev1.Event, error) {
		return s.events.UpdateWithEventNamespaceWithContext(ctx, event)
	})
}

func (s *kubeSink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return s.send(event, func(ctx context.Context, _ bool) (*corev1.Event, error) {
		return s.events.PatchWithEventNamespaceWithContext(ctx, event, data)
	})
}

// send tries until the server has the event or refuses it, the event is too old, or the recorder ends.
func (s *kubeSink) send(event *corev1.Event, request func(ctx context.Context, again bool) (*corev1.Event, error)) (*corev1.Event, error) {
	s.busy.Lock()
	defer s.busy.Unlock()
	for backoff, again := kubeMinBackoff, false; ; backoff, again = min(2*backoff, kubeMaxBackoff), true {
		ctx, cancel := context.WithTimeout(s.ctx, kubeRequestTimeout)
		written, err := request(ctx, again)
		cancel()
		switch {
		case err == nil:
			s.counts.published.Add(1)
			s.taken()
			return written, nil
		case s.ctx.Err() != nil:
			s.counts.dropped.Add(1)
			return nil, err
		case apierrors.IsNotFound(err) && event.Count > 1:
			return nil, err // it aged out on the server, or its namespace is gone: client-go creates it next
		case !s.mayPass(err):
			s.counts.failed.Add(1)
			s.report(event, err)
			return nil, err
		case time.Since(event.LastTimestamp.Time) > s.maxAge:
			s.counts.failed.Add(1)
			// A transport error would make client-go try again.
			return nil, apierrors.NewTimeoutError(fmt.Sprintf("the API server did not take the event for %v: %v", s.maxAge, err), 0)
		}
		if !again {
			s.report(event, err)
			s.logger.Info("The API server does not take events, which wait", "err", err)
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(backoff/2 + rand.N(backoff)):
		}
	}
}

func (s *kubeSink) taken() {
	s.takenAt, s.internalSince, s.refusedSince = time.Now(), time.Time{}, time.Time{}
}

// waitIdle returns when the event that is being sent, if any, has come to its end. It is for after the context's end.
func (s *kubeSink) waitIdle() {
	s.busy.Lock()
	//lint:ignore SA2001 getting the lock is the wait
	s.busy.Unlock()
}

func (s *kubeSink) report(event *corev1.Event, err error) {
	err = fmt.Errorf("recorder: write the event %s about %s %q to the API server: %w", event.Reason, event.InvolvedObject.Kind, event.InvolvedObject.Name, err)
	s.lastErr.Store(&err)
}

// mayPass tells whether the request that failed with err can succeed later.
func (s *kubeSink) mayPass(err error) bool {
	now := time.Now()
	switch {
	case isTemporary(err):
		if !isBusy(err) {
			s.awayAt = now
		}
		return true
	case apierrors.IsInternalError(err):
		return within(kubeInternalGrace, &s.internalSince, now)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		if now.Sub(s.awayAt) < kubeStartGrace {
			return true
		}
		return now.Sub(s.takenAt) >= kubeRefusalGrace && within(kubeRefusalGrace, &s.refusedSince, now)
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
