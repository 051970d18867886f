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
// New controllers use package controller. Its helpers work here too: inside SyncHandler [ControllerRuntime.Context]
// gives the context for controller.CreateOrUpdate, controller.SetStatus and the handles of package kube.
package controllerruntime
