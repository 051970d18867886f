package kube

import (
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		resource := corev1.SchemeGroupVersion.WithResource("configmaps")
		_, err := New[*corev1.ConfigMap](nil, resource, stillInformer())
		says(t, err, "kube.New(configmaps/v1)", "a client")
		_, err = New[*corev1.ConfigMap](nil, resource, nil, WithFieldManager(""), WithDeletes(WithPropagation("sideways")))
		says(t, err, "WithFieldManager", "an informer")
		_, err = New[Object](nil, resource, stillInformer())
		says(t, err, "pointer to a struct")
	})
}
