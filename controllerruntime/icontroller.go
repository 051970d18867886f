package controllerruntime

// Reasons and messages of events, as controllers written to the Kumori API use them.
const (
	ReasonResourceSynced         = "Synced"
	ReasonErrResourceExists      = "ErrResourceExists"
	MessageErrResourceExists     = "Resource %q already exists and is not managed by this controller"
	MessageResourceSyncedCreated = "%q synced successfully (created)"
	MessageResourceSyncedUpdated = "%q synced successfully (updated)"
	MessageResourceSyncedDeleted = "%q synced successfully (deleted)"
)

// IController is a controller in the style of the Kumori controllerruntime. A custom controller embeds a
// *ControllerRuntime, writes SyncHandler, and overrides of the rest what it wants to do differently.
type IController interface {
	// Run runs the controller until stopCh is closed.
	Run(threadiness int, stopCh <-chan struct{}, errCh chan<- error)
	// SyncHandler makes the world match the primary with this key, which may be gone. After an error it is called again, with
	// backoff. It is never called for one key twice at once.
	SyncHandler(key string) error
	// HandleSecondary is called with each secondary that was added, updated (its status too) or deleted. Only it enqueues
	// for a secondary. It gets the object itself; of a deleted one the last known, or the cache.DeletedFinalStateUnknown
	// that client-go gives. An external.Resource of which only OwnerKey is known was made and deleted before any list showed
	// it. Objects of a Kubernetes informer are its cache's and must not be modified. It must not block.
	HandleSecondary(obj any)
	// GarbageSecondaries is called after the first sync and each resync interval, to find secondaries whose owner is gone.
	GarbageSecondaries()
	// Clean is called once, when Run ends, also where it failed: no worker runs any more.
	Clean()
}

// tertiaryHandler is what a custom controller implements that wants to hear of changes of tertiaries.
type tertiaryHandler interface {
	HandleTertiary(obj any)
}
