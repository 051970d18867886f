package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// OwnsKube makes the objects of a Kubernetes informer secondaries of the primary: an event of one enqueues the primary
// that it names as its owner, with OperationSecondary. The informer is the user's to start and to stop. Its objects may
// be typed, unstructured or metadata only. With WithDeleter, cascade and sweep delete the objects whose owner is gone;
// without it they stay. A handle of package kube has an Owns method, which calls OwnsKube with informer and deleter.
//
// A teardown does not rely on the informer's cache alone. Before it ends, the deleter lists the primary's objects at
// the API server, by label and in all namespaces: one request for each source and teardown. So a deleter reaches the
// whole cluster, not just what its informer shows; what is to stay has to be in another OwnsKube, without a deleter.
// Where the user may not list in all namespaces, it lists in those of the source's objects and in the primary's. Where
// that is refused, too, for half a minute, the cache decides, and Stats().Unlisted counts the teardown. Objects that
// are being deleted are waited for; one that stays for longer than a moment is named in Stats().Degraded and in the
// primary's record, with its finalizers.
//
// Annotations and labels name the owner. Each mark counts alone, so an object that has lost the
// annotations, or the labels, is still found. One that has lost both is never deleted; where a handle wrote it,
// Stats().Unmarked counts it. Nor is one whose labels name another owner or installation than its annotations do;
// Stats().Contradicting counts it. Labels hold only a hash of a long key, so events of an object with such labels alone
// reach its owner only while that exists.
//
// An owner in another namespace does not count, see WithOwnersInOtherNamespaces; nor does one that never was, see
// Stats.NeverWas.
//
// Kubernetes copies annotations and labels, such as the annotations of a Deployment to its ReplicaSets. In an informer
// of such copies they count as secondaries, and go with the primary.
//
// New sets the informer's watch error handler if the informer has not been started, so that it can say why a cache does
// not sync or falls behind. See WithWatchErrorHandler.
func OwnsKube(informer cache.SharedIndexInformer, opts ...SourceOption) Option {
	return func(o *engine.Options) error {
		if guard.IsNil(informer) {
			return errors.New("OwnsKube(nil): an informer is needed")
		}
		so, err := applySourceOptions(opts)
		if err != nil {
			return fmt.Errorf("OwnsKube: %w", err)
		}
		if d, ok := so.deleter.(kubesource.Validator); ok {
			if err := d.Validate(); err != nil {
				return fmt.Errorf("OwnsKube: %w", err)
			}
		}
		if so.prune && so.deleter == nil {
			return errors.New("OwnsKube: WithPrune needs WithDeleter, which says how objects are deleted")
		}
		so.needsTeardown(o)
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			if err := so.isProvable(e); err != nil {
				return nil, err
			}
			s := so.kubeSource(e, informer, "OwnsKube", true)
			s.SetSink(e.EventsOf(s, e.Filtered(so.predicates), e.OwnersIn(s), OperationSecondary))
			return s, nil
		})
		return nil
	}
}

// WatchesKube makes the objects of a Kubernetes informer tertiaries, which are read and never deleted. An event of one
// enqueues the primaries that keys returns for it; an update calls keys for the old and for the new object. keys must
// not modify the object. If keys fails, it is called again, with backoff, for the same event.
func WatchesKube(
	informer cache.SharedIndexInformer,
	keys func(context.Context, metav1.Object) ([]string, error),
	opts ...SourceOption,
) Option {
	return func(o *engine.Options) error {
		if guard.IsNil(informer) || keys == nil {
			return errors.New("WatchesKube: an informer and a function that returns keys are needed")
		}
		given := func(*engine.Engine) (source.Mapper, error) { return keys, nil }
		return watchKube(o, informer, "WatchesKube", opts, given)
	}
}

// WatchesKubeIndexed is WatchesIndexed for the objects of a Kubernetes informer. The key of one is "namespace/name", or
// "name" where it is in no namespace.
func WatchesKubeIndexed(informer cache.SharedIndexInformer, index string, opts ...SourceOption) Option {
	return func(o *engine.Options) error {
		if guard.IsNil(informer) {
			return errors.New("WatchesKubeIndexed: an informer is needed")
		}
		return watchKube(o, informer, "WatchesKubeIndexed", opts, func(e *engine.Engine) (source.Mapper, error) {
			keys, err := e.Indexed(index)
			if err != nil {
				return nil, fmt.Errorf("WatchesKubeIndexed: the primary's %w", err)
			}
			return keys, nil
		})
	}
}

func watchKube(
	o *engine.Options, informer cache.SharedIndexInformer, name string, opts []SourceOption,
	mapper func(*engine.Engine) (source.Mapper, error),
) error {
	so, err := applySourceOptions(opts)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if so.deleter != nil || so.prune {
		return fmt.Errorf("%s: WithDeleter and WithPrune are for OwnsKube; what is only watched is never deleted", name)
	}
	if err := so.onlyForOwned(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
		keys, err := mapper(e)
		if err != nil {
			return nil, err
		}
		s := so.kubeSource(e, informer, "WatchesKube", false)
		s.SetSink(e.EventsOf(s, e.Filtered(so.predicates), keys, OperationTertiary))
		return s, nil
	})
	return nil
}

// kubeSource makes the next Kubernetes source of an engine.
func (o *sourceOptions) kubeSource(
	e *engine.Engine, informer cache.SharedIndexInformer, role string, owned bool,
) *kubesource.Source {
	host, n := e.KubeHost()
	return kubesource.New(informer, host, kubesource.Config{
		Role: role, Number: n, Name: o.name, Kind: e.Kind, Owned: owned, Deleter: o.deleter,
		Prune: o.prune, Open: o.open, Optional: o.optional,
		WatchErrorHandler: o.watchErrorHandler,
	})
}

// WithSourceName names a Kubernetes source in errors, logs and Stats. The default is the resource where the deleter
// knows it, else the type of the informer's objects.
func WithSourceName(name string) SourceOption {
	return func(o *sourceOptions) error {
		if name == "" {
			return errors.New(`WithSourceName(""): a name is needed; leave the option away instead`)
		}
		o.name = name
		return nil
	}
}

// WithWatchErrorHandler has h called for each failed list or watch of a Kubernetes source's informer, until the
// controller stops. client-go's own handler, which logs, is not called then.
//
// An informer has one watch error handler, which can only be set before the informer is started, and cannot be read.
// New and kube.New set it, so that Stats and the error of Run can say why a cache does not follow. A handler that was
// set before is replaced: give it here instead. If the informer has been started already, nothing is set. What is wrong
// then shows in the log only; Run asks the API server for the reason if the source does not sync.
//
// The Kumori API has no place for options of sources. It leaves the handler of its informers alone, unless kube.New has
// set it.
func WithWatchErrorHandler(h cache.WatchErrorHandlerWithContext) SourceOption {
	return func(o *sourceOptions) error {
		if h == nil {
			return errors.New("WithWatchErrorHandler(nil): a function is needed; leave the option away instead")
		}
		o.watchErrorHandler = h
		return nil
	}
}

// needsTeardown notes which options mean nothing WithoutTeardown.
func (o *sourceOptions) needsTeardown(all *engine.Options) {
	if o.deleter != nil {
		all.TeardownOptions = append(all.TeardownOptions, "WithDeleter")
	}
	if o.prune {
		all.TeardownOptions = append(all.TeardownOptions, "WithPrune")
	}
}

// onlyForKube refuses what would do nothing for a source in NATS.
func (o *sourceOptions) onlyForKube() error {
	switch {
	case o.name != "":
		return errors.New("WithSourceName is for Kubernetes sources; one in NATS is named by its kind and bucket")
	case o.watchErrorHandler != nil:
		return errors.New("WithWatchErrorHandler is for Kubernetes sources; WithOnSourceError tells of those in NATS")
	}
	return nil
}

// Deleter deletes objects of a Kubernetes source for cascade and sweep. Delete must delete only the object that was
// seen, by preconditions on uid and resourceVersion. It may return IsNotFound, which counts as success; after another
// error it is called again. kube.Deleter makes one. WithOwnerProof needs one that also has the method
// GroupResource() schema.GroupResource, which tells the resource of the objects.
type Deleter interface {
	Delete(ctx context.Context, obj metav1.Object) error
}

// DeleterFunc makes a function a Deleter.
type DeleterFunc func(ctx context.Context, obj metav1.Object) error

// Delete calls the function.
func (f DeleterFunc) Delete(ctx context.Context, obj metav1.Object) error { return f(ctx, obj) }
