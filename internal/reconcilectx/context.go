package reconcilectx

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/turn"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// Host is the controller that runs reconciles.
type Host interface {
	// Name is the controller's name.
	Name() string
	// PrimaryOf names the primary with a key.
	PrimaryOf(key string) Primary
	// Warn records a warning event on a primary.
	Warn(key, reason, message string)
	// WarnOnce is Warn, where the last one about the object said something else, or the primary has changed since, or
	// was reconciled with success.
	WarnOnce(key, object, reason, message string)
	// Logger is the logger of a reconcile; base is its term's.
	Logger(base logr.Logger, key string, operations operation.Operations, id RunID) logr.Logger
	// Claim says what the primaries own.
	Claim() owner.Claim
	// Sources are those of the controller, the primary's first.
	Sources() []source.Source
	// Uncovered is that of Kubernetes.
	Uncovered()
}

// Statuses are the statuses of the primaries.
type Statuses interface {
	View(key string) source.View
	UpdateStatus(ctx context.Context, obj entity.IEntity) error
	StatusChange(obj entity.IEntity) (*entity.StatusChange, error)
}

// Config is what the contexts of one controller have in common.
type Config struct {
	Host     Host
	Statuses Statuses
	APIs     *apisource.Set
	Pruned   func() sets.Set[source.Place] // where prunes ask for what a reconcile wants, as it begins
	Writer   string                        // see Primary
	Shared   bool                          // another controller may have the id of the installation, which was given
	Proofs   *owner.Secrets                // nil: no proofs are wanted
	Deleted  func(key, what string)        // external.Reconcile has deleted it; nil: it is not told
}

// Context is the context of one reconcile. It says for whom it runs, remembers what is written under it, and makes its
// logger when it is asked for one: most reconciles log nothing, and the values cost more than all the rest.
type Context struct {
	context.Context
	config     *Config
	logger     logr.Logger // of the term
	key        string
	operations operation.Operations

	// Run numbers the reconcile among those of the process.
	Run RunID
	// Writes are those made under the context.
	Writes ownwrites.Log
	// Plan collects what would be written; nil if it is written.
	Plan *dryrun.Plan
	// Recorded says that what comes of the reconcile is recorded, and the status that it sets with it.
	Recorded bool

	once   sync.Once
	logged context.Context // with the reconcile's logger; made when it is asked for

	status  stagedStatus
	pending pendingNote
	pruned  sets.Set[source.Place] // of the config, when it began: of what is pruned since it has not said all it wants
	wanted  wanted
	began   apisource.Begun

	savingMade sync.Once
	saving     turn.Turn // of intents: several resources reconciled side by side share a key
}

// NewContext returns a context for the reconcile of a key within a term, whose logger is given.
func NewContext(
	term context.Context, config *Config, logger logr.Logger, key string, operations operation.Operations,
) *Context {
	return &Context{
		Context: term, config: config, logger: logger, key: key, operations: operations, pruned: config.Pruned(),
	}
}

// Key is the key that is reconciled.
func (c *Context) Key() string { return c.key }

// Value implements context.Context.
func (c *Context) Value(key any) any {
	switch key {
	case Key{}:
		return c
	case ownwrites.Key{}:
		return &c.Writes
	case ownwrites.ObserverKey{}:
		return c
	case external.RuntimeKey{}:
		return externalRuntime{c}
	case dryrun.Key{}:
		return c.Plan
	}
	value := c.Context.Value(key)
	if _, ok := value.(logr.Logger); ok {
		return c.WithLogger().Value(key) // the reconcile's, if the key is logr's
	}
	return value
}

// WithLogger returns the term's context with the reconcile's logger.
func (c *Context) WithLogger() context.Context {
	c.once.Do(func() {
		c.logged = klog.NewContext(c.Context, c.config.Host.Logger(c.logger, c.key, c.operations, c.Run))
	})
	return c.logged
}

var _ Reconcile = (*Context)(nil)

// ID implements Reconcile.
func (c *Context) ID() string { return c.Run.String() }

// RunID numbers a reconcile. It is formatted only when something is logged.
type RunID uint64

func (id RunID) String() string { return strconv.FormatUint(uint64(id), 16) }

// Primary implements Reconcile.
func (c *Context) Primary() Primary { return c.config.Host.PrimaryOf(c.key) }

// Controller implements Reconcile.
func (c *Context) Controller() string { return c.config.Host.Name() }

// Warn implements Reconcile.
func (c *Context) Warn(reason, message string) {
	if c.Plan != nil {
		c.Plan.Note("%s: %s", reason, message)
		return
	}
	c.config.Host.Warn(c.key, reason, message)
}

// WarnOnce implements Reconcile.
func (c *Context) WarnOnce(object, reason, message string) {
	if c.Plan != nil {
		c.Plan.Note("%s: %s", reason, message)
		return
	}
	c.config.Host.WarnOnce(c.key, object, reason, message)
}

// Prove implements Reconcile.
func (c *Context) Prove(obj metav1.Object, in owner.Resource) {
	if c.config.Proofs != nil { // else what is there stays: it is not asked for
		owner.Prove(obj, c.config.Proofs, in)
	}
}

// MayDelete implements Reconcile.
func (c *Context) MayDelete(obj metav1.Object, in owner.Resource) bool {
	return c.config.Host.Claim().At(in).MayDelete(obj)
}

// AwaitName implements Reconcile.
func (c *Context) AwaitName(place source.Place, object string) (news bool) {
	if c.Plan != nil {
		return false
	}
	return source.AwaitName(c.config.Host.Sources(), place, object, c.key)
}

// WaitFor implements Reconcile.
func (c *Context) WaitFor(what string, after time.Duration) { c.pending.add(what, after) }

// Uncovered implements Reconcile.
func (c *Context) Uncovered() {
	if c.Plan == nil {
		c.config.Host.Uncovered()
	}
}
