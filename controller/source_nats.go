package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owns makes the entities of client secondaries of the primary. An event of one, or of its status, enqueues the primary
// that it names as its owner, with OperationSecondary. Cascade and sweep delete the entities whose owner is gone. Run
// starts the client's cache; nothing is reconciled before it has synced.
//
// Give a client once; New refuses it twice, and the client of the primary, or one that shares its cache, without
// [WithSelfOwnership]. Who may write the entities says who owns them. An owner in another namespace does not count; see
// WithOwnersInOtherNamespaces. Nor does one that never was; see Stats.NeverWas.
func Owns[T entity.IEntity](client entity.IEntityClient[T], opts ...SourceOption) Option {
	return func(o *engine.Options) error {
		if guard.IsNil(client) {
			return errors.New("Owns(nil): a client is needed")
		}
		so, err := natsSourceOptions[T]("Owns", client.Kind(), opts)
		if err != nil {
			return err
		}
		if err := client.EnginePort().ReadOnly(); err != nil {
			return fmt.Errorf("Owns(%s): secondaries are written, and deleted with their primary; use Watches for "+
				"what is only read: %w", client.Kind(), err)
		}
		so.needsTeardown(o)
		o.Clients.Own(client, client.EnginePort(), source.SharesCache(client))
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			predicates := e.Filtered(so.predicates)
			s := source.NewNATS(client, source.NATSConfig{
				Role: "Owns", Owner: e.Kind, Owned: true, Prune: so.prune, Open: so.open,
				Late: so.optional, Joined: len(predicates) > 0, Changed: e.SourceHealth, Resume: e.Resume,
				Division: e.Division(), Traced: e.Traced(),
			})
			s.SetSink(e.EventsOf(s, predicates, e.OwnersIn(s), OperationSecondary))
			return s, nil
		})
		return nil
	}
}

// Watches makes the entities of client tertiaries, which are read and never deleted. An event of one, or of its status,
// enqueues the primaries that keys returns for it, with OperationTertiary; an update calls keys for the old and for the
// new entity. keys sees the status too, and must not modify the entity. If keys fails, it is called again, with
// backoff, for the same event. It must return soon after its context has ended: the end of Run waits for it, but not
// for ever.
func Watches[T entity.IEntity](
	client entity.IEntityClient[T], keys func(context.Context, T) ([]string, error), opts ...SourceOption,
) Option {
	return func(o *engine.Options) error {
		if guard.IsNil(client) || keys == nil {
			return errors.New("Watches: a client and a function that returns keys are needed")
		}
		typed := func(ctx context.Context, obj metav1.Object) ([]string, error) { return keys(ctx, obj.(T)) }
		return watchNATS(o, client, "Watches", opts, func(*engine.Engine) (source.Mapper, error) { return typed, nil })
	}
}

// WatchesIndexed is Watches for entities that the primaries refer to by key: an event of one enqueues the primaries
// that have its key in their index of that name, which [entity.WithIndex] makes, without looking at the others. The
// key is "name", or "namespace/name". A primary that comes to refer to an entity, or does no more, has an event itself.
func WatchesIndexed[T entity.IEntity](client entity.IEntityClient[T], index string, opts ...SourceOption) Option {
	return func(o *engine.Options) error {
		if guard.IsNil(client) {
			return errors.New("WatchesIndexed: a client is needed")
		}
		return watchNATS(o, client, "WatchesIndexed", opts, func(e *engine.Engine) (source.Mapper, error) {
			keys, err := e.Indexed(index)
			if err != nil {
				return nil, fmt.Errorf("WatchesIndexed(%s): the primary's %w", client.Kind(), err)
			}
			return keys, nil
		})
	}
}

func watchNATS[T entity.IEntity](
	o *engine.Options, client entity.IEntityClient[T], name string, opts []SourceOption,
	mapper func(*engine.Engine) (source.Mapper, error),
) error {
	so, err := natsSourceOptions[T](name, client.Kind(), opts)
	if err != nil {
		return err
	}
	if so.prune {
		return fmt.Errorf("%s(%s): WithPrune is for Owns; what is only watched stays", name, client.Kind())
	}
	if err := so.onlyForOwned(); err != nil {
		return fmt.Errorf("%s(%s): %w", name, client.Kind(), err)
	}
	o.Clients.Watch(client, client.EnginePort())
	o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
		keys, err := mapper(e)
		if err != nil {
			return nil, err
		}
		s := source.NewNATS(client, source.NATSConfig{
			Role: "Watches", Owner: e.Kind, Late: so.optional, Joined: true, Changed: e.SourceHealth,
			Resume: e.Resume, Traced: e.Traced(),
		})
		s.SetSink(e.EventsOf(s, e.Filtered(so.predicates), keys, OperationTertiary))
		return s, nil
	})
	return nil
}

// WithSelfOwnership lets the client of the primary be one of those of Owns, so that primaries own primaries: an event
// of one enqueues the other that it names as its owner, and it is deleted with its owner. Without the option New
// refuses that.
func WithSelfOwnership() Option {
	return func(o *engine.Options) error {
		o.Clients.SelfOwnership = true
		return nil
	}
}

func natsSourceOptions[T entity.IEntity](role, kind string, opts []SourceOption) (sourceOptions, error) {
	so, err := applySourceOptions(opts)
	if err != nil {
		return so, fmt.Errorf("%s(%s): %w", role, kind, err)
	}
	if so.deleter != nil {
		return so, fmt.Errorf("%s(%s): WithDeleter is for Kubernetes sources; "+
			"NATS entities are deleted through their client", role, kind)
	}
	if err := errors.Join(so.onlyForKube(), fit(reflect.TypeFor[T](), so.predicates)); err != nil {
		return so, fmt.Errorf("%s(%s): %w", role, kind, err)
	}
	return so, nil
}
