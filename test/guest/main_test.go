package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nagi-runtime/nagi/natsinformer"
	v1 "github.com/nagi-runtime/nagi/test/guest/api/v1"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// api serves all tests; each has its own namespace.
var api *kubetest.Server

// withServer runs the tests between the start and the end of the API server, so that goleak looks after its end.
type withServer struct{ *testing.M }

func (m withServer) Run() int {
	var err error
	if api, err = kubetest.Open(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, "kubetest:", err)
		return 1
	}
	defer api.Close()
	return m.M.Run()
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	goleak.VerifyTestMain(withServer{m})
}

// world is a namespace in Kubernetes and a bucket of Websites in NATS.
type world struct {
	t         *testing.T
	namespace string
	clientset kubernetes.Interface
	nats      *natstest.Server
	js        jetstream.JetStream
	bucket    jetstream.KeyValue
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := clientset.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "guest-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nats := natstest.Start(t)
	_, js := natstest.Connect(t, nats.URL())
	bucket, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "websites"})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, namespace: namespace.Name, clientset: clientset, nats: nats, js: js, bucket: bucket}
}

// informer is natsinformer alone: a bucket, and how its documents become objects.
func (w *world) informer() natsinformer.Informer {
	w.t.Helper()
	informer, err := natsinformer.New(w.js, natsinformer.Config{
		Bucket: "websites",
		Decode: func(e natsinformer.Entry) (runtime.Object, error) {
			site := &v1.Website{}
			if err := json.Unmarshal(e.Value, site); err != nil {
				return nil, err
			}
			site.Namespace, site.Name = w.namespace, e.Key
			return site, nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return informer
}

// put writes a document, as a program does that knows nothing of Kubernetes.
func (w *world) put(name, host string) {
	w.t.Helper()
	if _, err := w.bucket.PutString(w.t.Context(), name, fmt.Sprintf(`{"spec":{"host":%q}}`, host)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := w.bucket.Delete(w.t.Context(), name); err != nil {
		w.t.Fatal(err)
	}
}

// hosts returns the hosts in the ConfigMaps that the controller made, by name.
func (w *world) hosts() map[string]string {
	w.t.Helper()
	list, err := w.clientset.CoreV1().ConfigMaps(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	hosts := map[string]string{}
	for _, item := range list.Items {
		hosts[item.Name] = item.Data["host"]
	}
	return hosts
}
