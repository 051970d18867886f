package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/metrics"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// receiver is the one of this process, also where the test runs several times.
var receiver = metrics.New()

// TestRequestsToKubernetesAreCounted under the names that client-go's metrics have everywhere; and of two that want to
// be told, the second learns that it is not.
func TestRequestsToKubernetesAreCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "{}", http.StatusNotFound)
	}))
	defer server.Close()
	m := receiver
	if err := m.Kubernetes(); err != nil {
		t.Fatal(err)
	}
	client, err := rest.RESTClientFor(&rest.Config{
		Host: server.URL, APIPath: "/api",
		ContentConfig: rest.ContentConfig{
			GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	client.Get().Resource("pods").Do(t.Context())
	client.Client.CloseIdleConnections()
	host := strings.TrimPrefix(server.URL, "http://")
	s := scrape(t, m.Handler())
	s.want(t, `rest_client_requests_total{code="404",host="`+host+`",method="GET"} 1`)
	if !s.finds("rest_client_request_duration_seconds_bucket") {
		t.Error("the latency is missing")
	}
	if err := m.Kubernetes(); err != nil {
		t.Errorf("the same once more: %v", err)
	}
	if err := metrics.New().Kubernetes(); err == nil {
		t.Error("a second receiver is told that it is one, and hears nothing")
	}
}
