package controller

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/client-go/tools/cache"
)

// WithPrune deletes what a primary owns and its reconcile does not want any more, such as a secondary under its old
// name. It is for Owns, and for OwnsKube with a deleter. Without it such objects stay until the primary is deleted.
//
// A reconcile wants what it writes through CreateOrUpdate, and through Apply, CreateOrUpdate and AdoptOrFail of a
// handle, also where nothing had to be written; and what it names to Keep, KeepKube or Handle.Keep, which is needed for
// all that it writes by other means. When it returns without an error, without a requeue and with nothing pending, the
// primary's other objects in that source are deleted, each if it is still what was seen, and as long as a live read
// says that the document is still the one that was reconciled. Stats().Pruned counts them. So a reconcile must not
// return nil before it has written or kept all. Where it has wanted nothing at all of a source, nothing of it is
// pruned, because it may have returned early; Keep without keys says that nothing is wanted. A delete that fails is the
// reconcile's error.
//
// The brake stands before it. Where at least ten primaries, and more than half of all, have something to prune within
// WithBrakeWindow, nothing goes before ReleaseBrake: that is what a new version of a controller does that names its
// secondaries otherwise. The brake decides when the backlog of a start is reconciled, so that all are counted; after a
// restart it has to be released again. It engages, too, if an object was written for a later revision of its owner than
// the one that is reconciled, because then the documents may have been restored. And it engages if another controller
// has written an object for an owner of this installation, as its annotation nagi/ownerstatusbucket tells, or if it has
// none and the id of the installation was given by WithInstance: give each controller an id of its own. Until the brake
// has decided, the condition of the primary says what it waits for. A primary whose deletion policy is Orphan keeps
// everything.
func WithPrune() SourceOption {
	return func(o *sourceOptions) error {
		o.prune = true
		return nil
	}
}

// Keep says, inside a reconcile, which entities of client's bucket the primary is to own beside those that the
// reconcile writes through CreateOrUpdate; see WithPrune. Without keys it says that no others are wanted. The keys are
// those of client-go: "name", or "namespace/name" where the bucket is namespaced. A key that cannot be in the bucket is
// an error of the reconcile, which then prunes nothing; so is a client of a bucket that no Owns is over. Outside of a
// reconcile, and where nothing is pruned, Keep does nothing.
func Keep[T entity.IEntity](ctx context.Context, client entity.IEntityClient[T], keys ...string) {
	keep(ctx, source.Place{Bucket: client.Config().Bucket}, keys)
}

// KeepKube is Keep for the objects of an informer that was given to OwnsKube. A handle of package kube has a method of
// its own. Whether the objects have namespaces is known once there was one.
func KeepKube(ctx context.Context, informer cache.SharedIndexInformer, keys ...string) {
	keep(ctx, source.Place{Informer: informer}, keys)
}

func keep(ctx context.Context, place source.Place, keys []string) {
	if r, ok := reconcilectx.Of(ctx); ok {
		r.Keep(place, keys...)
	}
}
