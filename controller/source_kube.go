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

// OwnsKube makes the objects of a Kubernetes informer secondaries of the primary. The informer is the user's to start
// and to stop; it may be one of typed objects, of unstructured ones, or of metadata only. With a deleter (WithDeleter) cascade
// and sweep delete those whose owner is gone; without one they are left. Before a teardown ends, a KubeDeleter asks the API
// server, in all namespaces, for what the cache is behind with; a user who may not list there has to rely on the cache.
//
// Who is the owner says an annotation, and Kubernetes copies annotations: those of a Deployment to its ReplicaSets. In an
// informer of such copies they count as secondaries, and go with the primary.
//
// To be able to say why an informer does not sync or falls behind, New sets its watch error handler, if it has not been
// started; see WithWatchErrorHandler.
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
		if so.deleter != nil {
			o.TeardownOptions = append(o.TeardownOptions, "WithDeleter")
		}
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			s := so.kubeSource(e, informer, "OwnsKube", true)
			s.SetSink(e.EventsOf(s, so.predicates, e.Owners, OperationSecondary))
			return s, nil
		})
		return nil
	}
}

// WatchesKube makes the objects of a Kubernetes informer tertiaries: an event of one enqueues the primaries that keys
// returns for it, on an update for the old and for the new one. keys must not modify the object; if it fails it is
// called again, with backoff, for the same event.
func WatchesKube(informer cache.SharedIndexInformer, keys func(context.Context, metav1.Object) ([]string, error), opts ...SourceOption) Option {
	return func(o *engine.Options) error {
		if guard.IsNil(informer) || keys == nil {
			return errors.New("WatchesKube: an informer and a function that returns keys are needed")
		}
		so, err := applySourceOptions(opts)
		if err != nil {
			return fmt.Errorf("WatchesKube: %w", err)
		}
		if so.deleter != nil {
			return errors.New("WatchesKube: WithDeleter is for OwnsKube; what is only watched is never deleted")
		}
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			s := so.kubeSource(e, informer, "WatchesKube", false)
			s.SetSink(e.EventsOf(s, so.predicates, keys, OperationTertiary))
			return s, nil
		})
		return nil
	}
}

// kubeSource makes the next Kubernetes source of an engine.
func (o *sourceOptions) kubeSource(
	e *engine.Engine, informer cache.SharedIndexInformer, role string, owned bool,
) *kubesource.Source {
	host, n := e.KubeSources()
	return kubesource.New(informer, host, kubesource.Config{
		Role: role, Number: n, Name: o.name, Kind: e.Kind, Owned: owned, Deleter: o.deleter,
		WatchErrorHandler: o.watchErrorHandler,
	})
}

// WithSourceName names a Kubernetes source in errors, logs and Stats. The default is the resource where the deleter knows
// it, else the type of the informer's objects.
func WithSourceName(name string) SourceOption {
	return func(o *sourceOptions) error {
		if name == "" {
			return errors.New(`WithSourceName(""): a name is needed; leave the option away instead`)
		}
		o.name = name
		return nil
	}
}

// WithWatchErrorHandler has h called for each list or watch of a Kubernetes source's informer that fails, until the
// controller stops, instead of client-go's handler, which logs. An informer has one watch error handler, which cannot be read, and which can only be set
// before it is started. New, and NewKube, set it, to be able to say in Stats and in Run's error why a cache does not follow;
// so one that was set before is replaced: give it here. Where the informer has been started already nothing is set, and what
// is wrong shows only in the log and, by asking the API server, in the error of a Run whose source does not sync. The Kumori
// API, which has no place for options, leaves the handler of its informers alone, unless a handle (NewKube) has set it.
func WithWatchErrorHandler(h cache.WatchErrorHandlerWithContext) SourceOption {
	return func(o *sourceOptions) error {
		if h == nil {
			return errors.New("WithWatchErrorHandler(nil): a function is needed; leave the option away instead")
		}
		o.watchErrorHandler = h
		return nil
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

// Deleter deletes objects of a Kubernetes source for cascade and sweep. Delete must ask for what was seen (a
// precondition on uid and resourceVersion) and may return IsNotFound, which is success.
type Deleter interface {
	Delete(ctx context.Context, obj metav1.Object) error
}

// DeleterFunc is a function as a Deleter.
type DeleterFunc func(ctx context.Context, obj metav1.Object) error

// Delete calls the function.
func (f DeleterFunc) Delete(ctx context.Context, obj metav1.Object) error { return f(ctx, obj) }
