// Package kube has handles for Kubernetes objects that belong to primaries in NATS.
//
// A [Handle] reads and writes the objects of one resource, over an informer of yours:
//
//	factory := informers.NewSharedInformerFactory(clientset, 0)
//	deployments, err := kube.New[*appsv1.Deployment](dynamicClient,
//		appsv1.SchemeGroupVersion.WithResource("deployments"), factory.Apps().V1().Deployments().Informer())
//
//	c, err := controller.New("sites", sites, reconciler, deployments.Owns())
//
// and inside Reconcile, with its context:
//
//	_, err := deployments.Apply(ctx, deploymentOf(site))
//
// Start the informers before Run, and stop them after Run has returned.
//
// # Apply or CreateOrUpdate
//
// [Handle.Apply] is server-side apply. Give it the whole of what the controller wants; the fields that it no longer
// wants are removed, and other managers keep theirs. It repairs fields that somebody else changed. It is the right
// choice for most objects.
//
// [Handle.CreateOrUpdate] reads the object, lets a function change it, and sends the difference. It is for objects of
// which the controller sets some fields that depend on the others. Do not use both on one object.
//
// Both send nothing when nothing changed.
//
// # Who owns what
//
// A write inside a reconcile makes the reconciled primary the owner, in labels and annotations: an ownerReference
// cannot name a document in NATS. An object that is another primary's, another installation's or nobody's is not
// touched; the write returns a *controller.ResourceExistsError, and the primary gets an event. [Handle.AdoptOrFail]
// takes over an object that nobody owns.
//
// # Own writes are read back
//
// Get, List and OwnedBy read the informer's cache, and show what this handle wrote even before the cache does. The
// key's next reconcile waits, bounded, until the cache has caught up.
//
// # Deletes
//
// When a primary goes, the cascade deletes the objects that it owns; the sweep deletes objects whose owner does not
// exist. Both use the handle's deleter, which [Handle.Owns] gives to the controller. [WithDeletes] and
// [WithPropagation] say how. Each delete has preconditions on the uid and resourceVersion that were seen.
// [Handle.Delete] is for objects that the reconciler itself no longer wants.
//
// # Without a handle
//
// A reconciler that writes with a client of its own, or only wants events, needs no handle: controller.OwnsKube and
// controller.WatchesKube take the informer. Such a reconciler sets the owner itself (Controller.SetOwner), and does not
// read its own writes. [Deleter] makes the deleter that cascade and sweep need there.
//
// # An informer that is behind
//
// After etcd was restored to an older state an informer goes on watching from a version that is yet to come. A
// connection that is half-open brings nothing either. Neither is an error of the informer. The API server's versions
// and the handle's own writes show it: within seconds where the handle writes, else after minutes of silence. Then the
// source is degraded, and until the informer has listed again, or agrees with the API server, nothing is deleted in it:
// cascades wait, and the sweep leaves its objects alone. If it does not end by itself, restart the process.
//
// # Rights
//
// The informer needs list and watch. Apply needs get, create and patch; CreateOrUpdate and AdoptOrFail too; deletes
// need delete and get. For a teardown [Deleter] also lists in all namespaces; without that right it relies on the
// cache. Whether an informer is behind is found out by lists too, in all namespaces, or else in those that it shows.
package kube
