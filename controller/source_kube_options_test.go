package controller

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

var errDone = errors.New("done")

// TestOptionsOfKubernetesSourcesAreRefusedElsewhere, where they would do nothing.
func TestOptionsOfKubernetesSourcesAreRefusedElsewhere(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		handler := WithWatchErrorHandler(func(context.Context, *cache.Reflector, error) {})
		for name, opt := range map[string]SourceOption{"WithSourceName": WithSourceName("x"),
			"WithWatchErrorHandler": handler} {
			for _, where := range []Option{Owns(w.pages(), opt), WithPrimary(opt)} {
				_, err := New("sites", w.sites(), noReconciler, where)
				says(t, err, name, "Kubernetes sources")
			}
		}
	})
}

// TestAWatchErrorHandlerOfTheUserIsCalledToo, instead of client-go's.
func TestAWatchErrorHandlerOfTheUserIsCalledToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		informer := cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, errDone },
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				return nil, errDone
			},
		}, &corev1.ConfigMap{}, 0, cache.Indexers{})
		called := make(chan error, 100)
		c, err := New("sites", started(w, w.sites()), noReconciler, shortSync(), OwnsKube(informer, WithWatchErrorHandler(
			func(_ context.Context, _ *cache.Reflector, err error) {
				select {
				case called <- err:
				default:
				}
			})))
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
		says(t, w.run(c).failed(), "OwnsKube ConfigMap (informer 1)", "done")
		cancel()
		<-done
		says(t, <-called, "done")
	})
}

// TestTheWatchErrorHandlerOfAStoppedControllerIsNotCalledAnyMore: an informer may outlive many controllers.
func TestTheWatchErrorHandlerOfAStoppedControllerIsNotCalledAnyMore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		informer := &withHandler{SharedIndexInformer: stillInformer()}
		called := map[string]int{}
		controller := func(name string) *Controller[*site] {
			c, err := New("sites", started(w, w.sites()), noReconciler, shortSync(),
				OwnsKube(informer, WithWatchErrorHandler(
					func(context.Context, *cache.Reflector, error) { called[name]++ })))
			must(t, err)
			return c
		}
		stopped := controller("stopped")
		controller("other")
		says(t, w.run(stopped).failed(), "not synced: OwnsKube")
		informer.handler(t.Context(), nil, errDone)
		if want := map[string]int{"other": 1}; !reflect.DeepEqual(called, want) {
			t.Errorf("called: %v, want %v", called, want)
		}
	})
}

// withHandler is an informer whose watch error handler can be called.
type withHandler struct {
	cache.SharedIndexInformer
	handler cache.WatchErrorHandlerWithContext
}

func (w *withHandler) SetWatchErrorHandlerWithContext(h cache.WatchErrorHandlerWithContext) error {
	w.handler = h
	return nil
}
