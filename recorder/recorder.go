package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// closeTimeout bounds Close if its context has no deadline. A server that is away would hold it for ever.
const closeTimeout = 5 * time.Second

// Recorder records events about NATS entities and Kubernetes objects. It is a record.EventRecorder of client-go. All
// methods may be called concurrently, and on a nil Recorder, which records nothing.
type Recorder struct {
	cfg   Config
	kinds *kinds
	clock *uniqueClock
	nats  *publisher       // nil without JetStream
	kube  KubernetesEvents // nil without a KubernetesSink
	abort context.CancelFunc

	natsCounts *counters
	kubeCounts counters // beside the sink's own
	refused    counters

	mu      sync.RWMutex // held for reading while an event is put into a queue, so that Close sees the last one
	closed  bool
	closing sync.Once
	err     error
}

var _ record.EventRecorder = (*Recorder)(nil)

// New starts a recorder. It must be closed. New does not wait for a server: the recorder looks for the stream, and
// creates it if it is missing, as soon as there is a connection. An error means that the configuration makes no sense.
func New(cfg Config) (*Recorder, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("recorder: invalid configuration: %w", err)
	}
	r := &Recorder{cfg: cfg, kinds: newKinds(cfg.Scheme), clock: &uniqueClock{}, natsCounts: &counters{}}
	if cfg.Correlator.Clock == nil {
		r.cfg.Correlator.Clock = r.clock
	}
	if cfg.JetStream != nil {
		p := newPublisher(r.cfg)
		r.nats, r.natsCounts = p, &p.counts
		ctx, cancel := context.WithCancel(context.Background())
		r.abort = cancel
		go p.run(ctx)
	}
	if cfg.Kubernetes != nil {
		r.kube = cfg.Kubernetes.Start(r.cfg)
	}
	return r, nil
}

// RegisterKind says that a kind is one of NATS entities: RegisterKind("Website", &Website{}). The samples are values of
// its Go types; objects of these types need no TypeMeta. It may be called at any time.
//
// Config.IsNATS decides whether an object is a NATS entity. Without it this rule does. "Known" means that Config.Scheme
// knows the apiVersion and kind, as client-go's scheme does those of Kubernetes itself. Without Config.Kubernetes and
// Config.Scheme nothing is known.
//
//   - registered and not known: NATS.
//   - known and not registered: Kubernetes.
//   - both, such as a NATS entity "Service" beside Kubernetes' own: NATS if it has no UID.
//   - neither, such as a custom resource: NATS if it has no UID.
//
// The API server gives each object a UID, and a bucket gives none. So the last two are wrong only about an entity whose
// document carries a UID, and about a custom resource that does not exist yet.
func (r *Recorder) RegisterKind(kind string, samples ...runtime.Object) {
	if r != nil {
		r.kinds.register(kind, samples)
	}
}

// Event records that something happened to an object, or to the object that a *corev1.ObjectReference names. eventtype
// is corev1.EventTypeNormal or EventTypeWarning, reason is one word in UpperCamelCase for programs, message is for
// people. Reasons are cut at 128 bytes and messages at 1,024. Event returns at once and never waits for a server.
func (r *Recorder) Event(object runtime.Object, eventtype, reason, message string) {
	r.record(object, nil, eventtype, reason, message)
}

// Eventf is Event with a format.
func (r *Recorder) Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any) {
	r.record(object, nil, eventtype, reason, fmt.Sprintf(messageFmt, args...))
}

// AnnotatedEventf is Eventf with annotations on the event, of 4 KiB at most.
func (r *Recorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any,
) {
	r.record(object, annotations, eventtype, reason, fmt.Sprintf(messageFmt, args...))
}

func (r *Recorder) record(object runtime.Object, annotations map[string]string, eventtype, reason, message string) {
	if r == nil {
		return
	}
	// No event may cost a reconcile: a typed nil panics in its own methods, and IsNATS is the user's.
	defer func() {
		if p := recover(); p != nil {
			r.refuse(fmt.Errorf("panic: %v", p), object, reason)
		}
	}()
	annotations, reason, message, err := checkEvent(annotations, eventtype, reason, message)
	if err != nil {
		r.refuse(err, object, reason)
		return
	}
	ref, err := r.reference(object)
	if err != nil {
		r.refuse(err, object, reason)
		return
	}
	if r.isNATS(object, ref) {
		r.recordNATS(r.newEvent(ref, annotations, eventtype, reason, message))
		return
	}
	r.recordKube(ref, annotations, eventtype, reason, message)
}

func (r *Recorder) isNATS(object runtime.Object, ref *corev1.ObjectReference) bool {
	if r.cfg.IsNATS != nil {
		return r.cfg.IsNATS(object)
	}
	return r.kinds.isNATS(object, ref)
}

func (r *Recorder) refuse(err error, object runtime.Object, reason string) {
	r.refused.failed.Add(1)
	r.cfg.Logger.Error(err, "An event was not recorded", "object", fmt.Sprintf("%T", object), "reason", reason)
}

func (r *Recorder) recordNATS(event *corev1.Event) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.natsCounts.recorded.Add(1)
	if r.nats == nil || r.closed {
		r.drop(r.natsCounts, &event.InvolvedObject, event.Reason)
		return
	}
	select {
	case r.nats.queue <- event:
	default:
		r.drop(r.natsCounts, &event.InvolvedObject, event.Reason)
	}
}

func (r *Recorder) recordKube(
	ref *corev1.ObjectReference, annotations map[string]string, eventtype, reason, message string,
) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.kubeCounts.recorded.Add(1)
	if r.kube == nil || r.closed {
		r.drop(&r.kubeCounts, ref, reason)
		return
	}
	r.kube.Record(ref, annotations, eventtype, reason, message)
}

func (r *Recorder) drop(c *counters, ref *corev1.ObjectReference, reason string) {
	c.dropped.Add(1)
	r.cfg.Logger.V(4).Info("Dropped an event: no room, no destination, or closed",
		"kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name, "reason", reason)
}

// Stats returns the counts of events so far.
func (r *Recorder) Stats() Stats {
	if r == nil {
		return Stats{}
	}
	s := Stats{NATS: r.natsCounts.snapshot(), Kubernetes: r.kubernetesCounts(), Refused: r.refused.failed.Load()}
	n := &s.NATS
	n.Pending = n.Recorded - n.Published - n.Merged - n.Filtered - n.Dropped - n.Failed
	return s
}

// kubernetesCounts adds the counts of the sink to those of the recorder.
func (r *Recorder) kubernetesCounts() Counts {
	var sent Counts
	if r.kube != nil {
		sent = r.kube.Counts()
	}
	s := r.kubeCounts.snapshot()
	s.Published, s.Failed = sent.Published, sent.Failed
	s.Dropped += sent.Dropped
	return s
}

// Err returns the last problem with the stream or with publishing, and the last one with the API server. The log has
// them too. They stay after the problem is gone, so that it can be found; Stats tells whether events arrive.
func (r *Recorder) Err() error {
	if r == nil {
		return nil
	}
	var natsErr, kubeErr error
	if r.nats != nil {
		natsErr = last(&r.nats.lastErr)
	}
	if r.kube != nil {
		kubeErr = r.kube.Err()
	}
	return errors.Join(natsErr, kubeErr)
}

func last(err *atomic.Pointer[error]) error {
	if err := err.Load(); err != nil {
		return *err
	}
	return nil
}

// Close sends what was recorded and stops the recorder. It ends when ctx does, or after 5 s if ctx has no deadline.
// Events that are left are dropped and counted, and the error reports them. No goroutine is left. Events recorded later
// are dropped. The connection stays open. Closing again does nothing and returns the same.
func (r *Recorder) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.closing.Do(func() {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, closeTimeout)
			defer cancel()
		}
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		r.err = r.stop(ctx)
	})
	return r.err
}

func (r *Recorder) stop(ctx context.Context) error {
	var natsErr, kubeErr error
	var both sync.WaitGroup
	if r.nats != nil {
		both.Go(func() {
			defer r.abort()
			natsErr = r.nats.close(ctx, r.abort)
		})
	}
	if r.kube != nil {
		both.Go(func() { kubeErr = r.kube.Close(ctx) })
	}
	both.Wait()
	return errors.Join(natsErr, kubeErr)
}
