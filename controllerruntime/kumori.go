package controllerruntime

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Reasons and messages of events, as controllers written to the Kumori API use them.
const (
	ReasonResourceSynced         = "Synced"
	ReasonErrResourceExists      = "ErrResourceExists"
	MessageErrResourceExists     = "Resource %q already exists and is not managed by this controller"
	MessageResourceSyncedCreated = "%q synced successfully (created)"
	MessageResourceSyncedUpdated = "%q synced successfully (updated)"
	MessageResourceSyncedDeleted = "%q synced successfully (deleted)"
)

// IController is a controller in the style of the Kumori controllerruntime. A custom controller embeds a
// *ControllerRuntime, writes SyncHandler, and overrides of the rest what it wants to do differently.
type IController interface {
	// Run runs the controller until stopCh is closed.
	Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error)
	// SyncHandler makes the world match the primary with this key, which may be gone. After an error it is called again, with
	// backoff.
	SyncHandler(key string) error
	// HandleSecondary is called with each secondary that was added, updated or deleted. Only it enqueues for a secondary.
	HandleSecondary(obj any)
	// GarbageSecondaries is called after the first sync and each resync interval, to find secondaries whose owner is gone.
	GarbageSecondaries()
	// Clean is called once, after the last worker has ended.
	Clean()
}

// tertiaryHandler is what a custom controller implements that wants to hear of changes of tertiaries.
type tertiaryHandler interface {
	HandleTertiary(obj any)
}

// ControllerRuntime is the engine under the API of the Kumori controllerruntime: one kind of primary, up to four kinds
// of secondaries and four of tertiaries in NATS (*entity.None and a nil client fill a slot that is not used), any number
// of Kubernetes informers, and external clients.
//
// The flow: get a key from the work queue; if it is not valid, forget it; SyncHandler; on an error add it again
// rate-limited; on success forget; done. There is no automatic cascade: SyncHandler cleans up when the primary is gone.
// Deletes are not lost all the same: a primary that was deleted while the controller was down is synced when it starts.
type ControllerRuntime[
	TNatsPrim entity.IEntity,
	TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4 entity.IEntity,
	TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4 entity.IEntity,
] struct {
	name          string
	kubeClientset kubernetes.Interface
	controller    *Controller[TNatsPrim]
	err           error // why Run cannot run

	mu       sync.Mutex
	custom   IController
	recorder *recorder.Recorder
	sweep    func() // of the garbage collection under way
	syncing  map[string]Operations
}

// NewControllerRuntime makes a runtime; what is wrong with the arguments is told by Run, through its error channel. The
// kind must be the primary client's. Kubernetes informers are the caller's to start. A resyncInterval of 0 means never.
func NewControllerRuntime[
	TNatsPrim entity.IEntity,
	TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4 entity.IEntity,
	TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4 entity.IEntity,
](
	name string,
	kind string,
	kubeClientset kubernetes.Interface,
	primaryNatsClient entity.IEntityClient[TNatsPrim],
	secondarySharedInformers []cache.SharedIndexInformer,
	terciarySharedInformers []cache.SharedIndexInformer,
	secondaryNatsClient1 entity.IEntityClient[TNatsSec1],
	secondaryNatsClient2 entity.IEntityClient[TNatsSec2],
	secondaryNatsClient3 entity.IEntityClient[TNatsSec3],
	secondaryNatsClient4 entity.IEntityClient[TNatsSec4],
	terciaryNatsClient1 entity.IEntityClient[TNatsTer1],
	terciaryNatsClient2 entity.IEntityClient[TNatsTer2],
	terciaryNatsClient3 entity.IEntityClient[TNatsTer3],
	terciaryNatsClient4 entity.IEntityClient[TNatsTer4],
	secondaryExternalClients []external.IExternalClient,
	resyncInterval time.Duration,
) *ControllerRuntime[TNatsPrim, TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4, TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4] {
	r := &ControllerRuntime[TNatsPrim, TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4, TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4]{
		name: name, kubeClientset: kubeClientset, syncing: map[string]Operations{},
	}
	opts := []Option{WithResyncInterval(resyncInterval), WithGracePeriod(-1), func(o *options) error {
		o.withoutCascade = true
		o.garbage = r.garbage
		return nil
	}}
	opts = append(opts, kumoriNats(secondaryNatsClient1, "secondary", r.handleSecondary), kumoriNats(secondaryNatsClient2, "secondary", r.handleSecondary),
		kumoriNats(secondaryNatsClient3, "secondary", r.handleSecondary), kumoriNats(secondaryNatsClient4, "secondary", r.handleSecondary),
		kumoriNats(terciaryNatsClient1, "tertiary", r.handleTertiary), kumoriNats(terciaryNatsClient2, "tertiary", r.handleTertiary),
		kumoriNats(terciaryNatsClient3, "tertiary", r.handleTertiary), kumoriNats(terciaryNatsClient4, "tertiary", r.handleTertiary))
	for i, informer := range secondarySharedInformers {
		opts = append(opts, kumoriKube(informer, i, "secondary", r.handleSecondary))
	}
	for i, informer := range terciarySharedInformers {
		opts = append(opts, kumoriKube(informer, i, "tertiary", r.handleTertiary))
	}
	for _, client := range secondaryExternalClients {
		opts = append(opts, OwnsExternal(client))
	}
	r.controller, r.err = New(name, primaryNatsClient, ReconcilerFunc(r.reconcile), opts...)
	if r.err == nil && primaryNatsClient.Kind() != kind {
		r.err = fmt.Errorf("controller %q: its kind is %q, but its primary client's is %q; they must be equal", name, kind, primaryNatsClient.Kind())
	}
	return r
}

// SetCustomController says who is called for keys, secondaries, garbage and the clean-up. It must be called before Run.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) SetCustomController(customController IController) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.custom = customController
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) customController() IController {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.custom
}

// Run starts threadiness workers, blocks until stopCh is closed, and then waits, without limit, for the workers to
// finish what they are at. A fatal error is sent to errCh, if it is not nil and can take it at once, and ends Run.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error) {
	custom := r.customController()
	err := r.err
	switch {
	case err != nil:
	case isNil(custom):
		err = fmt.Errorf("controller %q: no custom controller: call SetCustomController before Run", r.name)
	case threadiness < 1:
		err = fmt.Errorf("controller %q: threadiness is %d, at least 1 is needed", r.name, threadiness)
	default:
		err = r.run(wait.ContextForChannel(stopCh), threadiness)
		custom.Clean()
	}
	if err == nil {
		return
	}
	klog.Background().Error(err, "Controller failed", "controller", r.name)
	select {
	case errCh <- err:
	default: // nobody takes it: nil, or full
	}
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) run(ctx context.Context, threadiness int) error {
	if err := r.startRecorder(); err != nil {
		return err
	}
	r.controller.engine.opts.workers = threadiness
	defer r.stopRecorder()
	return r.controller.Run(ctx)
}

// EnqueueKey makes a key due now.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) EnqueueKey(key string, operation Operation) {
	if r.controller != nil {
		r.controller.Enqueue(key, operation)
	}
}

// EnqueueKeyAfter makes a key due after a delay, which no event cancels.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) EnqueueKeyAfter(key string, operation Operation, delay time.Duration) {
	if r.controller != nil {
		r.controller.EnqueueAfter(key, operation, delay)
	}
}

// Operations tells, inside SyncHandler, why the key is synced. Outside it is empty.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) Operations(key string) Operations {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.syncing[key]
}

// SetOwner makes the primary with that key the owner of obj: kind, key and the id of this installation.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) SetOwner(obj metav1.Object, key string) {
	if r.controller != nil {
		r.controller.SetOwner(obj, key)
	}
}

// Event records an event about a NATS entity or a Kubernetes object, while Run runs. It never blocks.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) Event(object runtime.Object, eventtype string, reason string, message string) {
	r.mu.Lock()
	events := r.recorder
	r.mu.Unlock()
	if events == nil {
		klog.Background().V(2).Info("Event outside of Run, dropped", "controller", r.name, "reason", reason, "message", message)
		return
	}
	events.Event(object, eventtype, reason, message)
}

// HandleSecondary enqueues the owner of a secondary with OperationSecondary, if it is of the primary's kind.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) HandleSecondary(obj any) {
	if resource, ok := obj.(external.Resource); ok {
		r.EnqueueKey(resource.OwnerKey, OperationSecondary)
		return
	}
	_, key, err := r.DecomposeKubeSecondaryResource(obj)
	if err != nil {
		klog.Background().Error(err, "Secondary ignored", "controller", r.name)
		return
	}
	if key != "" {
		r.EnqueueKey(key, OperationSecondary)
	}
}

// GarbageSecondaries enqueues, with OperationDelete, each owner that secondaries name and that does not exist. The leader
// is asked before SyncHandler is called, and the brake holds back a mass delete.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) GarbageSecondaries() {
	r.mu.Lock()
	sweep := r.sweep
	r.mu.Unlock()
	if sweep != nil {
		sweep()
	}
}

// Clean does nothing.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) Clean() {}

// DecomposeKubeSecondaryResource returns a secondary as what it is, out of a DeletedFinalStateUnknown if need be, and the
// key of the primary that owns it; "" if it names no owner, one of another kind, or one of another installation. What is
// no object is an error.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) DecomposeKubeSecondaryResource(obj any) (secondaryResource metav1.Object, primaryKey string, err error) {
	secondaryResource, ok := metaObject(obj)
	if !ok {
		return nil, "", fmt.Errorf("controller %q: a secondary must be an object with metadata, got %T", r.name, obj)
	}
	if r.controller == nil {
		return secondaryResource, "", nil
	}
	keys, err := r.controller.engine.owners(context.Background(), secondaryResource)
	if err != nil || len(keys) == 0 {
		return secondaryResource, "", err
	}
	return secondaryResource, keys[0], nil
}

// ReleaseBrake lets the deletes go that the brake holds; see Controller.ReleaseBrake.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) ReleaseBrake(ctx context.Context) error {
	if r.controller == nil {
		return r.err
	}
	return r.controller.ReleaseBrake(ctx)
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) reconcile(_ context.Context, req Request) (Result, error) {
	r.mu.Lock()
	r.syncing[req.Key] = req.Operations
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.syncing, req.Key)
		r.mu.Unlock()
	}()
	return Result{}, r.customController().SyncHandler(req.Key)
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) handleSecondary(obj any) {
	r.customController().HandleSecondary(obj)
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) handleTertiary(obj any) {
	if handler, ok := r.customController().(tertiaryHandler); ok {
		handler.HandleTertiary(obj)
	}
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) garbage(sweep func()) {
	r.mu.Lock()
	r.sweep = sweep
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.sweep = nil
		r.mu.Unlock()
	}()
	r.customController().GarbageSecondaries()
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) startRecorder() error {
	var js jetstream.JetStream
	if client, ok := r.controller.client.(interface{ JetStream() jetstream.JetStream }); ok {
		js = client.JetStream()
	}
	events, err := recorder.New(recorder.Config{JetStream: js, Clientset: r.kubeClientset, Component: r.name})
	if err != nil {
		return fmt.Errorf("controller %q: make the event recorder: %w", r.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorder = events
	return nil
}

// recorderPatience is how long Run waits, when it ends, for events on their way.
const recorderPatience = 2 * time.Second

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) stopRecorder() {
	r.mu.Lock()
	events := r.recorder
	r.recorder = nil
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), recorderPatience)
	defer cancel()
	if err := events.Close(ctx); err != nil {
		klog.Background().Info("Events lost at the end", "controller", r.name, "err", err)
	}
}

// handlerSink hands the objects themselves to the custom controller.
type handlerSink struct {
	source fmt.Stringer
	handle func(obj any)
}

func (s *handlerSink) call(ctx context.Context, obj any) {
	if err := guard(func() error { s.handle(obj); return nil }); err != nil {
		klog.FromContext(ctx).Error(err, "Handler of the custom controller panicked", "source", s.source.String())
	}
}

func (s *handlerSink) created(ctx context.Context, obj metav1.Object, _ bool) { s.call(ctx, obj) }

// updated hands over the old object too where it had another owner, who would else not learn of its loss.
func (s *handlerSink) updated(ctx context.Context, oldObj, newObj metav1.Object) {
	oldKind, oldKey, _ := OwnerOf(oldObj)
	if kind, key, _ := OwnerOf(newObj); kind != oldKind || key != oldKey {
		s.call(ctx, oldObj)
	}
	s.call(ctx, newObj)
}

func (s *handlerSink) deleted(ctx context.Context, obj any) { s.call(ctx, obj) }

func kumoriNats[T entity.IEntity](client entity.IEntityClient[T], role string, handle func(any)) Option {
	return func(o *options) error {
		if isNil(client) {
			return nil // a slot that is not used
		}
		o.sources = append(o.sources, func(e *engine) (source, error) {
			s := newNatsSource(e, role, client)
			s.owned = role == "secondary"
			s.events = &handlerSink{source: s, handle: handle}
			return s, nil
		})
		return nil
	}
}

func kumoriKube(informer cache.SharedIndexInformer, number int, role string, handle func(any)) Option {
	return func(o *options) error {
		if isNil(informer) {
			return fmt.Errorf("%s shared informer %d is nil", role, number)
		}
		o.sources = append(o.sources, func(e *engine) (source, error) {
			s := &kubeSource{engine: e, role: role, number: number, informer: informer, indexed: role == "secondary"}
			s.events = &handlerSink{source: s, handle: handle}
			return s, nil
		})
		return nil
	}
}
