// Package recorder tests events about Kubernetes objects on a real API server.
package recorder

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/kubetest"
)

// shared serves the tests that do not stop it. Each has its own namespace.
var shared *kubetest.Server

// withServer runs the tests between the start and the end of the shared server, so that goleak looks after its end.
type withServer struct{ *testing.M }

func (m withServer) Run() int {
	var err error
	if shared, err = kubetest.Open(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, "kubetest:", err)
		return 1
	}
	defer shared.Close()
	return m.M.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(withServer{m}) }

func client(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}

func newRecorder(t *testing.T, cfg recorder.Config) *recorder.Recorder {
	t.Helper()
	rec, err := recorder.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = rec.Close(ctx) // a test that checks this has closed it already
	})
	return rec
}

// flush closes the recorder, because then everything was sent.
func flush(t *testing.T, rec *recorder.Recorder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := rec.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// namespace makes a namespace with a new name.
func namespace(t *testing.T, clientset kubernetes.Interface) string {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "recorder-"}}
	object, err := clientset.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.Name
}

// deployment makes a Deployment in the API. As always, the object that a typed client returns has no kind.
func deployment(t *testing.T, clientset kubernetes.Interface, namespace, name string) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": name}
	object := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
			},
		},
	}
	created, err := clientset.AppsV1().Deployments(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// events returns the events about one object, as kubectl describe finds them.
func events(t *testing.T, clientset kubernetes.Interface, namespace string, about metav1.Object) []corev1.Event {
	t.Helper()
	list, err := clientset.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + about.GetName() + ",involvedObject.uid=" + string(about.GetUID()),
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}
