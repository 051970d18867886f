package worlds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// apiServer is client-go's fake of one, with faults, and with a history as a real one has it.
type apiServer struct {
	*fake.FakeDynamicClient
	away, lost atomic.Bool

	mu      sync.Mutex
	version int // of the latest write
	history []written
	watches map[*watching]bool
}

// written is what a watch shows of a write.
type written struct {
	version int
	event   watch.Event
}

// watching is a watch that the server may end.
type watching struct {
	server *apiServer
	events chan watch.Event // closed once the watch has ended
}

// longestHistory is more than a night writes.
const longestHistory = 10_000

func newAPIServer() *apiServer {
	s := &apiServer{
		FakeDynamicClient: fake.NewSimpleDynamicClient(scheme.Scheme), version: 1, watches: map[*watching]bool{},
	}
	reconciletest.GiveIdentities(s.FakeDynamicClient)
	reactors := s.ReactionChain
	s.PrependReactor("*", "*", func(a clienttesting.Action) (bool, kuberuntime.Object, error) {
		if s.away.Load() {
			return true, nil, apierrors.NewServiceUnavailable("it is away")
		}
		obj, err := s.does(a, reactors)
		if s.lost.Load() && a.GetVerb() != "list" && a.GetVerb() != "get" { // it is done
			return true, nil, apierrors.NewTimeoutError("the answer is lost", 1)
		}
		return true, obj, err
	})
	s.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if s.away.Load() {
			return true, nil, apierrors.NewServiceUnavailable("it is away")
		}
		return true, s.watch(a.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion), nil
	})
	return s
}

// does does what a request asks for, and keeps what it writes. The fake has one request at a time.
func (s *apiServer) does(a clienttesting.Action, reactors []clienttesting.Reactor) (kuberuntime.Object, error) {
	var before kuberuntime.Object
	if del, ok := a.(clienttesting.DeleteAction); ok {
		before, _ = s.Tracker().Get(a.GetResource(), a.GetNamespace(), del.GetName())
	}
	var obj kuberuntime.Object
	var err error
	for _, r := range reactors {
		if handled := false; r.Handles(a) {
			if handled, obj, err = r.React(a); handled {
				break
			}
		}
	}
	if err != nil {
		return obj, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch a.GetVerb() {
	case "list":
		obj.(*unstructured.UnstructuredList).SetResourceVersion(strconv.Itoa(s.version))
	case "create":
		s.wroteLocked(watch.Added, obj)
	case "update", "patch":
		s.wroteLocked(watch.Modified, obj)
	case "delete":
		s.wroteLocked(watch.Deleted, before)
	}
	return obj, nil
}

// wroteLocked keeps a write, and shows it to all watches. A delete is at the version of the write before it.
func (s *apiServer) wroteLocked(is watch.EventType, obj kuberuntime.Object) {
	m := obj.DeepCopyObject().(*unstructured.Unstructured)
	if is == watch.Deleted {
		m.SetResourceVersion(strconv.Itoa(s.version))
	}
	s.version, _ = strconv.Atoi(m.GetResourceVersion())
	s.history = append(s.history, written{s.version, watch.Event{Type: is, Object: m}})
	for w := range s.watches {
		w.events <- s.history[len(s.history)-1].event
	}
}

// watch shows all that was written since a version, as one does that a real server answers: client-go's own fake shows no
// delete of between a list and a watch, and nothing of between two watches. What was deleted at that version may be shown
// again.
func (s *apiServer) watch(since string) watch.Interface {
	from, _ := strconv.Atoi(since)
	w := &watching{s, make(chan watch.Event, longestHistory)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[w] = true
	for _, one := range s.history {
		if one.version > from || one.version == from && one.event.Type == watch.Deleted {
			w.events <- one.event
		}
	}
	return w
}

// ResultChan implements watch.Interface.
func (w *watching) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watching) Stop() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.endLocked(w)
}

func (s *apiServer) endLocked(w *watching) {
	if s.watches[w] {
		close(w.events)
		delete(s.watches, w)
	}
}

// endWatches ends all watches, as a server does that restarts.
func (s *apiServer) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		s.endLocked(w)
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
