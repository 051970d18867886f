package main

import "github.com/nagi-runtime/nagi/entity"

// A Foo asks for a Deployment with a name and a number of replicas, as in kubernetes/sample-controller. Here it is a
// document in a NATS bucket and not a custom resource: no CRD to install, no code to generate.
type (
	FooSpec struct {
		DeploymentName string `json:"deploymentName"`
		Replicas       *int32 `json:"replicas"`
	}
	FooStatus struct {
		AvailableReplicas int32 `json:"availableReplicas"`
	}
	Foo = entity.Object[FooSpec, FooStatus]
)
