package kube

import (
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// TestAProbeAsksForOneObjectAndForNoOlderVersion: without the match an API server takes version and limit together for
// a list of exactly that version, which may be compacted.
func TestAProbeAsksForOneObjectAndForNoOlderVersion(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleDynamicClient(scheme.Scheme)
		d, err := newResourceDeleter(client, corev1.SchemeGroupVersion.WithResource("configmaps"), nil)
		must(t, err)
		for version, want := range map[string]metav1.ListOptions{
			"": {Limit: 1},
			"1000": {Limit: 1, ResourceVersion: "1000",
				ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
		} {
			client.ClearActions()
			_, err := d.Probe(t.Context(), "shop", version)
			must(t, err)
			asked := client.Actions()[0].(clienttesting.ListActionImpl)
			if asked.ListOptions != want || asked.Namespace != "shop" {
				t.Errorf("version %q: it asks for %+v in %q, want %+v", version, asked.ListOptions, asked.Namespace, want)
			}
		}
	})
}
