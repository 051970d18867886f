package mergediff

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// custom is of a custom resource, with fields of its own and of Kubernetes.
type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Server   struct{}               `json:"server,omitempty"`
		Required struct{}               `json:"required"`
		Template corev1.PodTemplateSpec `json:"template,omitempty"`
		Pointed  *struct{}              `json:"pointed,omitempty"`
	} `json:"spec,omitempty"`
}

// TestEmptyStructsThatNobodyHasSetAreDropped, and no others.
func TestEmptyStructsThatNobodyHasSetAreDropped(t *testing.T) {
	ofCustom := &custom{}
	ofCustom.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a"}}
	ofCustom.Spec.Pointed = &struct{}{}
	for name, test := range map[string]struct {
		obj  any
		want string
	}{
		"a deployment": {
			&appsv1.Deployment{Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{},
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers:      []corev1.Container{{Name: "a"}, {Name: "b", SecurityContext: &corev1.SecurityContext{}}},
					Volumes:         []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
					SecurityContext: &corev1.PodSecurityContext{},
				}},
			}},
			`{"spec":{"selector":{},"template":{"spec":{"containers":[{"name":"a"},{"name":"b","securityContext":{}}],` +
				`"securityContext":{},"volumes":[{"emptyDir":{},"name":"v"}]}}}}`,
		},
		"set structs": {
			&appsv1.Deployment{Spec: appsv1.DeploymentSpec{
				Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{}},
			}},
			`{"spec":{"selector":null,"strategy":{"rollingUpdate":{}},"template":{"spec":{"containers":null}}}}`,
		},
		"claims in a list": {
			&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}}}},
			`{"spec":{"selector":null,"serviceName":"","template":{"spec":{"containers":null}},"volumeClaimTemplates":[{}]}}`,
		},
		"a policy": {
			&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
				Ingress: []networkingv1.NetworkPolicyIngressRule{{}},
				Egress:  []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}},
			}},
			`{"spec":{"egress":[{"to":[{"podSelector":{}}]}],"ingress":[{}],"podSelector":{}}}`,
		},
		"a custom resource": {
			ofCustom,
			`{"metadata":{},"spec":{"pointed":{},"required":{},"server":{},"template":{"spec":{"containers":[{"name":"a"}]}}}}`,
		},
	} {
		fields, err := FieldsOf(test.obj)
		if err != nil {
			t.Fatal(err)
		}
		if metadata, ok := fields["metadata"].(map[string]any); ok {
			delete(metadata, "creationTimestamp")
		}
		delete(fields, "status")
		DropEmptyStructs(fields, test.obj)
		got, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != test.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, test.want)
		}
	}
}

// TestEmptyStructsBelowAFieldWithoutATagAreDropped: its name is that of the field.
func TestEmptyStructsBelowAFieldWithoutATagAreDropped(t *testing.T) {
	type untagged struct {
		Template corev1.PodTemplateSpec
	}
	obj := &untagged{}
	obj.Template.Spec.Containers = []corev1.Container{{Name: "a"}}
	fields, err := FieldsOf(obj)
	if err != nil {
		t.Fatal(err)
	}
	DropEmptyStructs(fields, obj)
	if got, want := string(encoded(t, fields)), `{"Template":{"spec":{"containers":[{"name":"a"}]}}}`; got != want {
		t.Errorf("the fields are %s, want %s", got, want)
	}
}
