package external

import "context"

// IExternalClient lists and deletes the resources of one kind behind an API. Its methods may be called concurrently,
// and must return soon after their context has ended: one that does not shows as degraded until it returns, and no
// second List begins meanwhile.
type IExternalClient interface {
	// Kind names the resources in logs and events. It never changes, and no other client of the controller has it.
	Kind() string
	// List returns all resources of the caller's kind and instance, and only those: see OwnerFrom. The runtime takes
	// them for the caller's own. It would delete those of another controller or installation, because their owners are
	// not there. A resource that is not listed is gone. An error changes nothing.
	List(ctx context.Context) ([]Resource, error)
	// Delete removes a resource. If it is absent, that is a success. Delete may return before the resource is gone: the
	// runtime lists until it is.
	Delete(ctx context.Context, id string) error
}

// Resource is one resource behind an API.
type Resource struct {
	ID       string // as the API names it; not empty, and unique
	OwnerKey string // key of the primary it belongs to
	Version  string // etag or digest of the live state: any difference is drift
}

// Watcher is an optional interface of an IExternalClient whose API can push changes.
type Watcher interface {
	// Watch calls changed with the owner of each resource that changed, until the context ends. If the API does not
	// name the owner, it calls changed with "", and the resources are listed soon. If Watch returns earlier, it is
	// called again with backoff, and the resources are listed, because something may have been missed. changed returns
	// at once and may be called concurrently.
	Watch(ctx context.Context, changed func(ownerKey string)) error
}

// ConditionalDeleter is an optional interface of an IExternalClient whose API can delete on the condition that a
// resource has not changed. The runtime calls it instead of Delete.
type ConditionalDeleter interface {
	// DeleteSeen removes a resource if it still is as seen, and fails if it is not. If it is absent, that is a success.
	DeleteSeen(ctx context.Context, seen Resource) error
}
