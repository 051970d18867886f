package main

import "github.com/nagi-runtime/nagi/entity"

// An Application is an image that runs in some replicas, listens on a port and reads its settings from the environment.
// Its namespace, in NATS the first part of the key, is the Kubernetes namespace where it runs.
type (
	ApplicationSpec struct {
		Image    string            `json:"image"`
		Replicas int32             `json:"replicas"`
		Port     int32             `json:"port"`
		Settings map[string]string `json:"settings,omitempty"`
	}
	ApplicationStatus struct {
		ReadyReplicas int32  `json:"readyReplicas"`
		Address       string `json:"address,omitempty"`
	}
	Application = entity.Object[ApplicationSpec, ApplicationStatus]
)
