// Package reconcilectx is the context of a reconcile: it tells helpers in which reconcile they are called. A reconciler
// hands its context on, and a helper finds there for which primary it writes, without knowing who runs the reconcile.
//
// The rule: a helper asks for the port that it needs and no more: [Writer], [StatusSetter], [Kubernetes]. The
// controller answers over [Host].
package reconcilectx

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reconcile is a reconcile under way. All methods may be called concurrently.
type Reconcile interface {
	// ID tells the reconcile from the others of the process.
	ID() string
	Writer
	StatusSetter
	Kubernetes
}

// Writer is what a helper needs that writes secondaries.
type Writer interface {
	// Primary is the primary that is reconciled. It is to own what is written.
	Primary() Primary
	// Controller is the name of the controller.
	Controller() string
	// Warn records a warning event on the primary.
	Warn(reason, message string)
	// WarnOnce records a warning event about an object that the primary did not get, and not again while nothing
	// changes.
	WarnOnce(object, reason, message string)
	// Prove gives obj, which names the primary as its owner, the proof of that, if the controller wants proofs.
	Prove(obj metav1.Object, in owner.Resource)
	// MayOwn refuses to own an object of a place that is in another namespace than the primary: it would be written,
	// and then ignored for ever. The key is the object's.
	MayOwn(place source.Place, key string) error
	// Want notes that the primary is to own an object of a place, which is about to be written.
	Want(place source.Place, key string)
	// Keep notes what the reconciler says that the primary is to own in a place beside what is written. Without keys it
	// says that what is to be owned there is known.
	Keep(place source.Place, keys ...string)
	// MustName reports whether an object of a place that does not name the controller is to be written for that alone.
	// Else a prune could not tell later whose it is.
	MustName(place source.Place) bool
	// AwaitName makes the primary due when another's object of that key is deleted, or changes its owner. news is
	// true if the primary did not wait for that object before: then the object may have gone already, and has to be
	// looked at once more. It does nothing if no source of the controller is over the place.
	AwaitName(place source.Place, object string) (news bool)
}

// StatusSetter is what a helper needs that sets the primary's status.
type StatusSetter interface {
	// SetStatus gives the primary the status of obj, which is the primary as it was read. It is written together with
	// what comes of the reconcile, or at once where nothing of that is recorded. It is an error after the reconcile,
	// and for another object.
	SetStatus(ctx context.Context, obj entity.IEntity) error
}

// Kubernetes is what a helper needs beside Writer that writes objects of the Kubernetes API.
type Kubernetes interface {
	// MayDelete reports whether the runtime may delete obj: whether its owner is of the primary's kind and of this
	// installation, and that is proven if the controller wants proofs.
	MayDelete(obj metav1.Object, in owner.Resource) bool
	// WaitFor says what the primary waits for: it is not reconciled yet, though the reconcile did not fail, and is due
	// again after a while at the latest.
	WaitFor(what string, after time.Duration)
	// Uncovered counts an object that the primary owns and its informer does not show.
	Uncovered()
}

// Primary names a primary. The instance is "" while the id of the installation is not known.
type Primary struct {
	owner.Owner
	Stamp  owner.Stamp // of its document, as the cache has it; none if there is no document
	Writer string      // the status bucket of its controller, which tells that from others; "" if it has none
}

// Own makes the primary the owner of obj, which may be an object as it was read. If that was the owner's already, and
// another controller wrote it, that stays so: two that name their owner each would write it to and fro for ever.
func (p Primary) Own(obj metav1.Object) {
	stamp := p.StampOver(obj)
	p.Owner.Own(obj)
	stamp.Set(obj)
	if owner.WriterOf(obj) == "" {
		owner.SetWriter(obj, p.Writer)
	}
}

// StampOver is the stamp for a write over existing. Another owner's stamp does not stay.
func (p Primary) StampOver(existing metav1.Object) owner.Stamp {
	if owner.Of(existing) != p.Owner {
		return p.Stamp
	}
	return p.Stamp.Over(existing)
}

// Key is the key under which a context has its Reconcile, for implementations of context.Context that carry one.
type Key struct{}

// With returns a context of a reconcile.
func With(ctx context.Context, r Reconcile) context.Context { return context.WithValue(ctx, Key{}, r) }

// Of returns the reconcile of a context; ok is false outside of one.
func Of(ctx context.Context) (r Reconcile, ok bool) {
	r, ok = ctx.Value(Key{}).(Reconcile)
	return r, ok
}
