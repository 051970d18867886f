package controllerruntime

import (
	"context"
	"fmt"
	"slices"

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
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) kumoriOptions(o *engine.Options) error {
	o.WithoutCascade = true
	o.Garbage = r.garbage
	o.Attach = func(e *engine.Engine) { r.engine = e }
	return nil
}

// handlerSink hands the objects themselves to the custom controller.
type handlerSink struct {
	source fmt.Stringer
	handle func(obj any)
	update func(oldObj, newObj any) (handled bool) // nil handles none
	note   func(before, after metav1.Object)       // is called with each event before the handler; may be nil
}

func (s *handlerSink) noted(before, after metav1.Object) {
	if s.note != nil {
		s.note(before, after)
	}
}

func (s *handlerSink) call(ctx context.Context, obj any) { s.guarded(ctx, func() { s.handle(obj) }) }

func (s *handlerSink) guarded(ctx context.Context, call func()) {
	if err := guard.Call(func() error { call(); return nil }); err != nil {
		klog.FromContext(ctx).Error(err, "Handler of the custom controller panicked", "source", s.source.String())
	}
}

func (s *handlerSink) Created(ctx context.Context, obj metav1.Object, _ bool) {
	s.noted(nil, obj)
	s.call(ctx, obj)
}

// Updated also hands over the old object if it had another owner, who would otherwise not learn of its loss.
func (s *handlerSink) Updated(ctx context.Context, oldObj, newObj metav1.Object) {
	s.noted(oldObj, newObj)
	if s.update != nil {
		handled := true // also where it panics
		s.guarded(ctx, func() { handled = s.update(oldObj, newObj) })
		if handled {
			return
		}
	}
	if !entity.SameOwner(oldObj, newObj) {
		s.call(ctx, oldObj)
	}
	s.call(ctx, newObj)
}

func (s *handlerSink) Deleted(ctx context.Context, obj any) {
	if gone, ok := source.MetaObject(obj); ok {
		s.noted(gone, nil)
	}
	s.call(ctx, obj)
}

const (
	secondaryRole = "secondary"
	tertiaryRole  = "tertiary"
)

// role is what slots are for, and the clients and informers in them so far.
type role struct {
	name   string
	handle func(obj any)
	update func(oldObj, newObj any) (handled bool)
	filled []any
}

// takes reports whether a slot is a source: it is not empty, and no slot before it has the same.
func (r *role) takes(filling any) bool {
	same := func(other any) bool { return engine.SameClient(filling, other) }
	if guard.IsNil(filling) || slices.ContainsFunc(r.filled, same) {
		return false
	}
	r.filled = append(r.filled, filling)
	return true
}

func (r *role) owned() bool { return r.name == secondaryRole }

func (r *role) sinkOf(e *engine.Engine, s fmt.Stringer) *handlerSink {
	sink := &handlerSink{source: s, handle: r.handle, update: r.update}
	if r.owned() {
		sink.note = func(before, after metav1.Object) { e.TellOwners(s, before, after) }
	}
	return sink
}

// noSource is for a slot that is none.
func noSource(*engine.Options) error { return nil }

func kumoriNats[T entity.IEntity](r *role, client entity.IEntityClient[T]) controller.Option {
	if !r.takes(client) {
		return noSource
	}
	return func(o *engine.Options) error {
		if r.owned() {
			o.Clients.Own(client, client.EnginePort(), source.SharesCache(client))
		}
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			s := source.NewNATS(client, source.NATSConfig{
				Role: r.name, Owner: e.Kind, Owned: r.owned(), Open: true, Joined: true,
				Changed: e.SourceHealth, Resume: e.Resume,
			})
			s.SetSink(r.sinkOf(e, s))
			return s, nil
		})
		return nil
	}
}

func kumoriKube(r *role, informer cache.SharedIndexInformer, number int) controller.Option {
	if guard.IsNil(informer) {
		return func(*engine.Options) error { return fmt.Errorf("%s shared informer %d is nil", r.name, number) }
	}
	if !r.takes(informer) {
		return noSource
	}
	return func(o *engine.Options) error {
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			host, n := e.KubeHost()
			s := kubesource.New(informer, host, kubesource.Config{
				Role: r.name, Number: n, Kind: e.Kind, Owned: r.owned(), Open: true,
				KeepWatchErrorHandler: true,
			})
			s.SetSink(r.sinkOf(e, s))
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
			s := e.APIs.New(secondaryRole, inner, config)
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
			return s, nil
		})
		return nil
	}
}
