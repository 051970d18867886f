// Package controllerruntime is the API of the Kumori controllerruntime over the engine of package controller: nine type
// parameters, IController, SyncHandler, HandleSecondary, GarbageSecondaries.
//
// It is for controllers that were written to that API, which run here as they are. A custom controller embeds a
// [ControllerRuntime] and writes SyncHandler; the rest it inherits, and overrides what it wants to do differently:
//
//	type siteController struct {
//		*controllerruntime.ControllerRuntime[*Site, *Page, none, none, none, none, none, none, none]
//		…
//	}
//
//	func (c *siteController) SyncHandler(key string) error { … } // make the world match the site with this key
//
// The flow: get a key from the work queue; if it is not valid, forget it; SyncHandler; on an error add it again
// rate-limited; on success forget it; done. There is no automatic cascade: SyncHandler cleans up when the primary is gone.
// Deletes are not lost all the same: a primary that was deleted while the controller was down is synced when it starts.
//
// Package controller is the modern API of the same engine, and has what is not about Kumori's signatures: CreateOrUpdate,
// SetStatus, predicates, options. Inside SyncHandler [ControllerRuntime.Context] gives the context that they need.
package controllerruntime
