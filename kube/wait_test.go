package kube_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/kube"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

var deployments = appsv1.SchemeGroupVersion.WithResource("deployments")

type deploymentHandle = kube.Handle[*appsv1.Deployment]

// deployed is a Deployment as its controller has seen it at a generation.
func deployed(uid string, generation, observed int64, available string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": uid, "generation": generation},
		"status": map[string]any{"observedGeneration": observed, "conditions": []any{
			map[string]any{"type": "Available", "status": available, "message": "one pod of two"},
		}},
	}}
}

// inCluster runs a test in virtual time with a handle whose informer runs.
func inCluster(t *testing.T, test func(t *testing.T, handle *deploymentHandle, client dynamic.ResourceInterface)) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleDynamicClient(scheme.Scheme)
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		handle, err := kube.New[*appsv1.Deployment](client, deployments, factory.ForResource(deployments).Informer())
		check(err)
		ctx, stop := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		test(t, handle, client.Resource(deployments).Namespace("shop"))
		stop()
		factory.Shutdown()
	})
}

var available = kube.HasCondition[*appsv1.Deployment]("Available", metav1.ConditionTrue)

// TestAWaitEndsWhenAConditionIsOfTheLatestSpec, and not before: what is said of an earlier one does not count.
func TestAWaitEndsWhenAConditionIsOfTheLatestSpec(t *testing.T) {
	inCluster(t, func(t *testing.T, handle *deploymentHandle, client dynamic.ResourceInterface) {
		ctx := t.Context()
		go func() {
			for _, obj := range []*unstructured.Unstructured{
				deployed("1", 1, 1, "False"), deployed("1", 2, 1, "True"), deployed("1", 2, 2, "True"),
			} {
				time.Sleep(time.Minute)
				if _, err := client.Update(ctx, obj, metav1.UpdateOptions{}); err != nil {
					_, err = client.Create(ctx, obj, metav1.CreateOptions{})
					check(err)
				}
			}
		}()
		began := time.Now()
		got, err := handle.WaitFor(ctx, "shop/web", available)
		check(err)
		if took := time.Since(began); took != 3*time.Minute || got.Generation != 2 {
			t.Errorf("it ended after %v, with %+v", took, got)
		}
	})
}

// TestConditionsOfAWaitAreCombined, of an object and of none.
func TestConditionsOfAWaitAreCombined(t *testing.T) {
	exists, gone := kube.Exists[*appsv1.Deployment](), kube.Deleted[*appsv1.Deployment]("")
	replaced := kube.Deleted[*appsv1.Deployment]("1")
	typed := func(u *unstructured.Unstructured) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		check(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d))
		return d
	}
	for name, tt := range map[string]struct {
		of        *appsv1.Deployment
		condition kube.Condition[*appsv1.Deployment]
		want      bool
	}{
		"none exists":           {nil, exists, false},
		"none is gone":          {nil, gone, true},
		"none was replaced":     {nil, replaced, true},
		"none is not available": {nil, kube.Not(available), true},
		"it exists":             {typed(deployed("1", 1, 1, "True")), exists, true},
		"it is not gone":        {typed(deployed("1", 1, 1, "True")), gone, false},
		"it is the same":        {typed(deployed("1", 1, 1, "True")), replaced, false},
		"it is another":         {typed(deployed("2", 1, 1, "True")), replaced, true},
		"both":                  {typed(deployed("2", 1, 1, "True")), kube.And(available, replaced), true},
		"one of both":           {typed(deployed("1", 1, 1, "True")), kube.And(available, replaced), false},
		"one of two":            {typed(deployed("1", 1, 1, "True")), kube.Or(gone, available), true},
		"of an earlier spec":    {typed(deployed("1", 2, 1, "True")), available, false},
	} {
		if got := tt.condition(tt.of); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAWaitThatEndsTooEarlySaysHowTheObjectIs: what is there, what its conditions say, or that the cache knows nothing.
func TestAWaitThatEndsTooEarlySaysHowTheObjectIs(t *testing.T) {
	inCluster(t, func(t *testing.T, handle *deploymentHandle, client dynamic.ResourceInterface) {
		says := func(handle *deploymentHandle, condition kube.Condition[*appsv1.Deployment], words ...string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := handle.WaitFor(ctx, "shop/web", condition)
			for _, word := range words {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("it does not say %q: %v", word, err)
				}
			}
		}
		says(handle, available, "wait for deployments.apps", "shop/web", "deadline exceeded",
			"the cache has no such object")
		_, err := client.Create(t.Context(), deployed("1", 2, 1, "False"), metav1.CreateOptions{})
		check(err)
		says(handle, available, "Available is False of an earlier spec: one pod of two")
		says(handle, func(*appsv1.Deployment) bool { panic("thirteen") }, "panic", "thirteen")
		says(handle, nil, "needs a condition")
		factory := dynamicinformer.NewDynamicSharedInformerFactory(fake.NewSimpleDynamicClient(scheme.Scheme), 0)
		still, err := kube.New[*appsv1.Deployment](
			fake.NewSimpleDynamicClient(scheme.Scheme), deployments, factory.ForResource(deployments).Informer())
		check(err)
		says(still, available, "has not synced: start its informer")
	})
}

// TestAWaitForADeleteLooksAtTheUID: the name may be another object's by then.
func TestAWaitForADeleteLooksAtTheUID(t *testing.T) {
	inCluster(t, func(t *testing.T, handle *deploymentHandle, client dynamic.ResourceInterface) {
		ctx := t.Context()
		_, err := client.Create(ctx, deployed("1", 1, 1, "True"), metav1.CreateOptions{})
		check(err)
		go func() {
			time.Sleep(time.Minute)
			check(client.Delete(ctx, "web", metav1.DeleteOptions{}))
			_, err := client.Create(ctx, deployed("2", 1, 1, "True"), metav1.CreateOptions{})
			check(err)
		}()
		began := time.Now()
		_, err = handle.WaitFor(ctx, "shop/web", kube.Deleted[*appsv1.Deployment](types.UID("1")))
		check(err)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it ended after %v", took)
		}
	})
}
