// Package controllerruntime has the API of the Kumori controllerruntime, on the engine of package controller: nine type
// parameters, IController, SyncHandler, HandleSecondary, GarbageSecondaries.
//
// Controllers that were written to that API run here as they are. A custom controller embeds a [ControllerRuntime] and
// writes SyncHandler. It inherits the rest, and overrides what it wants to do differently:
//
//	type siteController struct {
//		*controllerruntime.ControllerRuntime[*Site, *Page, none, none, none, none, none, none, none]
//		…
//	}
//
//	func (c *siteController) SyncHandler(key string) error { … } // make the world match the site with this key
//
//	c.SetCustomController(c)
//	c.Run(4, stopCh, errCh)
//
// The flow: get a key from the work queue; if it is not valid, forget it; call SyncHandler; on an error add the key
// again, rate-limited; on success forget it; done. There is no automatic cascade: SyncHandler cleans up when the
// primary is gone. Deletes are not lost: a primary that was deleted while the controller was down is synced when it
// starts.
//
// Besides what the original has, and without a change of its signatures. A base struct of your own that is embedded
// beside the runtime may have any of these names, and then has the name; see [ControllerRuntime].
//
//   - [ControllerRuntime.WithOptions] takes options of package controller before Run: the lease, backoff, timeouts, the
//     error policy, OnBrake.
//   - A custom controller may have HandleTertiary(obj any) and HandleTertiaryUpdate(oldObj, newObj any); see
//     [IController].
//   - [ControllerRuntime.Context] gives, inside SyncHandler, the context of the sync. Write with it: what is written
//     belongs to the primary, what another primary owns is refused, and writes end when the controller has to stop.
//     [ControllerRuntime.Operations] says why the key is synced.
//   - One client or informer in two slots of a sort tells of each event once. In a slot for secondaries and one for
//     tertiaries it tells each handler once.
//   - What blocks is bounded. A GarbageSecondaries that does not return shows in Stats().Degraded, stops no resync, and
//     is left behind, with an error, ten seconds after the last worker has ended. Run returns then; the goroutine
//     stays.
//   - A replica that waits for the lease keeps the keys of primaries that exist, and what was enqueued for another
//     reason than a secondary, a tertiary or an external resource.
//   - What is wrong with the arguments is logged by Run, also where errCh is nil.
//
// Objects that the original made name their owner by the labels kumori/ownerkind and kumori/ownerkey alone. They are
// secondaries like all others: their events reach the owner, DecomposeKubeSecondaryResource, the listers' OwnedBy and
// controller.OwnerOf find it, and GarbageSecondaries asks for it when it is gone. In NATS such a label may hold any
// key. In Kubernetes a key that is no value of a label is there as a hash; then the owner is found while it exists, and
// afterwards the object is counted in Stats().Orphaned and stays.
//
// What this API lets through that package controller does not, because the original does:
//
//   - A secondary that names no installation counts as this installation's. A writer of secondaries can so have
//     an owner synced, and where two installations share a cluster each takes such secondaries for its own. Call
//     [ControllerRuntime.RequireInstance] where nothing is left that the original made.
//   - A secondary may name an owner in another namespace. There is no option that forbids it: check it in
//     HandleSecondary, or use package controller.
//
// An owner that never was, of which there is neither a document nor a record nor the marker of its delete, is not
// synced; Stats().NeverWas counts what names it.
//
// New controllers use package controller. Its helpers work here too, with [ControllerRuntime.Context]:
// controller.CreateOrUpdate, controller.SetStatus and the handles of package kube.
package controllerruntime
