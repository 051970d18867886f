package controllerruntime

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// kumoriOptions sets what the Kumori API does differently from package controller.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) kumoriOptions(o *engine.Options) error {
	o.WithoutCascade = true
	o.Garbage = r.garbage
	o.Attach = func(e *engine.Engine) { r.engine = e }
	return nil
}

// handlerSink hands the objects themselves to the custom controller.
type handlerSink struct {
	source fmt.Stringer
	handle func(obj any)
}

func (s *handlerSink) call(ctx context.Context, obj any) {
	if err := guard.Call(func() error { s.handle(obj); return nil }); err != nil {
		klog.FromContext(ctx).Error(err, "Handler of the custom controller panicked", "source", s.source.String())
	}
}

func (s *handlerSink) Created(ctx context.Context, obj metav1.Object, _ bool) { s.call(ctx, obj) }

// Updated also hands over the old object if it had another owner, who would otherwise not learn of its loss.
func (s *handlerSink) Updated(ctx context.Context, oldObj, newObj metav1.Object) {
	if entity.OwnerIndexValueOf(oldObj) != entity.OwnerIndexValueOf(newObj) {
		s.call(ctx, oldObj)
	}
	s.call(ctx, newObj)
}

func (s *handlerSink) Deleted(ctx context.Context, obj any) { s.call(ctx, obj) }

func kumoriNats[T entity.IEntity](client entity.IEntityClient[T], role string, handle func(any)) controller.Option {
	return func(o *engine.Options) error {
		if guard.IsNil(client) {
			return nil // a slot that is not used
		}
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			s := source.NewNATS(client, source.NATSConfig{
				Role: role, Owner: e.Kind, Owned: role == "secondary", Open: true, Joined: true,
				Changed: e.SourceHealth, Resume: e.Resume,
			})
			s.SetSink(&handlerSink{source: s, handle: handle})
			return s, nil
		})
		return nil
	}
}

func kumoriKube(informer cache.SharedIndexInformer, number int, role string, handle func(any)) controller.Option {
	return func(o *engine.Options) error {
		if guard.IsNil(informer) {
			return fmt.Errorf("%s shared informer %d is nil", role, number)
		}
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			host, n := e.KubeHost()
			s := kubesource.New(informer, host, kubesource.Config{
				Role: role, Number: n, Kind: e.Kind, Owned: role == "secondary", Open: true,
				KeepWatchErrorHandler: true,
			})
			s.SetSink(&handlerSink{source: s, handle: handle})
			return s, nil
		})
		return nil
	}
}

// kumoriExternal hands over external resources as such.
func kumoriExternal(client external.IExternalClient, handle func(any)) controller.Option {
	return func(o *engine.Options) error {
		inner, config, err := apisource.Check(client)
		if err != nil {
			return fmt.Errorf("secondary external client %s: %w", apisource.KindOf(inner), err)
		}
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			s := e.APIs.New("secondary", inner, config)
			sink := &handlerSink{source: s, handle: func(obj any) { handle(obj.(*apisource.Object).Resource) }}
			s.Handlers = apisource.Handlers{
				Events: sink,
				Pushed: func(owner string) {
					objects, _ := s.OwnedBy(owner) // never fails
					for _, obj := range objects {
						sink.call(context.Background(), obj)
					}
				},
				Missing: func(owner string) {
					sink.call(context.Background(), &apisource.Object{Resource: external.Resource{OwnerKey: owner}})
				},
			}
			return s, e.APIs.Add(s)
		})
		return nil
	}
}
