package kubeauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/probes/kubeauth"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Users of the cluster scrape, by the rules of its RBAC. In a pod client is dynamic.NewForConfig of
// rest.InClusterConfig; here it is a cluster that knows one token.
func ExampleNew() {
	var client dynamic.Interface = knowsOneToken("prometheus")

	server := &probes.Server{
		Address: "0.0.0.0:8443", Handlers: probes.New().Handlers(), Auth: kubeauth.New(client),
		TLS: &probes.TLS{Cert: "/certs/tls.crt", Key: "/certs/tls.key"},
	}

	scrape := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	fmt.Println(server.Auth(scrape, "prometheus"))
	fmt.Println(server.Auth(scrape, "guess"))
	// Output:
	// <nil>
	// not authenticated: the cluster does not know the token
}

// knowsOneToken is a cluster in which who has the token may do everything.
func knowsOneToken(token string) dynamic.Interface {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
		given, _, _ := unstructured.NestedString(review.Object, "spec", "token")
		review.Object["status"] = map[string]any{"authenticated": given == token, "allowed": true}
		return true, review, nil
	})
	return client
}
