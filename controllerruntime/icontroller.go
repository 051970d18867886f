package controllerruntime

// The reasons and messages of events that controllers written to the Kumori API record. %q is the resource.
const (
	ReasonResourceSynced         = "Synced"
	ReasonErrResourceExists      = "ErrResourceExists"
	MessageErrResourceExists     = "Resource %q already exists and is not managed by this controller"
	MessageResourceSyncedCreated = "%q synced successfully (created)"
	MessageResourceSyncedUpdated = "%q synced successfully (updated)"
	MessageResourceSyncedDeleted = "%q synced successfully (deleted)"
)

// IController is a controller in the style of the Kumori controllerruntime. A custom controller embeds a
// *ControllerRuntime, writes SyncHandler, and overrides the methods that it wants to do differently.
//
// A custom controller may also have a method HandleTertiary(obj any). It is called with each tertiary that was added,
// updated or deleted, as HandleSecondary is with secondaries; without it tertiaries enqueue nothing.
type IController interface {
	// Run runs the controller until stopCh is closed.
	Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error)
	// SyncHandler makes the world match the primary with this key, which may be gone. After an error it is called
	// again, with backoff. It is called concurrently for different keys, and never twice at once for one key.
	SyncHandler(key string) error
	// HandleSecondary is called with each secondary that was added, updated (its status too) or deleted. The runtime
	// itself enqueues nothing for a secondary; HandleSecondary does. It must not block.
	//
	// obj is the object itself. For a delete it is the last known object, or the cache.DeletedFinalStateUnknown that
	// client-go gives. For external resources it is an external.Resource; one with only an OwnerKey was made and
	// deleted before any list showed it. Objects of a Kubernetes informer belong to its cache and must not be modified.
	HandleSecondary(obj any)
	// GarbageSecondaries is called after the first sync and at each resync interval, to find secondaries whose owner is
	// gone.
	GarbageSecondaries()
	// Clean is called once, when Run ends, also if it failed. No worker runs any more.
	Clean()
}

// tertiaryHandler is the optional part of a custom controller that hears of changes of tertiaries.
type tertiaryHandler interface {
	HandleTertiary(obj any)
}
