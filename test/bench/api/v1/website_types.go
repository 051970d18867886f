package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WebsiteSpec defines the desired state of Website.
type WebsiteSpec struct {
	// host is the name under which the site is served.
	Host string `json:"host"`
	// image is what its servers run.
	Image string `json:"image"`
	// region is where they run.
	Region string `json:"region"`
	// stage is production or another one.
	Stage string `json:"stage"`
	// replicas is how many servers it has.
	Replicas int32 `json:"replicas"`
	// paths are served by it.
	Paths []string `json:"paths"`
	// tls tells whether it is encrypted.
	TLS bool `json:"tls"`
	// contact is who looks after it.
	Contact string `json:"contact"`
	// notes say anything.
	Notes string `json:"notes"`
	// sent is when this version was written, in nanoseconds since 1970.
	Sent int64 `json:"sent"`
}

// WebsiteStatus defines the observed state of Website.
type WebsiteStatus struct {
	// ready tells whether the site is served.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// address is where.
	// +optional
	Address string `json:"address,omitempty"`
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
