// Package controller runs controllers whose primary resources are JSON documents in a NATS JetStream key-value bucket.
//
// A user writes the desired state of a thing as a document. A controller makes the world match it: other entities in
// NATS, Kubernetes objects, resources behind any API. It looks as in controller-runtime:
//
//	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
//	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
//	c, err := controller.New("sites", sites, reconciler, controller.Owns(pages), controller.WithWorkers(8))
//	err = c.Run(ctx)
//
// # Words
//
// A primary is the document that a controller reconciles. A secondary is something that the controller makes for a
// primary, and that names it as its owner. A tertiary is something that the controller only reads.
//
// # Flow
//
// Data flows one way: bucket → informer → event handler → queue → worker → [Reconciler] → writes. A source turns its
// events into keys of primaries: [Owns] by the owner that a secondary names, [Watches] by a function. The queue merges
// the events of a key and remembers why it is due. What users change now goes before the backlog, and a [Priority] says
// otherwise where that is wanted. With [WithFairness] tenants take turns, [WithRate] bounds reconciles, and
// [WithRateLimiter] spaces retries. Two workers never reconcile one key at once.
//
// # Records, and deletes that are not lost
//
// The user writes the document, the controller writes the status. They never share a key: the status bucket holds,
// under the document's key, a record with status, conditions and the document that was reconciled last.
//
// Two controllers over one bucket need a status bucket each; [entity.Client.WithStatusBucket] makes the second client.
//
// The record is written before a key is first reconciled. So a record without a document is a delete that is still
// owed: the controller was down, the tombstone has expired, or a crash came halfway. Then the reconciler runs with
// [OperationDelete], the runtime deletes what the primary still owns, and the record goes last.
//
// A reconcile ends with [SetStatus], which writes status and outcome at once. The client's UpdateStatus is for a status
// that must be stored before the reconcile goes on.
//
// # Ownership
//
// A secondary names its primary in labels and annotations, in every store alike. [CreateOrUpdate] sets them inside a
// reconcile, and so do the handles of package kube; [Controller.SetOwner] does it by hand. An object without an owner,
// or with another one, is not taken over, neither in NATS nor in Kubernetes: see [ResourceExistsError] and
// [AlreadyOwnedError]. [WithAdopt] and [WithHandOverFrom] take it.
//
// Three ways lead to a delete: the cascade deletes what a primary that is gone still owns, the sweep what names a
// primary without a record, and the prune ([WithPrune]) what a reconcile no longer wants. Before each object stands one
// guard. The term leads. The cache and the leader agree that the primary is gone, or, for a prune, there as it was
// reconciled. The source has synced and shows no older state than its server has. The object is for certain that
// primary's: kind, key, installation, proof and namespace. The delete is evidenced, or the brake lets it go.
//
// A delete is evidenced if this process saw it; any other is inferred from absence. The brake engages if more than half
// of what is known, and at least ten, would go, or if the bucket's stream is not the one that was known. Then it lets
// nothing go until [Controller.ReleaseBrake]. What is owned carries a revision of its owner's document,
// [entity.OwnerRevisionAnnotation]. One that the stream has not reached shows that the stream was restored to an
// earlier state. docs/restoring.md in the repository has the procedure.
//
// The marks of an owner are believed, also those that others wrote, so who may annotate an object can have it deleted.
// Where objects have writers that are not to have that right, [WithOwnerProof] lets only what carries a proof be
// deleted.
//
// # Kubernetes objects
//
// [OwnsKube] and [WatchesKube] take a client-go informer of yours. To write the objects as well, make a handle with
// kube.New: its Owns is OwnsKube with the right deleter, and its Apply, CreateOrUpdate, Delete and AdoptOrFail write
// for the reconciled primary. Without a handle, kube.Deleter serves for [WithDeleter].
//
// # Resources behind other APIs
//
// [OwnsExternal] makes secondaries of the resources behind any other API. They are listed on an interval and compared
// by version, and cascade and sweep hold for them too. While the API is away, the keys that need it wait without
// failing, and it is polled once for all of them. external.Reconcile drives a typed driver through create, update and
// delete; the intent is written down first, so a crash neither creates twice nor forgets.
//
// # Replicas
//
// Run holds a lease in the status bucket: one replica works, the others wait with warm caches. A status bucket serves
// one controller.
//
// # Limits
//
// KV has no UID: a delete and a re-create that are seen late look like an update. If a record and its document both
// vanish while the controller is down, that delete is lost.
//
// Package controllerruntime has the API of the Kumori controllerruntime on the same engine.
package controller
