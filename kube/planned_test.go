package kube

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/internal/dryrun"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

var resourceOfMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func planned(t *testing.T) (context.Context, *dryrun.Plan) {
	plan := dryrun.New()
	return context.WithValue(t.Context(), dryrun.Key{}, plan), plan
}

func sentMap(value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"value": value},
		"metadata": map[string]any{"name": "settings", "namespace": "shop"},
	}}
}

// TestAPlanKeepsClustersApart: an object of one is not there in the other one, whatever it is called.
func TestAPlanKeepsClustersApart(t *testing.T) {
	ctx, plan := planned(t)
	one, two := fake.NewSimpleDynamicClient(scheme.Scheme), fake.NewSimpleDynamicClient(scheme.Scheme)
	_, err := resourceAt(one, resourceOfMaps, "shop").Create(ctx, sentMap("one"), metav1.CreateOptions{})
	must(t, err)
	_, err = resourceAt(two, resourceOfMaps, "shop").Get(ctx, "settings", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("in the other cluster it is there: %v", err)
	}
	_, err = resourceAt(two, resourceOfMaps, "shop").Create(ctx, sentMap("two"), metav1.CreateOptions{})
	must(t, err)
	if changes := plan.Changes(); len(changes) != 2 || changes[0].Cluster == changes[1].Cluster {
		t.Errorf("the changes are %+v", changes)
	}
	if err := resourceAt(one, resourceOfMaps, "shop").Delete(ctx, "settings", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if changes := plan.Changes(); len(changes) != 1 {
		t.Errorf("after the delete of one they are %+v", changes)
	}
}

// incomparable is a client that cannot be a key of a map.
type incomparable struct {
	dynamic.Interface
	_ []string
}

// TestAPlanTakesAnyClient, also one whose value cannot be compared.
func TestAPlanTakesAnyClient(t *testing.T) {
	ctx, plan := planned(t)
	client := incomparable{Interface: fake.NewSimpleDynamicClient(scheme.Scheme)}
	_, err := resourceAt(client, resourceOfMaps, "shop").Create(ctx, sentMap("one"), metav1.CreateOptions{})
	if must(t, err); len(plan.Changes()) != 1 {
		t.Errorf("the changes are %+v", plan.Changes())
	}
}

// TestAPlanAnswersForWhatTheServerDoesNotHave, as the server would if it had it.
func TestAPlanAnswersForWhatTheServerDoesNotHave(t *testing.T) {
	ctx, plan := planned(t)
	client := fake.NewSimpleDynamicClient(scheme.Scheme)
	maps := resourceAt(client, resourceOfMaps, "shop")
	create := func(value string) error {
		_, err := maps.Create(ctx, sentMap(value), metav1.CreateOptions{})
		return err
	}
	patch := func(kind types.PatchType, data string) error {
		_, err := maps.Patch(ctx, "settings", kind, []byte(data), metav1.PatchOptions{})
		return err
	}
	remove := func(uid types.UID) error {
		return maps.Delete(ctx, "settings", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	}
	must(t, create("one"))
	made, err := maps.Get(ctx, "settings", metav1.GetOptions{})
	must(t, err)
	client.ClearActions()
	if err := create("two"); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second create: %v", err)
	}
	if err := patch(types.ApplyPatchType, `{"metadata":{"resourceVersion":"1"}}`); !apierrors.IsConflict(err) {
		t.Errorf("an apply of what must not exist: %v", err)
	}
	if err := remove("another"); !apierrors.IsConflict(err) {
		t.Errorf("a delete of another one: %v", err)
	}
	must(t, remove(made.GetUID()))
	if err := remove(made.GetUID()); !apierrors.IsNotFound(err) {
		t.Errorf("a second delete: %v", err)
	}
	if err := patch(types.MergePatchType, `{"data":{"value":"two"}}`); !apierrors.IsNotFound(err) {
		t.Errorf("a patch of what is gone: %v", err)
	}
	if err := patch(types.ApplyPatchType, `{"metadata":{"uid":"another"}}`); !apierrors.IsNotFound(err) {
		t.Errorf("an apply to what is gone: %v", err)
	}
	must(t, create("three"))
	if actions := client.Actions(); len(actions) != 0 {
		t.Errorf("the server was asked: %v", actions)
	}
	again, err := maps.Get(ctx, "settings", metav1.GetOptions{})
	if must(t, err); again.GetUID() == "" || again.GetUID() == made.GetUID() || again.GetResourceVersion() == "" {
		t.Errorf("what is made again is %+v", again)
	}
	if changes := plan.Changes(); len(changes) != 1 || changes[0].Action != dryrun.ActionCreate {
		t.Errorf("the changes are %+v", changes)
	}
}
