package livepage

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestWhatIsNotLookedAtInKubernetesNamesTheConfig of this package: a program has no flags of the tool.
func TestWhatIsNotLookedAtInKubernetesNamesTheConfig(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "apps", Version: "v1", Resource: "deployments"}: "DeploymentList",
	})
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
	})
	for says, cfg := range map[string]Config{
		"Config.Kubernetes": {},
		"Config.Namespaces": {Kubernetes: client, Discovery: &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{}}},
	} {
		inProgram(t, cfg, func(s *served) {
			for _, bucket := range []string{"gardens", "gardens-status"} {
				_, err := s.js.CreateKeyValue(s.Context(), jetstream.KeyValueConfig{
					Bucket: bucket, Storage: jetstream.MemoryStorage,
				})
				must(t, err)
			}
			for subject, value := range map[string]string{
				"$KV.gardens.north": "{}",
				"$KV." + registry.Bucket + ".Garden": `{"schemaVersion":1,"kind":"Garden","bucket":"gardens",
					"statusBucket":"gardens-status","controllers":[{"name":"gardens","instance":"here","owns":[
					{"in":"kubernetes","group":"apps","version":"v1","resource":"deployments"}]}]}`,
			} {
				_, err := s.js.Publish(s.Context(), subject, []byte(value))
				must(t, err)
			}
			time.Sleep(time.Minute) // of virtual time: the page looks for kinds now and then
			body := s.ask("GET", s.page.Path()+"kinds/Garden/north", nil).Body.String()
			if !strings.Contains(body, "not looked at") || !strings.Contains(body, says) || strings.Contains(body, "--kube") {
				t.Errorf("it does not say %s:\n%s", says, body)
			}
		})
	}
}
