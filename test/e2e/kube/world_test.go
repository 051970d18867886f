package kube

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

type siteSpec struct {
	Title string `json:"title,omitempty"`
}

type siteStatus struct{}

// site is the primary of these tests.
type site = entity.Object[siteSpec, siteStatus]

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	crds       = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
)

// world is a namespace of an API server, a NATS server, and clients for both.
type world struct {
	t         testing.TB
	server    *kubetest.Server
	namespace string
	clientset kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	requests  *requests
	js        jetstream.JetStream
	sites     *entity.Client[*site]
}

var worlds atomic.Int64

func newWorld(t testing.TB) *world { t.Helper(); return newWorldOn(t, shared) }

func newWorldOn(t testing.TB, server *kubetest.Server) *world {
	t.Helper()
	w := &world{t: t, server: server, namespace: fmt.Sprint("world-", worlds.Add(1)), requests: &requests{}}
	cfg := server.Config()
	cfg.Wrap(w.requests.count)
	w.use(cfg)
	_, err := w.clientset.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
	}, metav1.CreateOptions{})
	must(t, err)
	_, w.js = natstest.Connect(t, natstest.Start(t).URL())
	w.sites = w.newSites()
	return w
}

func (w *world) use(cfg *rest.Config) {
	w.t.Helper()
	var err error
	w.clientset, err = kubernetes.NewForConfig(cfg)
	must(w.t, err)
	w.dynamic, err = dynamic.NewForConfig(cfg)
	must(w.t, err)
	w.metadata, err = metadata.NewForConfig(cfg)
	must(w.t, err)
}

func (w *world) newSites() *entity.Client[*site] {
	w.t.Helper()
	sites, err := entity.NewClient[*site](w.t.Context(), w.js, entity.Config{
		Kind: "Site", Bucket: "sites", Storage: jetstream.MemoryStorage,
	})
	must(w.t, err)
	w.t.Cleanup(sites.Close)
	return sites
}

func newSite(name string) *site {
	return &site{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: siteSpec{Title: name}}
}

// requests counts the clients' requests to the API server, by names like "PATCH configmaps".
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

func (r *requests) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
		at := 2 // api/v1/…, apis/group/version/…
		if parts[0] == "apis" {
			at = 3
		}
		if len(parts) > at+2 && parts[at] == "namespaces" {
			at += 2
		}
		if len(parts) > at {
			method := req.Method
			switch query := req.URL.Query(); {
			case query.Get("watch") != "":
				method = "WATCH"
			case query.Get("continue") != "":
				method = "CONTINUE" // a list that goes on: what other tests left is in some
			}
			r.mu.Lock()
			if r.counts == nil {
				r.counts = map[string]int{}
			}
			r.counts[method+" "+parts[at]]++
			r.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

func (r *requests) of(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[what]
}

// writes counts the requests that may change objects of a resource.
func (r *requests) writes(resource string) int {
	n := 0
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		n += r.of(method + " " + resource)
	}
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// typed, unstructured and metadataOnly are informers over a resource in the test's namespace, not started.

func (w *world) typed() cache.SharedIndexInformer {
	return informers.NewSharedInformerFactoryWithOptions(w.clientset, 0,
		informers.WithNamespace(w.namespace)).Core().V1().ConfigMaps().Informer()
}

func (w *world) deployments() cache.SharedIndexInformer {
	return informers.NewSharedInformerFactoryWithOptions(w.clientset, 0,
		informers.WithNamespace(w.namespace)).Apps().V1().Deployments().Informer()
}

func (w *world) unstructured(resource schema.GroupVersionResource, namespace string) cache.SharedIndexInformer {
	return dynamicinformer.NewFilteredDynamicInformer(
		w.dynamic, resource, namespace, 0, cache.Indexers{}, nil).Informer()
}

func (w *world) metadataOnly(resource schema.GroupVersionResource, namespace string) cache.SharedIndexInformer {
	return metadatainformer.NewFilteredMetadataInformer(
		w.metadata, resource, namespace, 0, cache.Indexers{}, nil).Informer()
}

// start runs an informer until the test ends.
func (w *world) start(informer cache.SharedIndexInformer) cache.SharedIndexInformer {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
	return informer
}

// maps returns a handle for ConfigMaps over a typed informer that runs.
func (w *world) maps(opts ...kube.Option) *kube.Handle[*corev1.ConfigMap] {
	w.t.Helper()
	informer := w.typed()
	maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer, opts...)
	must(w.t, err)
	w.start(informer)
	w.awaitSync(informer)
	return maps
}

func (w *world) awaitSync(informer cache.SharedIndexInformer) {
	w.t.Helper()
	natstest.Eventually(w.t, "the informer has synced", informer.HasSynced)
}

func (w *world) configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Data:       map[string]string{"value": value},
	}
}

func (w *world) key(name string) string { return w.namespace + "/" + name }

// server's own word on a ConfigMap; nil if there is none.
func (w *world) liveMap(name string) *corev1.ConfigMap {
	w.t.Helper()
	m, err := w.clientset.CoreV1().ConfigMaps(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		if isNotFound(err) {
			return nil
		}
		w.t.Fatal(err)
	}
	return m
}

func (w *world) createMap(m *corev1.ConfigMap) *corev1.ConfigMap {
	w.t.Helper()
	created, err := w.clientset.CoreV1().ConfigMaps(w.namespace).Create(w.t.Context(), m,
		metav1.CreateOptions{FieldManager: "somebody"})
	must(w.t, err)
	return created
}

func (w *world) updateMap(name string, change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	w.t.Helper()
	for {
		m := w.liveMap(name)
		change(m)
		updated, err := w.clientset.CoreV1().ConfigMaps(w.namespace).Update(w.t.Context(), m,
			metav1.UpdateOptions{FieldManager: "somebody"})
		if isConflict(err) {
			continue
		}
		must(w.t, err)
		return updated
	}
}

// were makes sites and deletes them again. The markers of the deletes tell that they were there.
func (w *world) were(keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		must(w.t, w.sites.Create(w.t.Context(), newSite(key)))
		must(w.t, w.sites.Delete(w.t.Context(), key))
	}
}

// of makes the site with that key, of another installation or of none, the owner.
func of[T metav1.Object](obj T, key, instance string) T {
	entity.SetOwner(obj, "Site", key, instance)
	return obj
}

// running is a controller that runs, and is stopped at the end of the test.
type running struct {
	t    testing.TB
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func (w *world) run(c interface{ Run(context.Context) error }) *running {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: w.t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = c.Run(ctx)
	}()
	w.t.Cleanup(r.halt)
	return r
}

func (r *running) halt() {
	r.t.Helper()
	r.stop()
	<-r.done
	if r.err != nil {
		r.t.Errorf("Run: %v", r.err)
	}
	r.err = nil
}

// failed waits for the error of a controller that cannot run.
func (r *running) failed() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("Run did not return")
	}
	err := r.err
	r.err = nil
	if err == nil {
		r.t.Fatal("Run returned nil, want an error")
	}
	return err
}

// controller makes a controller of sites that runs quickly into its retries.
func (w *world) controller(f controller.ReconcilerFunc, opts ...controller.Option) *controller.Controller[*site] {
	w.t.Helper()
	opts = append([]controller.Option{
		controller.WithBackoff(5*time.Millisecond, 200*time.Millisecond), controller.WithResyncInterval(0),
		controller.WithGracePeriod(time.Second),
	}, opts...)
	c, err := controller.New("sites", w.sites, f, opts...)
	must(w.t, err)
	return c
}

// inReconcile calls f once, with the context of a reconcile of the site with that key, and returns its error.
func (w *world) inReconcile(key string, f func(context.Context) error, opts ...controller.Option) error {
	w.t.Helper()
	var once sync.Once
	result := make(chan error, 1)
	r := w.run(w.controller(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		if req.Key == key {
			once.Do(func() { result <- f(ctx) })
		}
		return controller.Result{}, nil
	}, opts...))
	if _, err := w.sites.Get(w.t.Context(), key); isNotFound(err) {
		must(w.t, w.sites.Create(w.t.Context(), newSite(key)))
	}
	defer r.halt()
	select {
	case err := <-result:
		return err
	case <-time.After(patience):
		w.t.Fatal("never reconciled")
	case <-r.done:
		w.t.Fatal(r.err)
	}
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// says checks that an error contains these words.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
}

// patience is how long a test waits for what has to happen before it fails; it promises nothing about speed.
const patience = 60 * time.Second

func eventuallyWithin(t testing.TB, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-tick.C
	}
}

// calls counts reconciles by key.
type calls struct {
	mu  sync.Mutex
	ops map[string][]controller.Operations
}

func (c *calls) add(req controller.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops == nil {
		c.ops = map[string][]controller.Operations{}
	}
	c.ops[req.Key] = append(c.ops[req.Key], req.Operations)
}

func (c *calls) count(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ops[key])
}

func (c *calls) with(key string, op controller.Operation) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, ops := range c.ops[key] {
		if ops.Has(op) {
			n++
		}
	}
	return n
}

func (c *calls) reconciler(f controller.ReconcilerFunc) controller.ReconcilerFunc {
	return func(ctx context.Context, req controller.Request) (controller.Result, error) {
		c.add(req)
		if f == nil {
			return controller.Result{}, nil
		}
		return f(ctx, req)
	}
}

// widgets makes a CustomResourceDefinition. Its resource is named after the test's namespace, because all namespaces
// share CRDs.
func (w *world) widgets(scope string) (schema.GroupVersionResource, *unstructured.Unstructured) {
	group := w.namespace + ".example.com"
	resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	return resource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": scope,
			"names": map[string]any{
				"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
			},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object",
					"properties": map[string]any{"spec": map[string]any{
						"type": "object", "x-kubernetes-preserve-unknown-fields": true,
					}},
				}},
			}},
		},
	}}
}

func (w *world) install(resource schema.GroupVersionResource, crd *unstructured.Unstructured) {
	w.t.Helper()
	_, err := w.dynamic.Resource(crds).Create(w.t.Context(), crd, metav1.CreateOptions{})
	must(w.t, err)
	natstest.Eventually(w.t, "the custom resource is served", func() bool {
		_, err := w.dynamic.Resource(resource).List(w.t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

func (w *world) widget(resource schema.GroupVersionResource, namespace, name, value string) *unstructured.Unstructured {
	widget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"value": value}}}
	widget.SetGroupVersionKind(resource.GroupVersion().WithKind("Widget"))
	widget.SetNamespace(namespace)
	widget.SetName(name)
	return widget
}

// policy makes an admission policy about the ConfigMaps of the test's namespace, and waits until it is in effect.
func (w *world) policy(plural string, spec map[string]any, inEffect func() bool) {
	w.t.Helper()
	kinds := map[string]string{
		"mutatingadmissionpolicies":   "MutatingAdmissionPolicy",
		"validatingadmissionpolicies": "ValidatingAdmissionPolicy",
	}
	kind := kinds[plural]
	create := func(plural, kind string, spec map[string]any) {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "spec": spec,
		}}
		u.SetName(w.namespace)
		_, err := w.dynamic.Resource(schema.GroupVersionResource{
			Group: "admissionregistration.k8s.io", Version: "v1", Resource: plural,
		}).Create(w.t.Context(), u, metav1.CreateOptions{})
		must(w.t, err)
	}
	spec["failurePolicy"] = "Fail"
	spec["matchConstraints"] = map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": w.namespace}},
		"resourceRules": []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"},
			"operations": []any{"CREATE", "UPDATE"}, "resources": []any{"configmaps"},
		}},
	}
	create(plural, kind, spec)
	binding := map[string]any{"policyName": w.namespace}
	if kind == "ValidatingAdmissionPolicy" {
		binding["validationActions"] = []any{"Deny"}
	}
	create(strings.TrimSuffix(plural, "policies")+"policybindings", kind+"Binding", binding)
	natstest.Eventually(w.t, "the policy is in effect", inEffect)
}
