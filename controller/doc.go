// Package controller runs controllers whose primary resources are JSON documents in a NATS JetStream key-value
// bucket.
//
// A user writes the desired state of a thing as a document; a controller makes the world match it: other entities in
// NATS, Kubernetes objects, anything behind an API. If you know controller-runtime you know the shape:
//
//	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
//	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
//	controller, err := controller.New("sites", sites, reconciler,
//		controller.Owns(pages), controller.WithWorkers(8))
//	err = controller.Run(ctx)
//
// # Flow
//
// Data flows one way: bucket → informer → event handler → queue → worker → [Reconciler] → writes. A source's events become
// keys of primaries ([Owns] by their owner, [Watches] by a function); the queue merges them, remembers why, and lets what
// users change now go before the backlog. One key is never reconciled by two workers at once.
//
// # Records, and deletes that are not lost
//
// The user writes the document, the controller the status, and never do both share a key: status, conditions and what is
// owed live in a record of the same key in the status bucket. The record is written before a key is first reconciled, with
// the document, so it is also the anchor of the teardown: a record without a document is a delete still owed, whether it was
// missed while the controller was down, its tombstone was purged, or a crash came halfway. Then the reconciler runs with
// [OperationDelete], the runtime deletes what the primary still owns, and last the record goes.
//
// A reconcile ends with [SetStatus]: status and outcome become one write. The client's UpdateStatus is for what must be
// stored before the reconcile goes on.
//
// # Ownership
//
// A secondary names its primary in labels and annotations, across stores: [Controller.SetOwner], or [CreateOrUpdate] inside
// a reconcile. What names no owner, or another one, is not taken over: neither in NATS nor in Kubernetes.
//
// Deleting is careful. Only objects of this installation are touched, never before all caches have synced,
// never on the cache's word alone, and before every delete that is inferred from absence stands the brake: if more than half
// of what is known, and at least ten, would go, or the bucket's stream is not the one that was known, nothing goes until
// [Controller.ReleaseBrake].
//
// # Resources behind other APIs
//
// [OwnsExternal] makes secondaries of what is behind an API that is neither NATS nor Kubernetes: listed on an interval,
// compared by version, cascaded and swept like the rest. While the API is away the keys that need it wait, at no cost to
// them, and it is polled once for all. external.Reconcile drives a typed driver through create, update and delete, with
// the intent written down before, so that a crash neither creates twice nor forgets.
//
// # Kubernetes objects
//
// A [Kube] is a handle for the objects of one Kubernetes resource over an informer of the user's. Its Owns makes them
// secondaries, with cascade, sweep and brake as for entities in NATS; its Apply, CreateOrUpdate, Delete and AdoptOrFail write
// for the reconciled primary, never touch what is somebody else's, and are read back at once. [OwnsKube] and [WatchesKube]
// take any informer without a handle, typed, unstructured or metadata-only; what cascade and sweep delete there a deleter
// deletes, as [KubeDeleter].
//
// # Replicas
//
// One replica works, the others wait with warm caches: Run holds a lease in the status bucket. A status bucket serves one
// controller.
//
// # The Kumori API
//
// [ControllerRuntime] is the same engine under the API of the Kumori controller: nine type parameters, [IController],
// SyncHandler, HandleSecondary, GarbageSecondaries.
//
// # What it does not do
//
// KV has no UID: a delete and a re-create that are seen late are an update. If a record and its document both vanish while
// the controller is down, that delete is lost.
package controller
