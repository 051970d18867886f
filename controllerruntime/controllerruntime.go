package controllerruntime

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/foreign"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/recorder/kuberecorder"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// ControllerRuntime is the engine under the API of the Kumori controllerruntime. It has one kind of primary, up to four
// kinds of secondaries and four of tertiaries in NATS, any number of Kubernetes informers, and external clients.
// *entity.None and a nil client fill a slot that is not used.
//
// A custom controller embeds a *ControllerRuntime, writes SyncHandler, and inherits the rest of [IController]. The flow
// is in the package comment. All methods may be called concurrently.
type ControllerRuntime[
	TNatsPrim entity.IEntity,
	TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4 entity.IEntity,
	TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4 entity.IEntity,
] struct {
	name          string
	kubeClientset kubernetes.Interface
	primary       entity.IEntityClient[TNatsPrim]
	controller    *controller.Controller[TNatsPrim]
	engine        *engine.Engine // the controller's
	err           error          // why Run cannot run

	mu       sync.Mutex
	began    bool // Run was called
	strict   bool // see RequireInstance
	custom   IController
	recorder *recorder.Recorder // while Run runs
	sweep    func()             // while garbage is collected
	syncing  map[string]syncing // the keys that are synced now
}

// syncing is a call of SyncHandler. It holds the context because SyncHandler, which gets only a key, can ask for it.
type syncing struct {
	ctx        context.Context
	operations controller.Operations
}

// NewControllerRuntime makes a runtime. It never fails: Run reports what is wrong with the arguments, through its error
// channel.
//
// The name is kept in the status bucket and must stay the same over restarts. The kind must be the primary client's.
// kubeClientset is for events about Kubernetes objects; nil if there are none. Kubernetes informers are the caller's to
// start. A resyncInterval of 0 means never.
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
) *ControllerRuntime[
	TNatsPrim, TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4, TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4,
] {
	r := &ControllerRuntime[
		TNatsPrim, TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4, TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4,
	]{
		name: name, kubeClientset: kubeClientset, primary: primaryNatsClient, syncing: map[string]syncing{},
	}
	opts := []controller.Option{
		controller.WithResyncInterval(resyncInterval), controller.WithGracePeriod(-1), r.kumoriOptions,
		kumoriNats(secondaryNatsClient1, "secondary", r.handleSecondary),
		kumoriNats(secondaryNatsClient2, "secondary", r.handleSecondary),
		kumoriNats(secondaryNatsClient3, "secondary", r.handleSecondary),
		kumoriNats(secondaryNatsClient4, "secondary", r.handleSecondary),
		kumoriNats(terciaryNatsClient1, "tertiary", r.handleTertiary),
		kumoriNats(terciaryNatsClient2, "tertiary", r.handleTertiary),
		kumoriNats(terciaryNatsClient3, "tertiary", r.handleTertiary),
		kumoriNats(terciaryNatsClient4, "tertiary", r.handleTertiary),
	}
	for i, informer := range secondarySharedInformers {
		opts = append(opts, kumoriKube(informer, i, "secondary", r.handleSecondary))
	}
	for i, informer := range terciarySharedInformers {
		opts = append(opts, kumoriKube(informer, i, "tertiary", r.handleTertiary))
	}
	for _, client := range secondaryExternalClients {
		opts = append(opts, kumoriExternal(client, r.handleSecondary))
	}
	r.controller, r.err = controller.New(name, primaryNatsClient, controller.ReconcilerFunc(r.reconcile), opts...)
	if r.err == nil && primaryNatsClient.Kind() != kind {
		r.err = fmt.Errorf("controller %q: its kind is %q, but its primary client's is %q; they must be equal",
			name, kind, primaryNatsClient.Kind())
	}
	return r
}

// SetCustomController sets the controller whose SyncHandler, HandleSecondary, GarbageSecondaries and Clean are called.
// It must be called before Run.
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

// errPatience is how long Run, when all has ended, waits for a receiver on errCh.
const errPatience = 500 * time.Millisecond

// Run starts threadiness workers (at least 1) and blocks until stopCh is closed. Then it waits, without limit, for the
// workers to finish their current keys, and calls Clean. A fatal error ends Run; it is logged, and sent to errCh if
// somebody receives. errCh may be nil and never blocks Run for more than a moment. Errors that are retried are not
// sent. A runtime runs once.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) Run(
	threadiness int, stopCh <-chan struct{}, errCh chan<- error,
) {
	err := r.run(wait.ContextForChannel(stopCh), threadiness)
	if err == nil {
		return
	}
	foreign.Logger(klog.Background()).Error(err, "Controller failed", "controller", r.name)
	timer := time.NewTimer(errPatience)
	defer timer.Stop()
	select {
	case errCh <- err:
	case <-timer.C: // nil, full, or nobody there; the log has it
	}
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) run(ctx context.Context, threadiness int) error {
	custom, err := r.begin()
	if err != nil {
		return err
	}
	defer r.clean(custom)
	switch {
	case r.err != nil:
		return r.err
	case threadiness < 1:
		return fmt.Errorf("controller %q: threadiness is %d, at least 1 is needed", r.name, threadiness)
	}
	events, err := r.newRecorder()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.recorder = events
	r.engine.Change(func(o *engine.Options) {
		o.Workers, o.Recorder, o.RequireInstance = threadiness, events, r.strict
	})
	r.mu.Unlock()
	return r.controller.Run(ctx)
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) begin() (IController, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if guard.IsNil(r.custom) {
		return nil, fmt.Errorf("controller %q: no custom controller: call SetCustomController before Run", r.name)
	}
	if r.began {
		return nil, fmt.Errorf("controller %q: Run was called before; a runtime runs once: make a new one", r.name)
	}
	r.began = true
	return r.custom, nil
}

// clean ends Run. The custom controller may still record events in its Clean.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) clean(custom IController) {
	if err := guard.Call(func() error { custom.Clean(); return nil }); err != nil {
		foreign.Logger(klog.Background()).Error(err, "Clean panicked", "controller", r.name)
	}
	r.mu.Lock()
	events := r.recorder
	r.recorder = nil
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), recorderPatience)
	defer cancel()
	if err := events.Close(ctx); err != nil {
		foreign.Logger(klog.Background()).Info("Events lost at the end", "controller", r.name, "err", err)
	}
}

// ReleaseBrake lets the deletes go that the brake holds; see controller.Controller.ReleaseBrake.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) ReleaseBrake(ctx context.Context) error {
	if r.controller == nil {
		return r.err
	}
	return r.controller.ReleaseBrake(ctx)
}

// LastKnown returns a primary as it was last known, for a SyncHandler that cleans up after it; see
// controller.Controller.LastKnown.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) LastKnown(ctx context.Context, key string) (P, error) {
	if r.controller == nil {
		var none P
		return none, r.err
	}
	return r.controller.LastKnown(ctx, key)
}

// Stats returns the counts and states of this moment; see controller.Controller.Stats.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) Stats() controller.Stats {
	if r.controller == nil {
		return controller.Stats{}
	}
	r.mu.Lock() // Run sets what it was told
	defer r.mu.Unlock()
	return r.controller.Stats()
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) reconcile(
	ctx context.Context, req controller.Request,
) (controller.Result, error) {
	r.mu.Lock()
	r.syncing[req.Key] = syncing{ctx, req.Operations}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.syncing, req.Key)
		r.mu.Unlock()
	}()
	return controller.Result{}, r.customController().SyncHandler(req.Key)
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

// recorderPatience is how long Run waits, when it ends, for events on their way.
const recorderPatience = 2 * time.Second

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) newRecorder() (*recorder.Recorder, error) {
	cfg := recorder.Config{Component: r.name, Scheme: scheme.Scheme}
	if !guard.IsNil(r.kubeClientset) {
		cfg.Kubernetes = kuberecorder.New(r.kubeClientset)
	}
	if client, ok := any(r.primary).(interface{ JetStream() jetstream.JetStream }); ok {
		cfg.JetStream = client.JetStream()
	}
	events, err := recorder.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("controller %q: make the event recorder: %w", r.name, err)
	}
	for _, kind := range r.engine.Kinds() {
		events.RegisterKind(kind)
	}
	var sample P
	events.RegisterKind(r.primary.Kind(), sample)
	return events, nil
}
