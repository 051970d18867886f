package worlds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// apiServer is client-go's fake of one, with faults.
type apiServer struct {
	*fake.FakeDynamicClient
	away, lost atomic.Bool

	mu      sync.Mutex
	watches map[*watching]bool
}

// watching is a watch that the server may end.
type watching struct {
	watch.Interface
	once sync.Once
}

func newAPIServer() *apiServer {
	s := &apiServer{FakeDynamicClient: fake.NewSimpleDynamicClient(scheme.Scheme), watches: map[*watching]bool{}}
	reconciletest.GiveIdentities(s.FakeDynamicClient)
	s.PrependReactor("*", "*", func(a clienttesting.Action) (bool, kuberuntime.Object, error) {
		if s.away.Load() {
			return true, nil, apierrors.NewServiceUnavailable("it is away")
		}
		return false, nil, nil
	})
	reactors := s.ReactionChain[1:]
	s.PrependReactor("*", "*", func(a clienttesting.Action) (bool, kuberuntime.Object, error) {
		if !s.lost.Load() || a.GetVerb() == "list" || a.GetVerb() == "get" {
			return false, nil, nil
		}
		for _, r := range reactors { // it is done, and the answer is lost
			if r.Handles(a) {
				if handled, _, _ := r.React(a); handled {
					break
				}
			}
		}
		return true, nil, apierrors.NewTimeoutError("the answer is lost", 1)
	})
	watchers := s.WatchReactionChain
	s.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if s.away.Load() {
			return true, nil, apierrors.NewServiceUnavailable("it is away")
		}
		for _, r := range watchers {
			if handled, w, err := r.React(a); handled {
				if err == nil {
					w = s.watched(w)
				}
				return true, w, err
			}
		}
		return false, nil, nil
	})
	return s
}

// watched is a watch that endWatches ends.
func (s *apiServer) watched(w watch.Interface) watch.Interface {
	one := &watching{Interface: w}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[one] = true
	return one
}

func (w *watching) Stop() { w.once.Do(w.Interface.Stop) }

// endWatches ends all watches, as a server does that restarts.
func (s *apiServer) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.Stop()
		delete(s.watches, w)
	}
}

// byHand returns the maps as an administrator sees them.
func (s *apiServer) byHand() dynamic.ResourceInterface {
	return s.Resource(configMaps).Namespace("default")
}

// settings are sites with a ConfigMap each in Kubernetes, beside their pages.
func settings(t *testing.T, p Plan) Subject {
	server := newAPIServer()
	s := sites(t, p)
	s.Faults = []func(context.Context, *rand.Rand){
		func(ctx context.Context, _ *rand.Rand) {
			server.away.Store(true)
			server.endWatches()
			<-ctx.Done()
			server.away.Store(false)
		},
		func(ctx context.Context, _ *rand.Rand) {
			server.lost.Store(true)
			<-ctx.Done()
			server.lost.Store(false)
		},
		func(context.Context, *rand.Rand) { server.endWatches() },
		func(ctx context.Context, r *rand.Rand) {
			_ = server.byHand().Delete(ctx, p.Key(r.IntN(p.Keys)), metav1.DeleteOptions{})
		},
		func(ctx context.Context, r *rand.Rand) {
			m, err := server.byHand().Get(ctx, p.Key(r.IntN(p.Keys)), metav1.GetOptions{})
			if err == nil {
				m.Object["data"] = map[string]any{"title": "edited"}
				_, _ = server.byHand().Update(ctx, m, metav1.UpdateOptions{})
			}
		},
	}
	s.Start = server.start
	s.Agrees = func(s Snapshot) (says, left []string) {
		says, left = agreeSites(s)
		more, leftMore := server.agrees(s)
		return append(says, more...), append(left, leftMore...)
	}
	return s
}

// start makes a replica that applies the ConfigMaps, and then the pages.
func (s *apiServer) start(ctx context.Context, p *Process) (Controller, error) {
	sites, pages, err := clientsOf(ctx, p)
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(s, 0)
	handle, err := kube.New[*corev1.ConfigMap](s, configMaps, factory.ForResource(configMaps).Informer(),
		kube.WithFieldManager("sites"))
	if err != nil {
		return nil, err
	}
	informing, stop := context.WithCancel(context.Background())
	factory.Start(informing.Done())
	p.Closing(func() { stop(); s.endWatches(); factory.Shutdown() })
	pagesOf := reconcilerOf(p, sites, pages)
	r := controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		one, err := sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, err
		}
		m := &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: req.Key},
		}
		time.Sleep(time.Millisecond) // calls take time: two replicas that undo each other's would stop the clock
		if _, err := handle.CreateOrUpdate(ctx, m, func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"title": one.Spec.Title}
			return nil
		}); err != nil {
			return controller.Result{}, err
		}
		return pagesOf.Reconcile(ctx, req)
	})
	return controller.New("sites", sites, p.Reconciler(r), append(p.Options(),
		controller.Owns(pages, controller.WithPrune()), handle.Owns())...)
}

// agrees wants a ConfigMap for each site, and no others.
func (s *apiServer) agrees(all Snapshot) (says, left []string) {
	list, err := s.byHand().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}, nil
	}
	there := map[string]string{}
	for _, m := range list.Items {
		data, _ := m.Object["data"].(map[string]any)
		there[m.GetName()] = fmt.Sprint(data["title"])
		if _, ok := all.Primaries[m.GetName()]; !ok {
			left = append(left, fmt.Sprintf("the ConfigMap of %s, which is gone", m.GetName()))
		}
	}
	for key, doc := range all.Primaries {
		if title := titleOf(doc); there[key] != title {
			says = append(says, fmt.Sprintf("the ConfigMap of %s has the title %q, want %q", key, there[key], title))
		}
	}
	return says, left
}
