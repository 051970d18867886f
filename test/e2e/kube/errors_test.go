package kube

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// applied makes a controller that calls f for each site that exists.
func (w *world) applied(
	f func(context.Context, string) error, seen *calls, opts ...controller.Option,
) *controller.Controller[*site] {
	return w.controller(seen.reconciler(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		if req.Operations.Has(controller.OperationDelete) {
			return controller.Result{}, nil
		}
		return controller.Result{}, f(ctx, req.Key)
	}), opts...)
}

// othersGoOn checks that a site that does not need the broken part is reconciled meanwhile.
func (w *world) othersGoOn(seen *calls) {
	w.t.Helper()
	must(w.t, w.sites.Create(w.t.Context(), newSite("fine")))
	natstest.Eventually(w.t, "another site is reconciled", func() bool { return seen.count("fine") > 0 })
}

// TestAMissingCustomResourceIsAClearErrorUntilItIsInstalled: the site is retried, others go on.
func TestAMissingCustomResourceIsAClearErrorUntilItIsInstalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource, crd := w.widgets("Namespaced")
	informer := w.unstructured(resource, w.namespace)
	widgets, err := kube.New[*unstructured.Unstructured](w.dynamic, resource, informer)
	must(t, err)
	errs := make(chan error, 1000)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		if key != "home" {
			return nil
		}
		_, err := widgets.Apply(ctx, w.widget(resource, w.namespace, "a", "one"))
		select {
		case errs <- err:
		default:
		}
		return err
	}, &seen)
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	first := <-errs
	says(t, first, "apply widgets."+resource.Group+"/v1", w.key("a"), "install its CustomResourceDefinition")
	if !apierrors.IsNotFound(first) {
		t.Errorf("IsNotFound does not hold for it: %v", first)
	}
	w.othersGoOn(&seen)
	w.install(resource, crd)
	natstest.Eventually(t, "it is there", func() bool {
		_, err := w.dynamic.Resource(resource).Namespace(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
		return err == nil
	})
}

// TestACustomResourceThatIsInstalledLateIsWaitedFor: Run waits for its informer, and then works.
func TestACustomResourceThatIsInstalledLateIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource, crd := w.widgets("Namespaced")
	informer := w.unstructured(resource, w.namespace)
	widgets, err := kube.New[*unstructured.Unstructured](w.dynamic, resource, informer)
	must(t, err)
	var seen calls
	news := make(chan error, 100)
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := widgets.Apply(ctx, w.widget(resource, w.namespace, key, "one"))
		return err
	}, &seen, widgets.Owns(), newsOfKube(news))
	w.start(informer)
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	select {
	case err := <-news:
		says(t, err, "install its CustomResourceDefinition")
	case <-time.After(patience):
		t.Fatal("nobody said what Run waits for")
	}
	if n := seen.count("home"); n != 0 {
		t.Errorf("reconciled %d times before the cache has synced", n)
	}
	w.install(resource, crd)
	natstest.Eventually(t, "it is there", func() bool { _, err := widgets.Get(w.key("home")); return err == nil })
	natstest.Eventually(t, "it has healed", func() bool { return len(c.Stats().Degraded) == 0 })
}

// TestACustomResourceThatIsInstalledLateMayBeOptional: Run begins without it, and a teardown that needs it waits.
func TestACustomResourceThatIsInstalledLateMayBeOptional(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource, crd := w.widgets("Namespaced")
	informer := w.unstructured(resource, w.namespace)
	widgets, err := kube.New[*unstructured.Unstructured](w.dynamic, resource, informer)
	must(t, err)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		if !widgets.HasSynced() {
			return nil
		}
		_, err := widgets.Apply(ctx, w.widget(resource, w.namespace, key, "one"))
		return err
	}, &seen, widgets.Owns(controller.WithOptional()))
	w.start(informer)
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	must(t, w.sites.Create(t.Context(), newSite("away")))
	natstest.Eventually(t, "both are reconciled without it", func() bool {
		return seen.count("home") > 0 && seen.count("away") > 0
	})
	natstest.Eventually(t, "it is told", func() bool { return len(kubeProblems(c)) == 1 })
	for _, err := range kubeProblems(c) {
		says(t, err, "it is optional", "install its CustomResourceDefinition")
	}
	must(t, w.sites.Delete(t.Context(), "away"))
	natstest.Eventually(t, "the teardown waits, and says so", func() bool { return c.Stats().Degraded["teardown"] != nil })
	if c.Stats().TornDown != 0 {
		t.Error("a teardown has ended that could not know what there is")
	}
	w.install(resource, crd)
	natstest.Eventually(t, "it is there", func() bool { _, err := widgets.Get(w.key("home")); return err == nil })
	natstest.Eventually(t, "the teardown ends", func() bool { return c.Stats().TornDown == 1 })
	natstest.Eventually(t, "it has healed", func() bool { return len(c.Stats().Degraded) == 0 })
}

// TestAnInformerThatCannotListFailsRunByName, and the error says why: the resource is missing, or RBAC forbids it. It
// does not matter whether the informer was started before the controller was made or after.
func TestAnInformerThatCannotListFailsRunByName(t *testing.T) {
	t.Parallel()
	for name, started := range map[string]bool{"started before": true, "started after": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for reason, words := range map[string][]string{
				"missing":   {"install its CustomResourceDefinition"},
				"forbidden": {"forbidden", "alice", "grant the verb"},
			} {
				w := newWorld(t)
				resource, crd := w.widgets("Namespaced")
				if reason == "forbidden" {
					w.install(resource, crd)
					var err error
					w.dynamic, err = dynamic.NewForConfig(w.server.ConfigFor("alice"))
					must(t, err)
				}
				informer := w.unstructured(resource, w.namespace)
				if started {
					w.start(informer)
					natstest.Eventually(t, "it has started", informer.(interface{ HasStarted() bool }).HasStarted)
				}
				c := w.controller(new(calls).reconciler(nil), controller.WithCacheSyncTimeout(2*time.Second),
					controller.OwnsKube(informer, controller.WithDeleter(kube.Deleter(w.dynamic, resource))))
				if !started {
					w.start(informer)
				}
				says(t, w.run(c).failed(),
					append(words, `controller "sites"`, "not synced: OwnsKube widgets."+resource.Group+"/v1")...)
			}
		})
	}
}

// TestAnInformerThatLosesItsRightsDegradesAndHeals: the rest goes on, Stats and the callback say what is wrong.
func TestAnInformerThatLosesItsRightsDegradesAndHeals(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, kubetest.Start(t))
	w.grant("bob", "reader", "get", "list", "watch")
	w.use(w.server.ConfigFor("bob"))
	informer := w.typed()
	var seen calls
	news := make(chan error, 100)
	c := w.controller(seen.reconciler(nil),
		controller.OwnsKube(informer, controller.WithSourceName("ConfigMaps of the shop")),
		newsOfKube(news))
	w.start(informer)
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "the site is reconciled", func() bool { return seen.count("home") == 1 })
	admin := *w
	admin.use(w.server.Config())
	must(t, admin.clientset.RbacV1().RoleBindings(w.namespace).Delete(t.Context(), "reader", metav1.DeleteOptions{}))
	must(t, w.server.Restart()) // ends the watches, as the server does by itself after some minutes
	select {
	case err := <-news:
		says(t, err, "forbidden", "bob", "grant the verb")
	case <-time.After(patience):
		t.Fatal("not reported")
	}
	if err := c.Stats().Degraded["OwnsKube ConfigMaps of the shop (informer 1)"]; err == nil {
		t.Errorf("Stats do not tell: %v", c.Stats().Degraded)
	}
	w.othersGoOn(&seen)
	admin.grant("bob", "reader-again", "get", "list", "watch")
	m := admin.configMap("settings", "one")
	c.SetOwner(m, "home")
	admin.createMap(m)
	natstest.Eventually(t, "the event is not lost", func() bool { return seen.with("home", controller.OperationSecondary) == 1 })
	natstest.Eventually(t, "it has healed", func() bool { return len(c.Stats().Degraded) == 0 })
}

// grant makes a role in the test's namespace and binds it to a user.
func (w *world) grant(user, name string, verbs ...string) {
	w.t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}},
	}
	_, err := w.clientset.RbacV1().Roles(w.namespace).Create(w.t.Context(), role, metav1.CreateOptions{})
	must(w.t, err)
	_, err = w.clientset.RbacV1().RoleBindings(w.namespace).Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	must(w.t, err)
}

// TestWritesThatRBACForbidsAreClearErrorsUntilTheyAreGranted.
func TestWritesThatRBACForbidsAreClearErrorsUntilTheyAreGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := *w
	w.grant("carol", "reader", "get", "list", "watch")
	w.use(w.server.ConfigFor("carol"))
	maps := w.maps()
	errs := make(chan error, 1000)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		if key != "home" {
			return nil
		}
		_, err := maps.Apply(ctx, w.configMap("settings", "one"))
		select {
		case errs <- err:
		default:
		}
		return err
	}, &seen, maps.Owns())
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	err := <-errs
	says(t, err, "apply configmaps/v1", w.key("settings"), "carol", "grant the verb")
	if !apierrors.IsForbidden(err) {
		t.Errorf("IsForbidden does not hold for it: %v", err)
	}
	w.othersGoOn(&seen)
	admin.grant("carol", "writer", "create", "patch")
	natstest.Eventually(t, "it is there", func() bool { return admin.liveMap("settings") != nil })
	// Delete is another verb: the teardown waits until it is granted.
	natstest.Eventually(t, "the cache has it", func() bool { _, err := maps.Get(w.key("settings")); return err == nil })
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "the reconciler has cleaned up", func() bool {
		return seen.with("home", controller.OperationDelete) > 1
	})
	if c.Stats().TornDown != 0 {
		t.Error("torn down though the delete is forbidden")
	}
	admin.grant("carol", "deleter", "delete")
	natstest.Eventually(t, "torn down", func() bool { return c.Stats().TornDown == 1 && admin.liveMap("settings") == nil })
}

// TestANamespaceThatTerminatesOrIsMissingIsAClearError, and a teardown in it goes on.
func TestANamespaceThatTerminatesOrIsMissingIsAClearError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	missing := w.mine("settings", "one")
	missing.Namespace = w.namespace + "-missing"
	_, err := maps.Apply(t.Context(), missing)
	says(t, err, "apply configmaps/v1", missing.Namespace+"/settings", "create the namespace")
	if !apierrors.IsNotFound(err) {
		t.Errorf("IsNotFound does not hold for it: %v", err)
	}

	_, err = maps.Apply(t.Context(), w.mine("settings", "one"))
	must(t, err)
	must(t, w.clientset.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}))
	natstest.Eventually(t, "it is terminating", func() bool {
		ns, err := w.clientset.CoreV1().Namespaces().Get(t.Context(), w.namespace, metav1.GetOptions{})
		return err == nil && ns.Status.Phase == corev1.NamespaceTerminating
	})
	_, err = maps.Apply(t.Context(), w.mine("another", "one"))
	says(t, err, "apply configmaps/v1", w.key("another"), "namespace is being deleted")
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("IsForbidden does not hold for it: %v", err)
	}
	m, err := maps.Get(w.key("settings"))
	must(t, err)
	must(t, maps.Delete(t.Context(), m))
}

// TestARefusalByAnAdmissionPolicyIsAClearErrorUntilTheObjectIsRight.
func TestARefusalByAnAdmissionPolicyIsAClearErrorUntilTheObjectIsRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policy("validatingadmissionpolicies", map[string]any{
		"validations": []any{map[string]any{"expression": `object.data.value != "bad"`, "message": "bad is not good"}},
	}, func() bool {
		_, err := w.clientset.CoreV1().ConfigMaps(w.namespace).Create(t.Context(),
			w.configMap("probe", "bad"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	maps := w.maps()
	errs := make(chan error, 1000)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		if key != "home" {
			return nil
		}
		s, err := w.sites.Lister().Get(key)
		if err == nil {
			_, err = maps.Apply(ctx, w.configMap("settings", s.Spec.Title))
		}
		select {
		case errs <- err:
		default:
		}
		return err
	}, &seen, maps.Owns())
	w.run(c)
	s := newSite("home")
	s.Spec.Title = "bad"
	must(t, w.sites.Create(t.Context(), s))
	err := <-errs
	says(t, err, "apply configmaps/v1", w.key("settings"), "bad is not good", "admission policy")
	if !apierrors.IsInvalid(err) {
		t.Errorf("IsInvalid does not hold for it: %v", err)
	}
	w.othersGoOn(&seen)
	must(t, w.sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"good"}}`)))
	natstest.Eventually(t, "it is there", func() bool {
		m := w.liveMap("settings")
		return m != nil && m.Data["value"] == "good"
	})
}
