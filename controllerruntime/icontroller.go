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
// updated or deleted, as HandleSecondary is with secondaries; without it tertiaries enqueue nothing. It may have a
// method HandleTertiaryUpdate(oldObj, newObj any), too. That is called instead of HandleTertiary for updates, those of
// a status too, with the tertiary as it was and as it is: who was concerned only by the old one learns of it.
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
	// gone. It has a goroutine of its own, and is not called again before it has returned. One that takes longer than
	// ten seconds, or the interval, shows in Stats().Degraded and holds up nothing else. It should return soon after
	// stopCh is closed: the end of Run waits ten seconds for it, and then leaves it behind.
	GarbageSecondaries()
	// Clean is called once, when Run ends, also if it failed. No worker runs any more; a GarbageSecondaries that was
	// left behind may.
	Clean()
}

// tertiaryHandler is the optional part of a custom controller that hears of changes of tertiaries.
type tertiaryHandler interface {
	HandleTertiary(obj any)
}

// tertiaryUpdateHandler is the optional part of one that also hears what an updated tertiary was before.
type tertiaryUpdateHandler interface {
	HandleTertiaryUpdate(oldObj, newObj any)
}
