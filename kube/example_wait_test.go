package kube_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/kube"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

// Conditions are combined: the Deployment is there and available, as kubectl wait would say it. A wait ends with its
// context.
func ExampleHandle_WaitFor() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	client := fake.NewSimpleDynamicClient(scheme.Scheme, deployed("1", 1, 1, "True"))
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	web, err := kube.New[*appsv1.Deployment](client, deployments, factory.ForResource(deployments).Informer())
	check(err)
	factory.Start(ctx.Done())

	obj, err := web.WaitFor(ctx, "shop/web", kube.And(
		kube.HasCondition[*appsv1.Deployment]("Available", metav1.ConditionTrue),
		kube.Not(kube.HasCondition[*appsv1.Deployment]("ReplicaFailure", metav1.ConditionTrue)),
	))
	check(err)
	fmt.Println(obj.Name, "is available")

	stop()
	factory.Shutdown()
	// Output: web is available
}
