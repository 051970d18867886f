package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WebsiteSpec defines the desired state of Website.
type WebsiteSpec struct {
	// host is the name under which the site is served.
	Host string `json:"host"`
	// replicas is how many servers it has.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// aliases are other names of it.
	// +optional
	Aliases []string `json:"aliases,omitempty"`
}

// WebsiteStatus defines the observed state of Website.
type WebsiteStatus struct {
	// conditions represent the current state of the Website resource.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status

// Website is the Schema for the websites API.
type Website struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is a standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec defines the desired state of Website.
	// +required
	Spec WebsiteSpec `json:"spec"`

	// status defines the observed state of Website.
	// +optional
	Status WebsiteStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// WebsiteList contains a list of Website.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Website `json:"items"`
}
