package main

import "github.com/nagi-runtime/nagi/entity"

// Order is what a customer wants.
//
// +kubebuilder:printcolumn:name="Workloads",type=integer,JSONPath=`.spec.workloads`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.ready`
type Order = entity.Object[OrderSpec, Progress]

// OrderSpec is what a customer wants.
type OrderSpec struct {
	// Workloads is how many are to run.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Workloads int `json:"workloads"`
	// Volumes is how many each workload has.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Volumes int `json:"volumes"`
	// Gigabytes is the size of each volume.
	Gigabytes int `json:"gigabytes"`
}

// Workload is one that an order makes.
type Workload = entity.Object[WorkloadSpec, Progress]

// WorkloadSpec is what the workload needs.
type WorkloadSpec struct {
	// Volumes is how many it has.
	Volumes int `json:"volumes"`
	// Gigabytes is the size of each volume.
	Gigabytes int `json:"gigabytes"`
}

// Progress is how far an order or a workload has come.
type Progress struct {
	// Ready is how many of what it makes are ready.
	Ready int `json:"ready"`
	// Done says that all are.
	Done bool `json:"done"`
}

// Volume is one that a workload makes.
type Volume = entity.Object[VolumeSpec, VolumeStatus]

// VolumeSpec is the size of a volume.
type VolumeSpec struct {
	Gigabytes int `json:"gigabytes"`
}

// VolumeStatus says whether there is a disk for the volume.
type VolumeStatus struct {
	Done bool `json:"done"`
}
