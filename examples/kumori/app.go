package main

import "github.com/nagi-runtime/nagi/entity"

// An App asks for an image that runs with the memory of a plan, and for an endpoint under which it is reached. Two apps
// may ask for the same endpoint; one gets it.
type (
	AppSpec struct {
		Image    string `json:"image"`
		Plan     string `json:"plan"`
		Endpoint string `json:"endpoint"`
	}
	AppStatus struct {
		Host string `json:"host,omitempty"`
	}
	App = entity.Object[AppSpec, AppStatus]
)

// A Process and an Endpoint are the secondaries: the controller makes them for each App.
type (
	ProcessSpec struct {
		Image  string `json:"image"`
		Memory int    `json:"memory"` // MiB
	}
	Process = entity.Object[ProcessSpec, struct{}]

	EndpointSpec struct {
		Host string `json:"host"`
	}
	Endpoint = entity.Object[EndpointSpec, struct{}]
)

// A Plan is a tertiary: the controller reads it and never writes it.
type (
	PlanSpec struct {
		Memory int `json:"memory"` // MiB
	}
	Plan = entity.Object[PlanSpec, struct{}]
)
