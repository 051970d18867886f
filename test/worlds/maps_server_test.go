package worlds

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// TestAWatchShowsWhatWasWrittenBeforeItBegan: after the list, or since the watch before it has ended. An informer that
// is not shown it would show what is not there until the night's end.
func TestAWatchShowsWhatWasWrittenBeforeItBegan(t *testing.T) {
	server, ctx := newAPIServer(), t.Context()
	create := func(name string) *unstructured.Unstructured {
		t.Helper()
		m := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		m, err := server.byHand().Create(ctx, m, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	remove := func(name string) {
		t.Helper()
		if err := server.byHand().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("k1")
	create("k2")
	all, err := server.byHand().List(ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) != 2 {
		t.Fatalf("%d maps, %v", len(all.Items), err)
	}
	remove("k1")
	first := shown(ctx, t, server, all.GetResourceVersion(), 1)
	if first[0].Type != watch.Deleted || nameOf(first[0]) != "k1" {
		t.Errorf("after the list: %v", first)
	}
	server.endWatches()
	remove("k2")
	create("k3")
	second := shown(ctx, t, server, versionOf(first[0]), 3)
	if nameOf(second[0]) != "k1" || second[1].Type != watch.Deleted || nameOf(second[1]) != "k2" ||
		second[2].Type != watch.Added || nameOf(second[2]) != "k3" {
		t.Errorf("since the watch before: %v", second)
	}
}

// shown are the first events of a watch.
func shown(ctx context.Context, t *testing.T, s *apiServer, since string, n int) (events []watch.Event) {
	t.Helper()
	w, err := s.byHand().Watch(ctx, metav1.ListOptions{ResourceVersion: since})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for range n {
		select {
		case e := <-w.ResultChan():
			events = append(events, e)
		default:
			t.Fatalf("the watch shows %v, want %d events", events, n)
		}
	}
	return events
}

func nameOf(e watch.Event) string { return e.Object.(*unstructured.Unstructured).GetName() }
func versionOf(e watch.Event) string {
	return e.Object.(*unstructured.Unstructured).GetResourceVersion()
}
