package kube_test

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Outside of a reconcile an object names its owner itself. Get shows an own write at once; the same again sends
// nothing.
func ExampleHandle_CreateOrUpdate() {
	ctx, stop := context.WithCancel(context.Background())
	client := fake.NewSimpleDynamicClient(scheme.Scheme)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	settings, err := kube.New[*corev1.ConfigMap](client, configMaps,
		factory.ForResource(configMaps).Informer(), kube.WithFieldManager("shops"))
	check(err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	for _, greeting := range []string{"hello", "hello"} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "books"}}
		obj.Annotations = map[string]string{
			controller.OwnerkindAnnotation: "Shop", controller.OwnerKeyAnnotation: "books",
		}
		result, err := settings.CreateOrUpdate(ctx, obj, func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"greeting": greeting}
			return nil
		})
		check(err)
		written, err := settings.Get("default/books")
		check(err)
		fmt.Println(result, written.Data["greeting"])
	}

	stop()
	factory.Shutdown()
	// Output:
	// created hello
	// unchanged hello
}

// A deleter deletes the object that was seen. One that is absent is success.
func ExampleDeleter() {
	ctx := context.Background()
	seen := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "books", UID: "1f0b"}}
	client := fake.NewSimpleDynamicClient(scheme.Scheme, seen)
	deleter := kube.Deleter(client, configMaps, kube.WithPropagation(metav1.DeletePropagationForeground))

	fmt.Println(deleter.Delete(ctx, seen))
	_, err := client.Resource(configMaps).Namespace("default").Get(ctx, "books", metav1.GetOptions{})
	fmt.Println("gone:", apierrors.IsNotFound(err))
	fmt.Println(deleter.Delete(ctx, seen))
	fmt.Println(deleter.Delete(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "books"}}))
	// Output:
	// <nil>
	// gone: true
	// <nil>
	// delete configmaps/v1 "default/books": the object has no uid, so it cannot be told from another one of that name: give one that was read
}
