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
// wants are removed, and other managers keep theirs. It repairs fields that another writer changed. It is the right
// choice for most objects.
//
// [Handle.CreateOrUpdate] reads the object, lets a function change it, and sends the difference. It is for objects of
// which the controller sets some fields that depend on the others. Do not use both on one object.
//
// # Calm means equal
//
// Both send nothing when nothing changed. An unchanged object costs no request, however often it is reconciled; a
// change costs one; a new process asks at most once for each object, and not where the object has the values that it
// wants. Yet a value that differs is noticed, whoever wrote it: a person, a process under the same field manager,
// or a restore of etcd. Controllers of controller-runtime often apply on each reconcile, and let the server find out;
// Argo CD compares values as this package does. (go test -v -run ManyObjects ./test/e2e/kube prints the requests.)
//
// # Writes that arrive late
//
// Each write and each delete asks for what was seen, by uid and resourceVersion. So a request of a former leader that
// arrives late does not undo what the next leader has written. What the next leader finds to be right it does not
// write, and a late write may still land there; it is noticed, and repaired. A late delete could not be repaired. So
// where one may be under way the object is written once, with a newer owner revision in an annotation: when a primary
// comes back that was being torn down, and when it changed while another replica led, or none did. What no write
// defends is an object that the reconcile neither applies nor updates.
//
// # Who owns what
//
// A write inside a reconcile makes the reconciled primary the owner, in labels and annotations: an ownerReference
// cannot name a document in NATS. Either of them finds the object later. An object that is another primary's, another
// installation's or has no owner is not touched; the write returns a *controller.ResourceExistsError, and the primary
// gets an event. [Handle.AdoptOrFail] takes over an object without an owner.
//
// An object of the primary's that is being deleted does not count as written: the primary is not synced, its record
// says what it waits for, and it is due again when the object is gone. The reconcile goes on. Outside of a reconcile
// the write returns a *controller.BeingDeletedError.
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
// A teardown ends when the API server lists nothing more that is the primary's, and waits for what finalizers hold. An
// object that has lost its owner's annotations, or its labels, is still deleted; one that has lost both, or whose
// labels contradict its annotations, is counted in Stats and stays.
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
// and the handle's own writes show it: within seconds where the handle writes, else after minutes of silence; a quarter
// of an hour where the API server has no consistent reads from its cache. Then the source is degraded, and until the
// informer has listed again, or a comparison agrees, nothing is deleted in it: cascades wait, and the sweep leaves its
// objects alone. That the watch goes on is not enough: events may be lost. If it does not end by itself, restart the
// process.
//
// A comparison lists all. Comparisons get rarer, up to ten minutes apart, when there is reason for one again and again:
// while the source is degraded, and where the handle writes what its informer does not cover. All sources over an
// informer share them.
//
// # Rights
//
// The informer needs list and watch. Apply needs get, create and patch; CreateOrUpdate and AdoptOrFail too; deletes
// need delete and get. Controller.Permissions of package controller prints them. A teardown also lists in all
// namespaces, or without that right in those of the objects that the informer shows, so a Role in each will do; without
// either it relies on the cache (Stats().Unlisted). Whether an informer is behind is found out by such lists, too.
package kube
