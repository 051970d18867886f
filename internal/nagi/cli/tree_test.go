package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestATreeHasWhatADocumentOwns(t *testing.T) {
	inWorld(t, func(w *world) {
		const want = `OBJECT                          STATE    MESSAGE
Website.example.com/shop/home   Synced   
├── pages/shop/home-0           -        
└── pages/shop/home-1           -        
`
		if got := w.ok("tree", "websites/shop/home"); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if got := w.ok("tree", "websites", "home", "-n", "shop", "--ascii"); !strings.Contains(got, "\n`-- pages/shop/home-1") {
			t.Errorf("ASCII\n%s", got)
		}
		var root tree.Node
		w.must(json.Unmarshal([]byte(w.ok("tree", "website/shop/blog", "-o", "json")), &root))
		if root.State != "Terminal" || root.Health != tree.Bad || root.Message != "terminal error: no such domain" ||
			root.Key != "shop/blog" || root.Bucket != "websites" || len(root.Owns) != 0 {
			t.Errorf("got %+v", root)
		}
		if r := w.nagi("tree", "websites/shop/none"); r.code != CodeNotFound || !strings.Contains(r.err, "nagi get Website") {
			t.Errorf("one that is not there: %+v", r)
		}
		if r := w.nagi("tree", "websites"); r.code != CodeUsage {
			t.Errorf("without a key: %+v", r)
		}
	})
}

// family adds kinds without controllers: a Garden owns a Bed, which owns a Plant and, in a circle, the Garden. Garden also
// owns deployments, something without a name of a resource, and sensors behind an API.
func (w *world) family() {
	w.Helper()
	for _, bucket := range []string{"gardens", "gardens-status", "beds", "plants"} {
		_, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: bucket, Storage: jetstream.MemoryStorage})
		w.must(err)
	}
	w.put(registry.Bucket, "Garden", `{"schemaVersion":1,"kind":"Garden","bucket":"gardens","statusBucket":"gardens-status",
		"controllers":[{"name":"gardens","instance":"here","owns":[{"in":"external","kind":"Sensor"},
		{"in":"kubernetes","group":"apps","version":"v1","resource":"deployments"},{"in":"kubernetes","name":"secrets of shops"},
		{"in":"nats","kind":"Bed","bucket":"beds"}]}]}`)
	w.put(registry.Bucket, "Bed", `{"schemaVersion":1,"kind":"Bed","bucket":"beds","controllers":[{"name":"beds","instance":"here",
		"owns":[{"in":"nats","kind":"Plant","bucket":"plants"},{"in":"nats","kind":"Garden","bucket":"gardens"}]}]}`)
	marks := func(kind, key, instance string) string {
		var obj metav1.ObjectMeta
		entity.SetOwner(&obj, kind, key, instance)
		data, err := json.Marshal(map[string]any{"metadata": obj})
		w.must(err)
		return string(data)
	}
	w.put("gardens", "north", marks("Bed", "east", "here"))
	w.put("gardens-status", "north", `{"schemaVersion":1,"phase":"Retrying","observedRevision":1,"conditions":[{"type":
		"Reconciled","status":"False","reason":"Retrying","observedGeneration":9,"message":"no rain\u001b[31m"}]}`)
	w.put("beds", "east", marks("Garden", "north", "here"))
	w.put("beds", "elsewhere", marks("Garden", "north", "another installation"))
	w.put("plants", "rose", marks("Bed", "east", "here"))
	hashed := `{"metadata":{"labels":{"kumori/ownerkind":"Bed","kumori/ownerkey":"` + entity.OwnerLabelValue("a=b") + `"}}}`
	w.put("beds", "a=b", `{}`)
	w.put("plants", "weed", hashed)
}

func TestATreeGoesDownToTheLeavesAndEndsWhereItIsACircle(t *testing.T) {
	inWorld(t, func(w *world) {
		w.family()
		const want = `OBJECT                             STATE      MESSAGE
Garden/north                       Retrying   "no rain\x1b[31m"
├── Bed/east                       -          
│   ├── plants/rose                -          
│   └── Garden/north               Retrying   "no rain\x1b[31m (it owns itself, through others: what follows is above)"
├── Kubernetes: deployments.apps              not looked at (--kubeconfig)
├── Kubernetes: secrets of shops              not looked at: the controller does not say which resource that is
└── Outside: Sensor                           not looked at: only the controller asks that API; ` +
			`controller "gardens" is not asked: no process of it runs with package service (nats micro ls lists those ` +
			`that do), or its service has another prefix (--prefix)
`
		if got := w.ok("tree", "Garden/north"); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if got := w.ok("tree", "Bed/a=b"); !strings.Contains(got, "plants/weed") {
			t.Errorf("what names a hash alone is missing:\n%s", got)
		}
	})
}

func TestATraceGoesUpToTheDocumentOfAPerson(t *testing.T) {
	inWorld(t, func(w *world) {
		w.family()
		const want = `OBJECT                          IN     STATE    MESSAGE
pages/shop/home-0               NATS   -        
Website.example.com/shop/home   NATS   Synced   
`
		for _, args := range [][]string{{"pages/shop/home-0"}, {"page", "shop/home-0"}, {"Page", "home-0", "-n", "shop"}} {
			if got := w.ok(append([]string{"trace"}, args...)...); got != want {
				t.Errorf("%v: got\n%swant\n%s", args, got, want)
			}
		}
		if got := w.ok("trace", "plants/weed"); !strings.Contains(got, "Bed/a=b") {
			t.Errorf("a hash is not followed:\n%s", got)
		}
		if got := w.ok("trace", "plants/rose"); !strings.Contains(got, "it is owned by what it owns: Bed/east") {
			t.Errorf("a circle has no end:\n%s", got)
		}
		w.put("plants", "orphan", `{"metadata":{"annotations":{"kumori/ownerkind":"Bed","kumori/ownerkey":"gone"}}}`)
		if got := w.ok("trace", "plants/orphan"); !strings.Contains(got, "its owner is gone") {
			t.Errorf("an orphan:\n%s", got)
		}
		if r := w.nagi("trace", "deployments/shop/web"); r.code != CodeNotFound || !strings.Contains(r.err, "--kubeconfig") {
			t.Errorf("a Kubernetes object without a cluster: %+v", r)
		}
	})
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// shopCluster has a Deployment of the Garden, with what Kubernetes makes for it.
func shopCluster(objects ...runtime.Object) OpenCluster {
	return func(string, string) (dynamic.Interface, discovery.DiscoveryInterface, error) {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			deployments: "DeploymentList",
			{Group: "apps", Version: "v1", Resource: "replicasets"}: "ReplicaSetList",
			{Version: "v1", Resource: "pods"}:                       "PodList",
			{Version: "v1", Resource: "configmaps"}:                 "ConfigMapList",
		}, objects...)
		resources := func(gv string, of ...metav1.APIResource) *metav1.APIResourceList {
			for i := range of {
				of[i].Namespaced, of[i].Verbs = true, metav1.Verbs{"get", "list"}
			}
			return &metav1.APIResourceList{GroupVersion: gv, APIResources: of}
		}
		return client, &preferred{discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
			resources("apps/v1", metav1.APIResource{Name: "deployments", SingularName: "deployment", Kind: "Deployment",
				ShortNames: []string{"deploy"}}, metav1.APIResource{Name: "replicasets", SingularName: "replicaset", Kind: "ReplicaSet"}),
			resources("v1", metav1.APIResource{Name: "pods", SingularName: "pod", Kind: "Pod", ShortNames: []string{"po"}},
				metav1.APIResource{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap"}),
		}}}}, nil
	}
}

// preferred has the one call that the fake of client-go does not answer.
type preferred struct{ discoveryfake.FakeDiscovery }

func (p *preferred) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	return p.Resources, nil
}

func kubeObject(apiVersion, kind, name, uid, owner string, rest map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: rest}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace("shop")
	obj.SetName(name)
	obj.SetUID(types.UID(uid))
	if owner != "" {
		of, by, _ := strings.Cut(owner, "/")
		yes := true
		api := map[string]string{"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "Pod": "v1"}[of]
		obj.SetOwnerReferences([]metav1.OwnerReference{
			{APIVersion: api, Kind: of, Name: by, UID: types.UID("uid-" + by), Controller: &yes},
		})
	}
	return obj
}

func gardenObjects() []runtime.Object {
	web := kubeObject("apps/v1", "Deployment", "web", "uid-web", "", map[string]any{
		"spec":   map[string]any{"replicas": int64(2), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
		"status": map[string]any{"readyReplicas": int64(1)},
	})
	entity.SetOwner(web, "Garden", "north", "here")
	other := kubeObject("apps/v1", "Deployment", "other", "uid-other", "", map[string]any{})
	entity.SetOwner(other, "Garden", "north", "another installation")
	rs := kubeObject("apps/v1", "ReplicaSet", "web-1", "uid-web-1", "Deployment/web", map[string]any{
		"spec":   map[string]any{"replicas": int64(2), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
		"status": map[string]any{"readyReplicas": int64(1)},
	})
	rs.SetLabels(map[string]string{"app": "web"})
	pod := func(name string, state map[string]any, ready bool) *unstructured.Unstructured {
		p := kubeObject("v1", "Pod", name, "uid-"+name, "ReplicaSet/web-1", map[string]any{"status": map[string]any{
			"phase": "Running", "containerStatuses": []any{map[string]any{"ready": ready, "state": state}},
		}})
		p.SetLabels(map[string]string{"app": "web"})
		return p
	}
	settings := kubeObject("v1", "ConfigMap", "web-1-a-settings", "uid-settings", "Pod/web-1-a", map[string]any{})
	stranger := kubeObject("v1", "Pod", "stranger", "uid-stranger", "", map[string]any{})
	stranger.SetLabels(map[string]string{"app": "web"})
	return []runtime.Object{web, other, rs, settings, stranger, pod("web-1-a", map[string]any{}, true),
		pod("web-1-b", map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off"}}, false)}
}

func TestATreeFollowsKubernetes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.family()
		w.cluster = shopCluster(gardenObjects()...)
		got := w.ok("tree", "Garden/north", "--kubeconfig", "some")
		const want = `├── deployments.apps/shop/web         1/2 ready              
│   └── replicasets.apps/shop/web-1   1/2 ready              
│       ├── pods/shop/web-1-a         Running 1/1            
│       └── pods/shop/web-1-b         CrashLoopBackOff 0/1   back-off
├── Kubernetes: secrets of shops`
		if !strings.Contains(got, want) {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if strings.Contains(got, "shop/other") || strings.Contains(got, "stranger") || strings.Contains(got, "settings") {
			t.Errorf("it has what is not its own:\n%s", got)
		}
		if got := w.ok("tree", "Garden/north", "--kubeconfig", "some", "--deep"); !strings.Contains(got, "configmaps/shop/web-1-a-settings") {
			t.Errorf("--deep does not find all:\n%s", got)
		}
	})
}

func TestATraceGoesUpThroughKubernetes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.family()
		w.cluster = shopCluster(gardenObjects()...)
		const want = `OBJECT                        IN           STATE                  MESSAGE
pods/shop/web-1-b             Kubernetes   CrashLoopBackOff 0/1   back-off
replicasets.apps/shop/web-1   Kubernetes   1/2 ready              
deployments.apps/shop/web     Kubernetes   1/2 ready              
Garden/north                  NATS         Retrying               "no rain\x1b[31m"
`
		for _, of := range []string{"pod/shop/web-1-b", "pods/shop/web-1-b", "po/shop/web-1-b"} {
			got := w.ok("trace", of, "--kubeconfig", "some")
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s: got\n%swant\n%s", of, got, want)
			}
		}
		if r := w.nagi("trace", "pods/web-1-b", "--kubeconfig", "some"); r.code != CodeUsage || !strings.Contains(r.err, "NAMESPACE") {
			t.Errorf("without a namespace: %+v", r)
		}
		if r := w.nagi("trace", "pods/shop/none", "--kubeconfig", "some"); r.code != CodeNotFound {
			t.Errorf("one that is not there: %+v", r)
		}
	})
}

func TestATreeIsShownAgainWhenSomethingInItChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, stop := context.WithCancel(w.Context())
		defer stop()
		var text bytes.Buffer
		code := make(chan int)
		go func() {
			env := Env{Streams: out.Streams{Out: &text, Err: &text}, Options: []nats.Option{natstest.Dialer()}}
			code <- Run(ctx, env, []string{"--server", w.srv.URL(), "tree", "websites/shop/home", "-w"})
		}()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		first := text.String()
		w.put("websites", "shop.home", `{"spec":{"host":"home.example","pages":3}}`)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		second := strings.TrimPrefix(text.String(), first)
		if !strings.Contains(first, "home-1") || strings.Contains(first, "home-2") || !strings.Contains(second, "home-2") {
			t.Errorf("at first\n%s\nthen\n%s", first, second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if rest := strings.TrimPrefix(text.String(), first+second); rest != "" {
			t.Errorf("nothing changed, and it shows\n%s", rest)
		}
		stop()
		if got := <-code; got != 0 {
			t.Errorf("stopped, it ends with %d\n%s", got, text.String())
		}
	})
}

func TestATreeOfWhoMayReadAPartNamesTheRest(t *testing.T) {
	set, err := registry.Permissions(entity.RoleReader)
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []entity.Config{{Bucket: "gardens"}, {Bucket: "beds", StatusBucket: entity.NoStatusBucket}} {
		of, err := entity.Permissions(cfg, entity.RoleReader)
		if err != nil {
			t.Fatal(err)
		}
		set = set.Join(of)
	}
	natstest.Test(t, func(t *testing.T) {
		w := &world{T: t, srv: natstest.Start(t, natstest.WithConfigText(fmt.Sprintf(`no_auth_user: all
			authorization { users: [ {user: all, password: x}, {user: reader, password: x, %s} ] }`, set.NATS())))}
		w.nc, w.js = natstest.Connect(t, w.srv.URL())
		_, err := w.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: registry.Bucket, Storage: jetstream.MemoryStorage})
		w.must(err)
		w.family()
		got := w.ok("--user", "reader", "--password", "x", "--inbox-prefix", "_INBOX_reader", "tree", "Garden/north")
		if !strings.Contains(got, "├── Bed/east") || !strings.Contains(got, "NATS: Plant") ||
			!strings.Contains(got, "KV_plants") || strings.Contains(got, "rose") {
			t.Errorf("got\n%s", got)
		}
	})
}
