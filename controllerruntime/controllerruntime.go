package controllerruntime

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/recorder"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// ControllerRuntime is the engine under the API of the Kumori controllerruntime. It has one kind of primary, up to four
// kinds of secondaries and four of tertiaries in NATS, any number of Kubernetes informers, and external clients.
// *entity.None and a nil client fill a slot that is not used.
//
// A custom controller embeds a *ControllerRuntime, writes SyncHandler, and inherits the rest of [IController]. The flow
// is in the package comment. All methods may be called concurrently.
//
// A controller may embed a base of its own beside it. SetCustomController, Run, EnqueueKey, EnqueueKeyAfter, Event and
// DecomposeKubeSecondaryResource, which the original has, are the runtime's. For every other name, such as Clean,
// HandleSecondary or Stats, the base's goes before the runtime's, which is then there as c.ControllerRuntime.Stats().
type ControllerRuntime[
	TNatsPrim entity.IEntity,
	TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4 entity.IEntity,
	TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4 entity.IEntity,
] struct {
	beneath[
		TNatsPrim, TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4, TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4,
	]
}

// beneath and core put what the original does not have deeper than a base struct has its methods and fields, and one
// that the base embeds: Go takes the shallowest of equal names, and refuses two at the same depth.
type beneath[
	TNatsPrim entity.IEntity,
	TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4 entity.IEntity,
	TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4 entity.IEntity,
] struct {
	core[
		TNatsPrim, TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4, TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4,
	]
}

// core is the runtime itself.
type core[
	TNatsPrim entity.IEntity,
	TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4 entity.IEntity,
	TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4 entity.IEntity,
] struct {
	name, kind     string
	kubeClientset  kubernetes.Interface
	primary        entity.IEntityClient[TNatsPrim]
	resyncInterval time.Duration
	patience       time.Duration // see garbagePatience
	collecting     chan struct{} // holds an element while GarbageSecondaries runs

	// What build makes of opts.
	opts       []controller.Option
	controller *controller.Controller[TNatsPrim] // nil if err is not
	engine     *engine.Engine                    // the controller's
	nameless   bool                              // the installation has no id, because there is no teardown
	attachers  []controller.Attacher             // are told of the controller when it runs
	err        error                             // why Run cannot run

	began    atomic.Bool // Run was called
	mu       sync.Mutex
	early    []func() // what was enqueued before
	strict   bool     // see RequireInstance
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

// NewControllerRuntime makes a runtime. It never fails: Run reports what is wrong with the arguments, in the log and
// through its error channel. WithOptions sets what has no argument.
//
// The name is kept in the status bucket and must stay the same over restarts. The kind must be the primary client's.
// kubeClientset is for events about Kubernetes objects; nil if there are none. Kubernetes informers are the caller's to
// start. A resyncInterval of 0 means never.
//
// One client, or one informer, in two slots for secondaries is one source: HandleSecondary hears of each event once.
// The same holds for tertiaries. What is a secondary and a tertiary is told to HandleSecondary once and to
// HandleTertiary once. The primary's own client may be a tertiary; as a secondary it needs
// controller.WithSelfOwnership, see WithOptions. Two clients of one bucket are two sources.
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
	]{}
	r.core = core[
		TNatsPrim, TNatsSec1, TNatsSec2, TNatsSec3, TNatsSec4, TNatsTer1, TNatsTer2, TNatsTer3, TNatsTer4,
	]{
		name: name, kind: kind, kubeClientset: kubeClientset, primary: primaryNatsClient, syncing: map[string]syncing{},
		resyncInterval: resyncInterval, patience: garbagePatience, collecting: make(chan struct{}, 1),
	}
	secondary := &role{name: secondaryRole, handle: r.handleSecondary}
	tertiary := &role{name: tertiaryRole, handle: r.handleTertiary, update: r.handleTertiaryUpdate}
	r.opts = []controller.Option{
		controller.WithResyncInterval(resyncInterval), controller.WithGracePeriod(-1), r.kumoriOptions,
		kumoriNats(secondary, secondaryNatsClient1),
		kumoriNats(secondary, secondaryNatsClient2),
		kumoriNats(secondary, secondaryNatsClient3),
		kumoriNats(secondary, secondaryNatsClient4),
		kumoriNats(tertiary, terciaryNatsClient1),
		kumoriNats(tertiary, terciaryNatsClient2),
		kumoriNats(tertiary, terciaryNatsClient3),
		kumoriNats(tertiary, terciaryNatsClient4),
	}
	for i, informer := range secondarySharedInformers {
		r.opts = append(r.opts, kumoriKube(secondary, informer, i))
	}
	for i, informer := range terciarySharedInformers {
		r.opts = append(r.opts, kumoriKube(tertiary, informer, i))
	}
	for _, client := range secondaryExternalClients {
		r.opts = append(r.opts, kumoriExternal(client, r.handleSecondary))
	}
	_ = r.build() // which Run returns
	return r
}

// build makes the controller of the options there are, anew if there is one: nothing of it has been started. What was
// enqueued so far is enqueued again.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) build() error {
	r.engine = nil
	last := func(o *engine.Options) error {
		r.nameless = o.WithoutTeardown
		r.attachLater(o)
		return nil
	}
	r.controller, r.err = controller.New(r.name, r.primary, controller.ReconcilerFunc(r.reconcile),
		append(slices.Clip(r.opts), last)...)
	if r.err == nil && r.primary.Kind() != r.kind {
		r.err = fmt.Errorf("controller %q: its kind is %q, but its primary client's is %q; they must be equal",
			r.name, r.kind, r.primary.Kind())
	}
	for _, enqueue := range r.early {
		enqueue()
	}
	return r.err
}

// SetCustomController sets the controller whose SyncHandler, HandleSecondary, GarbageSecondaries and Clean are called.
// It must be called before Run.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) SetCustomController(customController IController) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.custom = customController
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) customController() IController {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.custom
}

// ReleaseBrake lets the deletes go that the brake holds; see controller.Controller.ReleaseBrake.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) ReleaseBrake(ctx context.Context) error {
	if r.controller == nil {
		return r.err
	}
	return r.controller.ReleaseBrake(ctx)
}

// ListVanished lists the primaries whose documents vanished; see controller.Controller.ListVanished.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) ListVanished(
	ctx context.Context,
) ([]controller.Vanished, error) {
	if r.controller == nil {
		return nil, r.err
	}
	return r.controller.ListVanished(ctx)
}

// RestoreVanished puts their documents back; see controller.Controller.RestoreVanished.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) RestoreVanished(
	ctx context.Context, engagement string, count int,
) (restored int, err error) {
	if r.controller == nil {
		return 0, r.err
	}
	return r.controller.RestoreVanished(ctx, engagement, count)
}

// LastKnown returns a primary as it was last known, for a SyncHandler that cleans up after it; see
// controller.Controller.LastKnown.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) LastKnown(ctx context.Context, key string) (P, error) {
	if r.controller == nil {
		var none P
		return none, r.err
	}
	return r.controller.LastKnown(ctx, key)
}

// Stats returns the counts and states of this moment; see controller.Controller.Stats.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) Stats() controller.Stats {
	if r.controller == nil {
		return controller.Stats{}
	}
	r.mu.Lock() // Run sets what it was told
	defer r.mu.Unlock()
	return r.controller.Stats()
}
