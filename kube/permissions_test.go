package kube_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestPermissionsHaveTheResourcesOfHandlesAndDeleters, once each, as a manifest that a server takes.
func TestPermissionsHaveTheResourcesOfHandlesAndDeleters(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		type shop = entity.Object[struct{}, struct{}]
		shops, err := entity.NewClient[*shop](t.Context(), js, entity.Config{
			Kind: "Shop", Bucket: "shops", Storage: jetstream.MemoryStorage,
		})
		check(err)
		defer shops.Close()
		client := fake.NewSimpleDynamicClient(scheme.Scheme)
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		settings, err := kube.New[*corev1.ConfigMap](client, configMaps, factory.ForResource(configMaps).Informer())
		check(err)
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		services := corev1.SchemeGroupVersion.WithResource("services")
		idle := func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }
		c, err := controller.New("shops", shops, controller.ReconcilerFunc(idle), settings.Owns(),
			controller.OwnsKube(factory.ForResource(configMaps).Informer(),
				controller.WithDeleter(kube.Deleter(client, configMaps))),
			controller.OwnsKube(factory.ForResource(pods).Informer(),
				controller.WithDeleter(kube.Deleter(client, pods))),
			controller.OwnsKube(factory.ForResource(services).Informer(), controller.WithSourceName("services")))
		check(err)
		set, err := c.Permissions()
		check(err)
		var role struct {
			Kind     string                      `json:"kind"`
			Metadata metav1.ObjectMeta           `json:"metadata"`
			Rules    []controller.KubernetesRule `json:"rules"`
		}
		asJSON, err := yaml.ToJSON([]byte(set.ClusterRole("shops")))
		check(err)
		if err := json.Unmarshal(asJSON, &role); err != nil {
			t.Fatalf("%v in\n%s", err, set.ClusterRole("shops"))
		}
		want := map[string]string{"configmaps": "create delete get list patch watch", "pods": "delete get list watch"}
		if role.Kind != "ClusterRole" || role.Metadata.Name != "shops" || len(role.Rules) != len(want) {
			t.Errorf("%+v", role)
		}
		for _, rule := range role.Rules {
			if verbs := strings.Join(rule.Verbs, " "); verbs != want[rule.Resources[0]] || rule.APIGroups[0] != "" {
				t.Errorf("%v with %q", rule, verbs)
			}
		}
		if len(set.Unknown) != 1 || !strings.Contains(set.Unknown[0], "services") {
			t.Errorf("unknown: %q", set.Unknown)
		}
	})
}
