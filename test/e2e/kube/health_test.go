package kube

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// newsOfKube hands on what is told of Kubernetes, as far as there is room. On a machine that starves the heartbeats of the
// NATS server come late, too; that is told as well, and is no business of a test of an informer.
func newsOfKube(news chan<- error) controller.Option {
	return controller.WithOnSourceError(func(source string, err error) {
		if !isKube(source) {
			return
		}
		select {
		case news <- err:
		default:
		}
	})
}

// kubeProblems are those of Stats.Degraded that are about Kubernetes.
func kubeProblems(c *controller.Controller[*site]) (problems []error) {
	for source, err := range c.Stats().Degraded {
		if isKube(source) {
			problems = append(problems, err)
		}
	}
	return problems
}

func isKube(source string) bool { return strings.Contains(source, "Kube") }

// stays checks for a while that a condition holds.
func stays(t testing.TB, d time.Duration, what string, holds func() bool) {
	t.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if !holds() {
			t.Fatalf("no longer so: %s", what)
		}
		select {
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}

// whenPatching returns a client's configuration with which each patch gets f's answer.
func (w *world) whenPatching(f func(*http.Request) (*http.Response, error)) *rest.Config {
	cfg := w.server.Config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPatch {
				return f(req)
			}
			return next.RoundTrip(req)
		})
	})
	return cfg
}

// TestAnOwnDeadlineKeepsItsBackoff: a write that takes longer than its reconcile may, for example because of a slow
// webhook, does not mean that the API server is away.
func TestAnOwnDeadlineKeepsItsBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.use(w.whenPatching(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}))
	maps := w.maps()
	errs := make(chan error, 1000)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := maps.Apply(ctx, w.configMap("settings", "one"))
		errs <- err
		return err
	}, &seen, maps.Owns(), controller.WithReconcileTimeout(200*time.Millisecond),
		controller.WithBackoff(10*time.Minute, 10*time.Minute))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	says(t, <-errs, "deadline exceeded")
	stays(t, 4*time.Second, "one run, and nothing is degraded", func() bool {
		return seen.count("home") == 1 && len(kubeProblems(c)) == 0
	})
}

// TestAWriteThatNeverGetsThroughKeepsItsBackoff while the API server answers others. Then the server is not away, and
// the source is as healthy as before, whether or not the informer gets events.
func TestAWriteThatNeverGetsThroughKeepsItsBackoff(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]bool{"quiet": false, "busy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.use(w.whenPatching(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET }))
			maps := w.maps()
			if busy {
				w.keepChanging("noise")
			}
			news := make(chan error, 1000)
			var seen calls
			c := w.applied(func(ctx context.Context, key string) error {
				_, err := maps.Apply(ctx, w.configMap("settings", "one"))
				return err
			}, &seen, maps.Owns(), controller.WithBackoff(10*time.Minute, 10*time.Minute),
				newsOfKube(news))
			w.run(c)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			natstest.Eventually(t, "it is tried", func() bool { return seen.count("home") == 1 })
			stays(t, 5*time.Second, "it rests, and nothing is reported", func() bool {
				return seen.count("home") == 1 && len(news) == 0
			})
		})
	}
}

// keepChanging writes a ConfigMap all the time, as somebody else, until the test ends.
func (w *world) keepChanging(name string) {
	w.createMap(w.configMap(name, "0"))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			_, err := w.clientset.CoreV1().ConfigMaps(w.namespace).Update(ctx,
				w.configMap(name, fmt.Sprint(n)), metav1.UpdateOptions{})
			if err != nil && ctx.Err() == nil {
				w.t.Errorf("change %s: %v", name, err)
				return
			}
		}
	}()
	w.t.Cleanup(func() {
		stop()
		<-done
	})
}

// TestAnAPIServerThatIsAwayIsReportedUntilItIsBack: the watch tries again silently, but a write fails and is reported.
func TestAnAPIServerThatIsAwayIsReportedUntilItIsBack(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, kubetest.Start(t))
	maps := w.maps(manager)
	var seen calls
	news := make(chan error, 1000)
	c := w.controller(seen.reconciler(nil), maps.Owns(),
		newsOfKube(news))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "the site is reconciled", func() bool { return seen.count("home") == 1 })
	w.server.Kill()
	if _, err := maps.Apply(t.Context(), w.mine("settings", "one")); err == nil {
		t.Error("it is not away")
	}
	natstest.Eventually(t, "it is degraded", func() bool { return len(kubeProblems(c)) == 1 })
	says(t, <-news, "the API server cannot be reached")
	w.othersGoOn(&seen)
	must(t, w.server.Restart())
	m := w.configMap("settings", "one")
	c.SetOwner(m, "home")
	w.createMap(m)
	natstest.Eventually(t, "the event is not lost", func() bool { return seen.with("home", controller.OperationSecondary) == 1 })
	natstest.Eventually(t, "it has healed", func() bool { return len(c.Stats().Degraded) == 0 })
}

// TestAnInformerThatIsStoppedUnderAControllerIsReported: from then on no event comes.
func TestAnInformerThatIsStoppedUnderAControllerIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	informer := w.typed()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	var seen calls
	c := w.controller(seen.reconciler(nil), controller.OwnsKube(informer, controller.WithSourceName("ConfigMaps")))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "the site is reconciled", func() bool { return seen.count("home") == 1 })
	stop()
	<-done
	const source = "OwnsKube ConfigMaps (informer 1)"
	natstest.Eventually(t, "it is degraded", func() bool { return c.Stats().Degraded[source] != nil })
	says(t, c.Stats().Degraded[source], "informer", "stopped")
	w.othersGoOn(&seen)
}

// TestAnOrdinaryShutdownIsNoNews: one signal ends the informers at once, while the last reconcile goes on in the grace
// period and sees its own writes.
func TestAnOrdinaryShutdownIsNoNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	informer := w.typed()
	maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer)
	must(t, err)
	ctx, signal := context.WithCancel(t.Context())
	defer signal()
	informed := make(chan struct{})
	go func() {
		defer close(informed)
		informer.RunWithContext(ctx)
	}()
	news := make(chan error, 100)
	began := make(chan struct{})
	c := w.applied(func(own context.Context, key string) error {
		close(began)
		<-informed
		if _, err := maps.Apply(own, w.configMap(key, "one")); err != nil {
			return err
		}
		select { // for longer than an informer that was stopped goes unreported
		case <-time.After(5 * time.Second):
		case <-own.Done():
		}
		if _, err := maps.Get(w.key(key)); err != nil {
			t.Errorf("it does not see what it wrote: %v", err)
		}
		return own.Err()
	}, new(calls), maps.Owns(), controller.WithGracePeriod(patience),
		newsOfKube(news))
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	must(t, w.sites.Create(t.Context(), newSite("home")))
	<-began
	signal()
	must(t, <-done)
	if w.liveMap("home") == nil {
		t.Error("the last reconcile did not come to its end")
	}
	select {
	case err := <-news:
		t.Errorf("reported: %v", err)
	default:
	}
}

// TestANamespaceThatTerminatesHoldsUpNobodyElse: creations in it are tried until it is there again, and deletes in it
// are done.
func TestANamespaceThatTerminatesHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	errs := make(chan error, 10000)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		if key == "fine" {
			return nil
		}
		_, err := maps.Apply(ctx, w.configMap(key, "one"))
		if err != nil {
			errs <- err
		}
		return err
	}, &seen, maps.Owns())
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("old")))
	natstest.Eventually(t, "it is there", func() bool { _, err := maps.Get(w.key("old")); return err == nil })

	namespaces := w.clientset.CoreV1().Namespaces()
	must(t, namespaces.Delete(t.Context(), w.namespace, metav1.DeleteOptions{}))
	var terminating *corev1.Namespace
	natstest.Eventually(t, "it is terminating", func() bool {
		var err error
		terminating, err = namespaces.Get(t.Context(), w.namespace, metav1.GetOptions{})
		return err == nil && terminating.Status.Phase == corev1.NamespaceTerminating
	})
	must(t, w.sites.Create(t.Context(), newSite("new")))
	says(t, <-errs, "apply configmaps/v1", w.key("new"), "namespace is being deleted")
	w.othersGoOn(&seen)
	must(t, w.sites.Delete(t.Context(), "old"))
	natstest.Eventually(t, "what is to go goes", func() bool { return w.liveMap("old") == nil && c.Stats().TornDown == 1 })

	terminating.Spec.Finalizers = nil // as the namespace controller does when it is empty
	_, err := namespaces.Finalize(t.Context(), terminating, metav1.UpdateOptions{})
	must(t, err)
	natstest.Eventually(t, "it is gone", func() bool {
		_, err := namespaces.Get(t.Context(), w.namespace, metav1.GetOptions{})
		return isNotFound(err)
	})
	_, err = namespaces.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
	}, metav1.CreateOptions{})
	must(t, err)
	natstest.Eventually(t, "what was to be created is there", func() bool { return w.liveMap("new") != nil })
	natstest.Eventually(t, "nothing fails", func() bool { return c.Stats().Failing == 0 })
}

// TestACustomResourceThatIsRemovedWhileAControllerRunsHoldsUpNobodyElse: its source degrades, a teardown finds nothing
// left to delete, and when it is installed again all goes on.
func TestACustomResourceThatIsRemovedWhileAControllerRunsHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource, crd := w.widgets("Namespaced")
	w.install(resource, crd)
	informer := w.unstructured(resource, w.namespace)
	widgets, err := kube.New[*unstructured.Unstructured](w.dynamic, resource, informer)
	must(t, err)
	w.start(informer)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		if key == "fine" {
			return nil
		}
		_, err := widgets.Apply(ctx, w.widget(resource, w.namespace, key, "one"))
		return err
	}, &seen, widgets.Owns())
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "it is there", func() bool { _, err := widgets.Get(w.key("home")); return err == nil })

	must(t, w.dynamic.Resource(crds).Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}))
	natstest.Eventually(t, "its source is degraded", func() bool { return len(kubeProblems(c)) == 1 })
	for _, err := range kubeProblems(c) {
		says(t, err, "install its CustomResourceDefinition")
	}
	w.othersGoOn(&seen)
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })

	_, crd = w.widgets("Namespaced")
	w.install(resource, crd)
	must(t, w.sites.Create(t.Context(), newSite("away")))
	natstest.Eventually(t, "it is there", func() bool {
		_, err := w.dynamic.Resource(resource).Namespace(w.namespace).Get(t.Context(), "away", metav1.GetOptions{})
		return err == nil
	})
	natstest.Eventually(t, "it has healed", func() bool { return len(c.Stats().Degraded) == 0 })
}

// TestKumoriKeepsTheUsersWatchErrorHandler, because the Kumori API has no option for one.
func TestKumoriKeepsTheUsersWatchErrorHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource, _ := w.widgets("Namespaced") // not installed: each list fails
	informer := w.unstructured(resource, w.namespace)
	called := make(chan error, 1000)
	must(t, informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { called <- err }))
	_ = controllerruntime.NewControllerRuntime[
		*site, *entity.None, *entity.None, *entity.None, *entity.None,
		*entity.None, *entity.None, *entity.None, *entity.None](
		"shops", "Site", w.clientset, w.sites, []cache.SharedIndexInformer{informer},
		nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, 0)
	w.start(informer)
	select {
	case <-called:
	case <-time.After(patience):
		t.Fatal("it is not called")
	}
}

// TestRightsInANamespaceAreNotTakenForTheReasonOfASlowList: a user who may list only in one namespace is refused the
// list of all namespaces. That says nothing about an informer in that namespace.
func TestRightsInANamespaceAreNotTakenForTheReasonOfASlowList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("dora", "reader", "get", "list", "watch")
	dora := w.server.ConfigFor("dora")
	asks, err := dynamic.NewForConfig(dora)
	must(t, err)
	slow := rest.CopyConfig(dora)
	slow.Wrap(func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
	})
	w.use(slow)
	informer := w.typed()
	w.start(informer)
	c := w.controller(new(calls).reconciler(nil), controller.WithCacheSyncTimeout(2*time.Second),
		controller.OwnsKube(informer, controller.WithDeleter(kube.Deleter(asks, configMaps))))
	says(t, w.run(c).failed(), "not synced: OwnsKube configmaps/v1",
		"maybe because of missing rights", "in all namespaces")
}
