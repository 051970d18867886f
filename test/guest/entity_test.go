package guest

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nagi-runtime/nagi/entity"
	v1 "github.com/nagi-runtime/nagi/test/guest/api/v1"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func newWebsites(t *testing.T) *entity.Client[*v1.Website] {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	websites, err := entity.NewClient[*v1.Website](t.Context(), js, entity.Config{
		Kind: "Website", Bucket: "sites", Namespaced: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(websites.Close)
	return websites
}

func newWebsite(namespace, name string) *v1.Website {
	return &v1.Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"tier": "web"}},
		Spec:       v1.WebsiteSpec{Host: name + ".example.com", Replicas: ptr.To[int32](2), Aliases: []string{"www"}},
	}
}

func TestAKubebuilderTypeIsAnEntityUnchanged(t *testing.T) {
	t.Parallel()
	ctx, websites := t.Context(), newWebsites(t)
	site := newWebsite("shop", "blog")
	if err := websites.Create(ctx, site); err != nil {
		t.Fatal(err)
	}
	site.Spec.Replicas = ptr.To[int32](3)
	if err := websites.Update(ctx, site); err != nil {
		t.Fatal(err)
	}
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Served",
	})
	if err := websites.UpdateStatus(ctx, site); err != nil {
		t.Fatal(err)
	}

	live, err := websites.Get(ctx, "shop/blog")
	if err != nil {
		t.Fatal(err)
	}
	if *live.Spec.Replicas != 3 || live.Spec.Host != "blog.example.com" ||
		!meta.IsStatusConditionTrue(live.Status.Conditions, "Ready") {
		t.Errorf("%+v", live)
	}
	stale := newWebsite("shop", "blog")
	stale.ResourceVersion = "1"
	if err := websites.Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old revision: %v", err)
	}
	if err := websites.Delete(ctx, "shop/blog"); err != nil {
		t.Fatal(err)
	}
	if _, err := websites.Get(ctx, "shop/blog"); !apierrors.IsNotFound(err) {
		t.Errorf("after its delete: %v", err)
	}
}

func TestItsInformerAndListerGiveTheTypeItself(t *testing.T) {
	t.Parallel()
	ctx, websites := t.Context(), newWebsites(t)
	seen := make(chan *v1.Website, 10)
	if _, err := websites.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { seen <- obj.(*v1.Website) },
	}); err != nil {
		t.Fatal(err)
	}
	stop, err := websites.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	natstest.Eventually(t, "the informer is synced", websites.Informer().HasSynced)
	site := newWebsite("shop", "blog")
	if err := websites.Create(ctx, site); err != nil {
		t.Fatal(err)
	}

	// The lister reads its client's own writes, whether the informer is there yet or not.
	selected, err := websites.Lister().List(labels.SelectorFromSet(labels.Set{"tier": "web"}))
	if err != nil || len(selected) != 1 || selected[0].Spec.Host != "blog.example.com" {
		t.Errorf("list: %+v, %v", selected, err)
	}
	if got := <-seen; got.Name != "blog" || got.Namespace != "shop" || got.ResourceVersion != site.ResourceVersion {
		t.Errorf("the handler saw %+v", got)
	}
	// The lister hands out copies, made by the generated code.
	selected[0].Spec.Aliases[0] = "changed"
	if again, err := websites.Lister().Get("shop/blog"); err != nil || again.Spec.Aliases[0] != "www" {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestAnEntityClientsInformerIsASourceForControllerRuntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	websites, err := entity.NewClient[*v1.Website](t.Context(), w.js, entity.Config{
		Kind: "Website", Bucket: "sites", Namespaced: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer websites.Close()
	mgr := w.manager(ctrl.Options{})
	err = ctrl.NewControllerManagedBy(mgr).
		Named("websites").
		WatchesRawSource(&source.Informer{Informer: websites.Informer(), Handler: &handler.EnqueueRequestForObject{}}).
		Complete(&reconciler{client: mgr.GetClient(), websites: &cacheWith{informer: websites.Informer()}})
	if err != nil {
		t.Fatal(err)
	}
	start(t, mgr, websites.Informer().RunWithContext)

	site := newWebsite(w.namespace, "blog")
	if err := websites.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "it is reconciled", func() bool { return w.hosts()["blog"] == "blog.example.com" })
	site.Spec.Host = "www.example.com"
	if err := websites.Update(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "its update is reconciled", func() bool { return w.hosts()["blog"] == "www.example.com" })
	if err := websites.Delete(t.Context(), w.namespace+"/blog"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "its delete is reconciled", func() bool { return len(w.hosts()) == 0 })
}
