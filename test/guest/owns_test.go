package guest

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/nagi-runtime/nagi/entity"
	v1 "github.com/nagi-runtime/nagi/test/guest/api/v1"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// owningReconciler makes a ConfigMap for each Website and marks it, so that its events find the Website.
type owningReconciler struct {
	client client.Client
	mark   func(object *corev1.ConfigMap, site *v1.Website)
}

func (r *owningReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &v1.Website{}
	if err := r.client.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.client, object, func() error {
		object.Data = map[string]string{"host": site.Spec.Host}
		r.mark(object, site)
		return nil
	})
	return ctrl.Result{}, err
}

// websiteMapper tells controller-runtime that Websites have a namespace. It would else ask the API server.
func websiteMapper(cfg *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	theirs, err := apiutil.NewDynamicRESTMapper(cfg, client)
	ours := meta.NewDefaultRESTMapper(nil)
	ours.Add(websiteKind, meta.RESTScopeNamespace)
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{ours, theirs}}, err
}

// ownerReference adds the reference that Owns looks for. The API server wants a uid, which a bucket does not give: any
// constant one will do.
func ownerReference(object *corev1.ConfigMap, site *v1.Website) {
	object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.GroupVersion.String(), Kind: websiteKind.Kind, Name: site.Name,
		UID: types.UID(site.Name), Controller: ptr.To(true),
	}}
}

// ownerAnnotations adds Nagi's own annotations, which need nothing of the API server.
func ownerAnnotations(object *corev1.ConfigMap, site *v1.Website) {
	entity.SetOwner(object, websiteKind.Kind, site.Namespace+"/"+site.Name, "")
}

func requestsOfOwner(_ context.Context, object client.Object) []ctrl.Request {
	kind, key, ok := entity.OwnerOf(object)
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if !ok || err != nil || kind != websiteKind.Kind {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

func TestWhatAWebsiteInNATSOwnsInKubernetesIsRepaired(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		mark  func(*corev1.ConfigMap, *v1.Website)
		watch func(*builder.Builder) *builder.Builder
	}{
		"Owns": {ownerReference, func(b *builder.Builder) *builder.Builder { return b.Owns(&corev1.ConfigMap{}) }},
		"Watches by owner annotations": {ownerAnnotations, func(b *builder.Builder) *builder.Builder {
			return b.Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(requestsOfOwner))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mgr := w.manager(ctrl.Options{
				MapperProvider: websiteMapper,
				NewCache: func(cfg *rest.Config, opts crcache.Options) (crcache.Cache, error) {
					theirs, err := crcache.New(cfg, opts)
					return &cacheWith{Cache: theirs, informer: w.informer(), scheme: opts.Scheme}, err
				},
			})
			err := way.watch(ctrl.NewControllerManagedBy(mgr).For(&v1.Website{})).
				Complete(&owningReconciler{mgr.GetClient(), way.mark})
			if err != nil {
				t.Fatal(err)
			}
			start(t, mgr)
			w.put("blog", "blog.example.com")
			there := func() bool { return w.hosts()["blog"] == "blog.example.com" }
			natstest.Eventually(t, "it has a ConfigMap", there)
			maps := w.clientset.CoreV1().ConfigMaps(w.namespace)
			if err := maps.Delete(t.Context(), "blog", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			natstest.Eventually(t, "what somebody deleted is there again", there)
			change := []byte(`{"data":{"host":"somebody's"}}`)
			if _, err := maps.Patch(t.Context(), "blog", types.MergePatchType,
				change, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			natstest.Eventually(t, "what somebody changed is as it was", there)
		})
	}
}
