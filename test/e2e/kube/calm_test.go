package kube

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// TestOtherValuesUnderOurOwnNameAreDrift: neither the set of our fields tells it, nor the hash, which whoever writes as
// we do may copy. So it is after a restore of etcd.
func TestOtherValuesUnderOurOwnNameAreDrift(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]func(w *world) *kube.Handle[*appsv1.Deployment]{
		"typed": func(w *world) *kube.Handle[*appsv1.Deployment] { return w.deploymentsOver(w.deployments()) },
		"unstructured": func(w *world) *kube.Handle[*appsv1.Deployment] {
			return w.deploymentsOver(w.unstructured(deployments, w.namespace))
		},
		"metadata only": func(w *world) *kube.Handle[*appsv1.Deployment] {
			return w.deploymentsOver(w.metadataOnly(deployments, w.namespace))
		},
	} {
		for what, change := range map[string]func(*appsv1.Deployment){
			"a scalar":            func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 },
			"nothing from 2":      func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 },
			"in an item of a map": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = "evil:1" },
			"a list of scalars":   func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Args = []string{"--c"} },
			"a quantity":          func(d *appsv1.Deployment) { requestOf(d, "2000m") },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				first := handle(w)
				_, err := first.Apply(t.Context(), w.deployment("web"))
				must(t, err)
				at := w.clientset.AppsV1().Deployments(w.namespace)
				right, err := at.Get(t.Context(), "web", metav1.GetOptions{})
				must(t, err)
				for who, k := range map[string]*kube.Handle[*appsv1.Deployment]{
					"who applied it": first, "a new process": handle(w),
				} {
					w.sees(k.Informer(), "web", right.ResourceVersion)
					_, err = k.Apply(t.Context(), w.deployment("web"))
					must(t, err)
					wrong := w.deployment("web")
					change(wrong)
					drifted := w.applyAs("nagi-test", wrong, right.Annotations)
					w.sees(k.Informer(), "web", drifted)
					if result, err := k.Apply(t.Context(), w.deployment("web")); err != nil ||
						result != controller.OperationResultUpdated {
						t.Errorf("%s: %q, %v, want updated", who, result, err)
					}
					now, err := at.Get(t.Context(), "web", metav1.GetOptions{})
					must(t, err)
					if got, want := text(t, now.Spec), text(t, right.Spec); got != want {
						t.Errorf("%s:\n%s, want\n%s", who, got, want)
					}
					right = now
				}
			})
		}
	}
}

var deployments = appsv1.SchemeGroupVersion.WithResource("deployments")

func (w *world) deploymentsOver(informer cache.SharedIndexInformer) *kube.Handle[*appsv1.Deployment] {
	w.t.Helper()
	k, err := kube.New[*appsv1.Deployment](w.dynamic, deployments, informer, manager)
	must(w.t, err)
	w.awaitSync(w.start(informer))
	return k
}

// requestOf sets how much of the processor the first container requests.
func requestOf(d *appsv1.Deployment, cpu string) {
	d.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	return string(data)
}

// applyAs applies a Deployment under a field manager, as another process would, with these annotations. It returns the
// new version.
func (w *world) applyAs(manager string, d *appsv1.Deployment, annotations map[string]string) string {
	w.t.Helper()
	d.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	d.Annotations = annotations
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	must(w.t, err)
	delete(fields, "status")
	data, err := json.Marshal(fields)
	must(w.t, err)
	force := true
	patched, err := w.clientset.AppsV1().Deployments(w.namespace).Patch(w.t.Context(), d.Name, types.ApplyPatchType,
		data, metav1.PatchOptions{FieldManager: manager, Force: &force})
	must(w.t, err)
	return patched.ResourceVersion
}

// sees waits until an informer has a version of an object.
func (w *world) sees(informer cache.SharedIndexInformer, name, version string) {
	w.t.Helper()
	natstest.Eventually(w.t, "the cache shows it", func() bool {
		item, ok, err := informer.GetStore().GetByKey(w.key(name))
		return ok && err == nil && item.(metav1.Object).GetResourceVersion() == version
	})
}

// calmKinds are objects of many kinds, with all that a server may write in another way than it was sent: defaults,
// quantities, empty lists and structs, lists with keys that have defaults, and texts that are stored encoded.
var calmKinds = []struct {
	resource schema.GroupVersionResource
	fields   string
	// beside is what others write: to the status, or to fields that are not ours.
	beside string
	status bool // beside is of the status
}{
	{corev1.SchemeGroupVersion.WithResource("configmaps"),
		`{"kind":"ConfigMap","data":{"a":"1","empty":""},"binaryData":{"b":"AAE="},"immutable":false}`,
		`{"data":{"others":"1"}}`, false},
	{corev1.SchemeGroupVersion.WithResource("secrets"),
		`{"kind":"Secret","stringData":{"password":"x"},"type":"Opaque"}`, `{"data":{"others":"AAE="}}`, false},
	{corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		`{"kind":"ServiceAccount","automountServiceAccountToken":false}`, `{"secrets":[{"name":"x"}]}`, false},
	{corev1.SchemeGroupVersion.WithResource("services"),
		`{"kind":"Service","spec":{"selector":{"app":"x"},"ports":[{"port":80,"name":"web"},{"port":53,"protocol":"UDP",` +
			`"name":"dns","targetPort":"dns"}]}}`,
		`{"status":{"conditions":[{"type":"Others","status":"True","reason":"R","message":"",` +
			`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, true},
	{corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		`{"kind":"PersistentVolumeClaim","spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":` +
			`{"storage":"1024Mi"}}}}`,
		`{"status":{"phase":"Pending"}}`, true},
	{appsv1.SchemeGroupVersion.WithResource("deployments"),
		`{"kind":"Deployment","spec":{"selector":{"matchLabels":{"app":"x"}},"strategy":{},"template":` + pod + `}}`,
		`{"spec":{"replicas":7}}`, false},
	{appsv1.SchemeGroupVersion.WithResource("statefulsets"),
		`{"kind":"StatefulSet","spec":{"serviceName":"x","replicas":2,"selector":{"matchLabels":{"app":"x"}},` +
			`"template":` + pod + `,"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":` +
			`["ReadWriteOnce"],"resources":{"requests":{"storage":"1024Mi"}}}}]}}`,
		`{"status":{"replicas":1}}`, true},
	{appsv1.SchemeGroupVersion.WithResource("daemonsets"),
		`{"kind":"DaemonSet","spec":{"selector":{"matchLabels":{"app":"x"}},"template":` + pod + `}}`,
		`{"status":{"numberReady":1}}`, true},
	{batch("jobs"), `{"kind":"Job","spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a",` +
		`"image":"a:1","command":[]}]}}}}`, `{"status":{"active":1}}`, true},
	{batch("cronjobs"), `{"kind":"CronJob","spec":{"schedule":"* * * * *","suspend":false,"jobTemplate":{"spec":` +
		`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a:1"}]}}}}}}`,
		`{"status":{"lastScheduleTime":"2026-01-01T00:00:00Z"}}`, true},
	{networking("ingresses"), `{"kind":"Ingress","spec":{"rules":[{"host":"a.example","http":{"paths":[{"path":"/",` +
		`"pathType":"Prefix","backend":{"service":{"name":"a","port":{"number":80}}}}]}}]}}`,
		`{"status":{"loadBalancer":{"ingress":[{"ip":"10.1.2.3"}]}}}`, true},
	{networking("networkpolicies"), `{"kind":"NetworkPolicy","spec":{"podSelector":{},"ingress":[{"ports":` +
		`[{"port":80}]}],"egress":[]}}`, `{"metadata":{"labels":{"others":"1"}}}`, false},
	{rbac("roles"), `{"kind":"Role","rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`,
		`{"metadata":{"labels":{"others":"1"}}}`, false},
	{schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		`{"kind":"HorizontalPodAutoscaler","spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":` +
			`"Deployment","name":"x"},"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":` +
			`"AverageValue","averageValue":"1000m"}}}]}}`,
		`{"status":{"currentReplicas":1,"desiredReplicas":1,"conditions":[]}}`, true},
	{schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		`{"kind":"PodDisruptionBudget","spec":{"minAvailable":"50%","selector":{"matchLabels":{"app":"x"}}}}`,
		`{"metadata":{"annotations":{"others":"1"}}}`, false},
}

const pod = `{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"a","image":"a:1","args":[],` +
	`"ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"1000m","memory":"1024Mi"}},"env":[{"name":"E",` +
	`"value":""}],"readinessProbe":{"httpGet":{"port":80}}}],"volumes":[{"name":"tmp","emptyDir":{}}]}}`

func batch(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: resource}
}

func networking(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: resource}
}

func rbac(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}
}

// TestCalmCostsNothing: an object that nobody changes costs no request, whatever others write beside, and in a new
// process at most one, which changes nothing.
func TestCalmCostsNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range calmKinds {
		t.Run(kind.resource.Resource, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			desired := func() *unstructured.Unstructured {
				u := &unstructured.Unstructured{}
				must(t, json.Unmarshal([]byte(kind.fields), &u.Object))
				u.SetAPIVersion(kind.resource.GroupVersion().String())
				u.SetNamespace(w.namespace)
				u.SetName("calm")
				return of(u, "home", "here")
			}
			handle := func() *kube.Handle[*unstructured.Unstructured] {
				informer := w.unstructured(kind.resource, w.namespace)
				k, err := kube.New[*unstructured.Unstructured](w.dynamic, kind.resource, informer, manager)
				must(t, err)
				w.awaitSync(w.start(informer))
				return k
			}
			at := w.dynamic.Resource(kind.resource).Namespace(w.namespace)
			first := handle()
			_, err := first.Apply(t.Context(), desired())
			must(t, err)
			quiet := func(who string, k *kube.Handle[*unstructured.Unstructured], most int) {
				t.Helper()
				before := w.requests.writes(kind.resource.Resource)
				for turn := range 10 {
					result, err := k.Apply(t.Context(), desired())
					// Of some kinds the API server itself writes a new version for an apply of the same.
					if err != nil || result != controller.OperationResultNone && turn >= most {
						t.Errorf("%s: %q, %v, want unchanged", who, result, err)
					}
				}
				if n := w.requests.writes(kind.resource.Resource) - before; n > most {
					t.Errorf("%s: %d requests, want at most %d", who, n, most)
				}
			}
			quiet("at once", first, 0)
			second := handle()
			quiet("a new process", second, 1)
			for i := range 3 {
				subresources := []string{}
				if kind.status {
					subresources = append(subresources, "status")
				}
				_, err := at.Patch(t.Context(), "calm", types.MergePatchType, []byte(kind.beside),
					metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
				must(t, err)
				written, err := at.Patch(t.Context(), "calm", types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"labels":{"turn":"%d"}}}`, i),
					metav1.PatchOptions{FieldManager: "somebody"})
				must(t, err)
				w.sees(first.Informer(), "calm", written.GetResourceVersion())
				w.sees(second.Informer(), "calm", written.GetResourceVersion())
				quiet("others have written beside", first, 0)
				quiet("others have written beside a new process", second, 0)
			}
		})
	}
}
