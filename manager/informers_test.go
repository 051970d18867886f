package manager

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

func TestKubernetesInformersRunFromBeforeTheRestUntilAfterIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}
		typed := informers.NewSharedInformerFactory(fake.NewClientset(pod), 0)
		pods := typed.Core().V1().Pods().Informer()
		untyped := dynamicinformer.NewDynamicSharedInformerFactory(dynamicfake.NewSimpleDynamicClient(scheme.Scheme, pod), 0)
		dynamicPods := untyped.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer()
		must(t, m.AddInformers(typed, untyped))
		started := make(chan bool, 1)
		var stopped bool
		must(t, m.Add(Func("rest", func(ctx context.Context) error {
			started <- pods.HasSynced() && dynamicPods.HasSynced() && len(pods.GetStore().List()) == 1
			<-ctx.Done()
			stopped = pods.IsStopped() || dynamicPods.IsStopped()
			return nil
		})))
		r := start(t, m)
		if !<-started {
			t.Error("the informers had not synced when the rest was started")
		}
		must(t, r.stop())
		if stopped || !pods.IsStopped() || !dynamicPods.IsStopped() {
			t.Errorf("the informers were stopped before the rest (%v), or not at all", stopped)
		}
	})
}

// away is an API server that cannot be listed.
func away() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the API server is away")
	})
	return client
}

func TestInformersThatDoNotSyncAreNamed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL(), CacheSyncTimeout: 300 * time.Millisecond})
		factory := informers.NewSharedInformerFactory(away(), 0)
		factory.Core().V1().Pods().Informer()
		must(t, m.AddInformers(factory))
		rest, _ := blocking("rest")
		must(t, m.Add(rest))
		mustSay(t, start(t, m).wait(), "Kubernetes informers", "Config.CacheSyncTimeout", "Pod")
	})
}

// TestNothingWaitsForWhatIsOptional: neither for informers nor for the client of a bucket that is not there.
func TestNothingWaitsForWhatIsOptional(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL(), CacheSyncTimeout: 300 * time.Millisecond})
		factory := informers.NewSharedInformerFactory(away(), 0)
		pods := factory.Core().V1().Pods().Informer()
		must(t, m.AddOptionalInformers(factory))
		edge := sites()
		edge.BindOnly, edge.OpenLater = true, true
		client, err := Client[*site](t.Context(), m, edge)
		must(t, err)
		began := make(chan bool, 1)
		must(t, m.Add(Func("rest", func(ctx context.Context) error {
			began <- pods.HasSynced() || client.Informer().HasSynced()
			<-ctx.Done()
			return nil
		})))
		r := start(t, m)
		if <-began {
			t.Error("what is away has synced")
		}
		if err := m.Synced(); err != nil {
			t.Errorf("it waits: %v", err)
		}
		_, err = entity.NewClient[*site](t.Context(), m.JetStream(), sites()) // makes the bucket
		must(t, err)
		natstest.Eventually(t, "the client's cache runs, and fills", client.Informer().HasSynced)
		must(t, r.stop())
		if !pods.IsStopped() {
			t.Error("the informers were not stopped")
		}
	})
}
