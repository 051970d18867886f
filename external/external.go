// Package external describes resources behind an API that is neither NATS nor Kubernetes.
package external

import "context"

// IExternalClient lists and deletes the resources of one kind behind an API.
type IExternalClient interface {
	// Kind names the resources in logs and events.
	Kind() string
	// List returns all resources that this installation manages, with their owners. An error changes nothing.
	List(ctx context.Context) ([]Resource, error)
	// Delete removes a resource. One that is absent is success.
	Delete(ctx context.Context, id string) error
}

// Resource is one resource behind an API.
type Resource struct {
	ID       string // as the API names it
	OwnerKey string // key of the primary it belongs to
	Version  string // etag or digest of the live state: any difference is drift
}

// Watcher is an optional interface of an IExternalClient whose API can push changes.
type Watcher interface {
	// Watch calls changed with the owner of each resource that changed, until the context ends.
	Watch(ctx context.Context, changed func(ownerKey string)) error
}
