package kuberecorder_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/recorder/kuberecorder"
)

// A recorder for a controller that makes Kubernetes objects. Repeats of an event raise its count.
func Example() {
	ctx := context.Background()
	clientset := fake.NewClientset() // a program makes one with kubernetes.NewForConfig
	rec, err := recorder.New(recorder.Config{Kubernetes: kuberecorder.New(clientset), Component: "website-controller"})
	if err != nil {
		log.Fatal(err)
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "frontend", UID: "1"}}
	for range 3 {
		rec.Event(pod, corev1.EventTypeWarning, "DNSFailed", "no address for example.com")
	}
	if err := rec.Close(ctx); err != nil { // sends what waits
		log.Fatal(err)
	}

	events, err := clientset.CoreV1().Events("shop").List(ctx, metav1.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range events.Items {
		about := e.InvolvedObject
		fmt.Printf("%s %s/%s: ", about.Kind, about.Namespace, about.Name)
		fmt.Printf("%s %s ×%d: %s\n", e.Type, e.Reason, e.Count, e.Message)
	}
	// Output:
	// Pod shop/frontend: Warning DNSFailed ×3: no address for example.com
}
