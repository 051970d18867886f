package livepage

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// cluster has a Deployment of the document Bed/east in each of two namespaces. Its user has a Role in some namespaces,
// and no ClusterRole.
func cluster(role ...string) (*fake.FakeDynamicClient, *discoveryfake.FakeDiscovery) {
	var objects []runtime.Object
	for _, namespace := range []string{"shop", "lab"} {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
		obj.SetNamespace(namespace)
		obj.SetName("web-of-" + namespace)
		entity.SetOwner(obj, "Bed", "east", "here")
		objects = append(objects, obj)
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "apps", Version: "v1", Resource: "deployments"}: "DeploymentList",
		{Group: "apps", Version: "v1", Resource: "replicasets"}: "ReplicaSetList",
	}, objects...)
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if slices.Contains(role, a.GetNamespace()) {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
	})
	return client, &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{}}
}

// TestThePageOfWhoHasARoleInSomeNamespacesShowsThose of Config.Namespaces, and says what it has not looked at and what
// to do about it.
func TestThePageOfWhoHasARoleInSomeNamespacesShowsThose(t *testing.T) {
	const shop, lab = "deployments.apps/shop/web-of-shop", "deployments.apps/lab/web-of-lab"
	const all = "the user may not list deployments.apps in all namespaces"
	for _, c := range []struct {
		role, namespaces, shown, hidden []string
	}{
		{role: []string{"shop"}, shown: []string{"not looked at: " + all, "Config.Namespaces of package livepage says where else"},
			hidden: []string{shop, lab, "--kube-namespace"}},
		{role: []string{"shop"}, namespaces: []string{"shop"}, shown: []string{shop, "looked at in namespace shop alone: " + all},
			hidden: []string{lab}},
		{role: []string{"shop", "lab"}, namespaces: []string{"shop", "lab"},
			shown: []string{shop, lab, "looked at in the namespaces shop, lab alone: " + all}},
		{role: []string{"lab"}, namespaces: []string{"shop", "lab"}, shown: []string{lab, "not looked at in namespace shop: the " +
			"user may not list deployments.apps in namespace shop"}, hidden: []string{shop}},
		{role: []string{"", "shop"}, namespaces: []string{"shop"}, shown: []string{shop, lab}, hidden: []string{all}},
	} {
		t.Run(fmt.Sprint(c.role, " of ", c.namespaces), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				conn, js := natstest.Connect(t, natstest.Start(t).URL())
				for bucket, document := range map[string][2]string{
					"beds": {"east", `{}`},
					registry.Bucket: {"Bed", `{"schemaVersion":1,"kind":"Bed","bucket":"beds","controllers":[{"name":"beds",
						"instance":"here","owns":[{"in":"kubernetes","group":"apps","version":"v1","resource":"deployments"}]}]}`},
				} {
					kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
						Bucket: bucket, Storage: jetstream.MemoryStorage,
					})
					must(t, err)
					_, err = kv.PutString(t.Context(), document[0], document[1])
					must(t, err)
				}
				client, discover := cluster(c.role...)
				p, err := New(Config{Conn: conn, Kubernetes: client, Discovery: discover, Namespaces: c.namespaces})
				must(t, err)
				natstest.Run(t, p.Run)
				answer := httptest.NewRecorder()
				p.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
					"http://localhost"+DefaultPath+"kinds/Bed/east", nil))
				text := html.UnescapeString(answer.Body.String())
				for _, says := range c.shown {
					if answer.Code != http.StatusOK || !strings.Contains(text, says) {
						t.Errorf("%d, and it does not say %q:\n%s", answer.Code, says, text)
					}
				}
				for _, hides := range c.hidden {
					if strings.Contains(text, hides) {
						t.Errorf("it says %q:\n%s", hides, text)
					}
				}
			})
		})
	}
}
