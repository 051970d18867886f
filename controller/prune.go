package controller

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/client-go/tools/cache"
)

// WithPrune deletes what a primary owns and its reconcile does not want any more, such as a secondary under its old
// name. It is for Owns, and for OwnsKube with a deleter. Without it such objects stay until the primary is deleted.
//
// A reconcile wants what it writes through CreateOrUpdate, and through Apply, CreateOrUpdate and AdoptOrFail of a
// handle, also where nothing had to be written; and what it names to Keep, KeepKube or Handle.Keep, which is needed for
// all that it writes by other means. When it returns without an error, without a requeue and with nothing pending, the
// primary's other objects in that source are deleted, each if it is still what was seen. Stats().Pruned counts them. So
// a reconcile must not return nil before it has written or kept all. Where it has wanted nothing at all of a source,
// nothing of it is pruned, because it may have returned early; Keep without keys says that nothing is wanted. A delete
// that fails is the reconcile's error.
//
// The brake stands before it. Where at least ten primaries, and more than half of all, have something to prune within
// WithBrakeWindow, nothing goes before ReleaseBrake: that is what a new version of a controller does that names its
// secondaries otherwise. The brake decides when the backlog of a start is reconciled, so that all are counted; after a
// restart it has to be released again. It engages, too, if an object was written for a later revision of its owner than
// the one that is reconciled, because then the documents may have been restored. Until it has decided, the condition of
// the primary says what it waits for. A primary whose deletion policy is Orphan keeps everything.
func WithPrune() SourceOption {
	return func(o *sourceOptions) error {
		o.prune = true
		return nil
	}
}

// Keep says, inside a reconcile, which entities of client's bucket the primary is to own beside those that the
// reconcile writes through CreateOrUpdate; see WithPrune. Without keys it says that no others are wanted. The keys are
// those of client-go: "name" or "namespace/name". Outside of a reconcile it does nothing.
func Keep[T entity.IEntity](ctx context.Context, client entity.IEntityClient[T], keys ...string) {
	keep(ctx, source.Place{Bucket: client.Config().Bucket}, keys)
}

// KeepKube is Keep for the objects of an informer that was given to OwnsKube. A handle of package kube has a method of
// its own.
func KeepKube(ctx context.Context, informer cache.SharedIndexInformer, keys ...string) {
	keep(ctx, source.Place{Informer: informer}, keys)
}

func keep(ctx context.Context, place source.Place, keys []string) {
	r, ok := current.Of(ctx)
	if !ok {
		return
	}
	r.Want(place, "")
	for _, key := range keys {
		r.Want(place, key)
	}
}
