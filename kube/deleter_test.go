package kube

import (
	"errors"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// TestAProbeAsksForOneObjectAndForNoOlderVersion: without the match an API server takes version and limit together for
// a list of exactly that version, which may be compacted.
func TestAProbeAsksForOneObjectAndForNoOlderVersion(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleDynamicClient(scheme.Scheme)
		d, err := newResourceDeleter(client, corev1.SchemeGroupVersion.WithResource("configmaps"), nil)
		must(t, err)
		for version, want := range map[string]metav1.ListOptions{
			"": {Limit: 1},
			"1000": {Limit: 1, ResourceVersion: "1000",
				ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
		} {
			client.ClearActions()
			_, err := d.Probe(t.Context(), "shop", version)
			must(t, err)
			asked := client.Actions()[0].(clienttesting.ListActionImpl)
			if asked.ListOptions != want || asked.Namespace != "shop" {
				t.Errorf("version %q: it asks for %+v in %q, want %+v", version, asked.ListOptions, asked.Namespace, want)
			}
		}
	})
}

// TestADeleterReadsWhatThereIs, and takes an error for no absence.
func TestADeleterReadsWhatThereIs(t *testing.T) {
	there := configMap("settings", "one")
	client := fake.NewSimpleDynamicClient(scheme.Scheme, there)
	d, err := newResourceDeleter(client, corev1.SchemeGroupVersion.WithResource("configmaps"), nil)
	must(t, err)
	live, err := d.Live(t.Context(), there)
	if err != nil || live == nil || live.GetName() != there.Name || live.GetNamespace() != there.Namespace {
		t.Errorf("got %v, %v", live, err)
	}
	if live, err = d.Live(t.Context(), configMap("another", "")); live != nil || err != nil {
		t.Errorf("of what is absent it got %v, %v", live, err)
	}
	for name, answer := range map[string]error{
		"refused": apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "settings", errors.New("no")),
		"unknown": &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: 404, Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse}},
			},
		}},
		"unanswered": errors.New("connection refused"),
	} {
		client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, answer
		})
		if live, err := d.Live(t.Context(), there); live != nil || !errors.Is(err, answer) {
			t.Errorf("%s: got %v, %v", name, live, err)
		}
	}
}
