package registry

import (
	"context"
	"slices"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
)

type disks struct{ external.IExternalClient }

func (disks) Kind() string { return "Big Disk" }

func TestWhatAControllerOwnsAndWatchesIsToldWhereverItIs(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		informer := func() cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(&cache.ListWatch{}, &unstructured.Unstructured{}, 0, cache.Indexers{})
		}
		cfg := sitesConfig
		cfg.Filter, cfg.Namespaced = "shop.>", true
		themes := client[*site](w, w.js, entity.Config{Kind: "Theme", Bucket: "themes", StatusBucket: entity.NoStatusBucket})
		p := &publisher{}
		_, err := controller.New("sites", client[*site](w, w.js, cfg),
			controller.ReconcilerFunc(func(context.Context, controller.Request) (controller.Result, error) {
				return controller.Result{}, nil
			}),
			controller.OwnsKube(informer(), controller.WithDeleter(
				kube.Deleter(fake.NewSimpleDynamicClient(kuberuntime.NewScheme()), deployments))),
			controller.WatchesKube(informer(), func(context.Context, metav1.Object) ([]string, error) { return nil, nil },
				controller.WithSourceName("nodes")),
			controller.OwnsExternal(disks{}),
			controller.Watches(themes, func(context.Context, *site) ([]string, error) { return nil, nil }),
			func(o *engine.Options) error { o.Beside = append(o.Beside, p); return nil })
		w.must(err)
		self := p.described.Controllers[0]
		owns := []Resource{
			{In: InExternal, Kind: "Big Disk"},
			{In: InKubernetes, Group: "apps", Version: "v1", Resource: "deployments"},
		}
		watches := []Resource{{In: InKubernetes, Name: "nodes"}, {In: InNATS, Kind: "Theme", Bucket: "themes"}}
		owned, watched := resources(p.engine)
		if !slices.Equal(owned, owns) || !slices.Equal(watched, watches) || self.Filter != "shop.>" {
			t.Errorf("it says that it owns %+v, watches %+v, with the filter %q", owned, watched, self.Filter)
		}
		if !p.described.Namespaced {
			t.Error("it is namespaced")
		}
	})
}

func TestABucketSaysWhatItHolds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client[*site](w, w.js, sitesConfig)
		w.must(bucketOf(w.js).open(t.Context(), entity.Config{}))
		for bucket, want := range map[string]map[string]string{
			"sites": {"nagi.holds": "documents", "nagi.kind": "Site", "nagi.apiVersion": "example.com/v1",
				"nagi.registry": Bucket},
			"sites-status": {"nagi.holds": "records", "nagi.kind": "Site", "nagi.apiVersion": "example.com/v1",
				"nagi.registry": Bucket},
			Bucket: {"nagi.holds": "kinds"},
		} {
			kv, err := w.js.KeyValue(t.Context(), bucket)
			w.must(err)
			status, err := kv.Status(t.Context())
			w.must(err)
			for name, value := range want {
				if got := status.Metadata()[name]; got != value {
					t.Errorf("%s of bucket %s is %q, want %q", name, bucket, got, value)
				}
			}
		}
	})
}

func TestABucketOfOthersKeepsItsMetadata(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		kv, err := w.js.CreateKeyValue(t.Context(), jetstreamKV("sites", map[string]string{"team": "web"}))
		w.must(err)
		client[*site](w, w.js, sitesConfig)
		status, err := kv.Status(t.Context())
		w.must(err)
		if m := status.Metadata(); m["team"] != "web" || m["nagi.holds"] != "" {
			t.Errorf("the metadata is %v", m)
		}
	})
}
