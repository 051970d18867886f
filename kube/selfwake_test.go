package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

type store = entity.Object[struct{}, struct{}]

// messages records the messages of events with a reason.
type messages struct {
	mu  sync.Mutex
	all map[string][]string
}

func (m *messages) Event(_ runtime.Object, _, reason, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string][]string{}
	}
	m.all[reason] = append(m.all[reason], message)
}

func (m *messages) of(reason string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[reason]
}

// versioned is client-go's fake, which gives each write a resource version of its own.
func versioned() *fake.FakeDynamicClient {
	client := fake.NewSimpleDynamicClient(scheme.Scheme)
	version := 0 // the fake calls one reactor at a time
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		version++
		action.(clienttesting.CreateAction).GetObject().(metav1.Object).SetResourceVersion(fmt.Sprint(version))
		return false, nil, nil
	})
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		version++
		patch := action.(clienttesting.PatchActionImpl)
		var fields map[string]any
		if err := json.Unmarshal(patch.Patch, &fields); err != nil {
			return true, nil, err
		}
		if err := unstructured.SetNestedField(fields, fmt.Sprint(version), "metadata", "resourceVersion"); err != nil {
			return true, nil, err
		}
		var err error
		if patch.Patch, err = json.Marshal(fields); err != nil {
			return true, nil, err
		}
		return clienttesting.ObjectReaction(client.Tracker())(patch)
	})
	return client
}

// TestAKubernetesObjectThatChangesWithEachReconcileIsTold with the path.
func TestAKubernetesObjectThatChangesWithEachReconcileIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		_, js := natstest.Connect(t, server.URL())
		shops, err := entity.NewClient[*store](t.Context(), js,
			entity.Config{Kind: "Shop", Bucket: "shops", Storage: jetstream.MemoryStorage})
		noError(t, err)
		t.Cleanup(shops.Close)
		ctx, stop := context.WithCancel(context.Background())
		client := versioned()
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		settings, err := kube.New[*corev1.ConfigMap](client, configMaps, factory.ForResource(configMaps).Informer(),
			kube.WithFieldManager("shops"))
		noError(t, err)
		var told messages
		runs := 0
		c, err := controller.New("shops", shops, controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				runs++
				obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: req.Key}}
				_, err := settings.CreateOrUpdate(ctx, obj, func(m *corev1.ConfigMap) error {
					m.Data = map[string]string{"seen.at": fmt.Sprint("secret-", runs)}
					return nil
				})
				return controller.Result{}, err
			}), settings.Owns(), controller.WithEventRecorder(&told))
		noError(t, err)
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		factory.Start(ctx.Done())
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			factory.Shutdown()
		})
		noError(t, shops.Create(t.Context(), &store{ObjectMeta: metav1.ObjectMeta{Name: "books"}}))
		for began := time.Now(); len(told.of("ReconcileLoop")) == 0; time.Sleep(time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("no event after %d reconciles; there are %v", c.Stats().Reconciles, told.all)
			}
		}
		message := told.of("ReconcileLoop")[0]
		if !strings.Contains(message, `data["seen.at"] of configmaps`) || !strings.Contains(message, `"default/books"`) ||
			strings.Contains(message, "secret") {
			t.Errorf("the event says %q, want the object and the path, and no value", message)
		}
		if s := c.Stats(); s.Looping != 1 || s.Loops != 1 {
			t.Errorf("%d keys loop, %d loops", s.Looping, s.Loops)
		}
	})
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
