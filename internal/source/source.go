// Package source has the sources of a controller's events in NATS, and what all sources share: the interface that the
// engine runs them by, predicates, and mappers from objects to the primaries they concern.
//
// The rule: a source says which keys are due, and why; others decide what to do about a key. It starts before the
// workers and stops after them. Keys go out over [Enqueuer], changes of primaries over [Listener].
package source

import (
	"context"
	"iter"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Source is where events come from. Its life: Start, wait for Synced, events, Stop.
type Source interface {
	// String names the source in errors, logs and Stats: "Owns Page (bucket pages)".
	String() string
	// Start takes the caches into use and adds the handlers. ctx lives until the controller has stopped.
	Start(ctx context.Context) error
	// Synced are done when the caches are complete and the handlers have seen the whole initial list.
	Synced() []cache.DoneChecker
	// Err is why the source does not work now; nil if it does, or cannot tell.
	Err() error
	// IsOptional reports whether the controller works without the source until it has synced.
	IsOptional() bool
	// Stop takes the handlers off and releases the caches.
	Stop()
}

// Owned is a source of secondaries. What the runtime deletes there passes the guard of package deletes.
type Owned interface {
	Source
	deletes.Source
	// Owns tells whether the objects are secondaries; Deletable and the rest mean nothing where it is false.
	Owns() bool
	// Deletable tells whether the runtime can delete here, and so waits until what it deleted is gone.
	Deletable() bool
	// OwnedBy lists the secondaries of a primary of this controller's kind, of every installation.
	OwnedBy(key string) ([]metav1.Object, error)
	// All lists everything in the cache. The objects must not be modified.
	All() iter.Seq[metav1.Object]
	// Elsewhere is what is owned and not in the cache, because other replicas work at the owners: nothing where the
	// cache has all. OwnerHash stands for the key of an owner there. Read reads such objects from the server, without
	// those that are gone or do not decode.
	Elsewhere() iter.Seq[entity.ApartDocument]
	OwnerHash(key string) uint64
	Read(ctx context.Context, keys []string) ([]metav1.Object, error)
	// OwnedLive asks past the cache what a primary owns, before its teardown ends; nothing where the cache has all.
	OwnedLive(ctx context.Context, key string) ([]metav1.Object, error)
	// Rewrite writes an object as change leaves it, unless change returns an error, or another one has the name or
	// wrote it meanwhile. change is given a copy of the object as it is now; one that is gone is not written.
	Rewrite(ctx context.Context, obj metav1.Object, change func(metav1.Object) error) error
	// Rewrites tells whether Rewrite can write whom an object names as its owner.
	Rewrites() bool
	// WrittenBy reports whether the object itself shows that the controller of that name has written it; false where
	// that cannot be told.
	WrittenBy(obj metav1.Object, controller string) bool
}

// Enqueuer makes keys of primaries due.
type Enqueuer interface {
	// Notice makes a key due because of something that a source told. It is false if that is not remembered, as in a
	// replica that waits for the lease and is told of a key that is gone.
	Notice(key string, ops operation.Operations, prio queue.Priority) (due bool)
	// Trail is what is to be told of the event before Notice; nil, as of most keys, if nothing is.
	Trail(key string) *loops.Trail
	// Caused is to be told before Notice of the write that the event is of, if that is known; NotCaused that it does
	// not make the key due.
	Caused(key string, c *causes.Cause)
	NotCaused(key string, c *causes.Cause)
}

// Mapper finds the primaries that an object concerns.
type Mapper func(ctx context.Context, obj metav1.Object) ([]string, error)

// Sink takes a source's events.
type Sink interface {
	Created(ctx context.Context, obj metav1.Object, initial bool)
	Updated(ctx context.Context, oldObj, newObj metav1.Object)
	// Deleted gets what the informer gave, which may be a cache.DeletedFinalStateUnknown.
	Deleted(ctx context.Context, obj any)
}
