package secondary

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Claim is what a write says of an object's owner: who is to own it, and what may be taken over for that.
type Claim struct {
	Options
	// Owner is the reconciled primary; outside of a reconcile whom the object names as it comes, or none.
	Owner owner.Owner
	// Writer is the status bucket of the controller that writes; outside of a reconcile what the object names as it
	// comes.
	Writer string

	template metav1.Object
	what     What
	place    source.Place
	mustName bool // an object that does not name its writer is written for that alone
}

// What says what an object is: an entity of a kind in NATS, or an object of a resource in Kubernetes.
type What struct {
	Kind     string
	Resource schema.GroupVersionResource
}

// String names it.
func (w What) String() string {
	if w.Kind != "" {
		return w.Kind
	}
	return kubeapi.ResourceName(w.Resource)
}

// NewClaim makes the claim of a write under ctx. template is the object as its writer gave it. The error is that of a
// primary that may not own an object there.
func NewClaim(
	ctx context.Context, what What, place source.Place, template metav1.Object, options Options,
) (Claim, error) {
	c := Claim{Options: options, template: template, what: what, place: place}
	r, ok := reconcilectx.Of(ctx)
	if !ok {
		if named := owner.NamedBy(template); !named.IsNone() {
			c.Owner, c.Writer = named.Owner(), owner.WriterOf(template)
		}
		return c, nil
	}
	key := source.ObjectKey(template)
	if err := r.MayOwn(place, key); err != nil {
		return c, err
	}
	r.Want(place, key)
	primary := r.Primary()
	c.Owner, c.Writer, c.mustName = primary.Owner, primary.Writer, r.MustName(place)
	return c, nil
}

// KeepWriter gives obj, which is made of existing, the writer that existing names for the same owner. So that is no
// reason to write, whether it is another controller or none: of two controllers that want an object each would write it
// for ever. Only where a prune is to tell later whose the object is, one that names none is written.
func (c Claim) KeepWriter(obj, existing metav1.Object) {
	held := ""
	if owner.Of(existing) == c.Owner {
		held = owner.WriterOf(existing)
	}
	if held == "" && c.mustName {
		held = c.Writer
	}
	owner.SetWriter(obj, held)
}

// LacksWriter reports whether existing is to be written only so that it names its writer.
func (c Claim) LacksWriter(existing metav1.Object) bool {
	return c.mustName && owner.WriterOf(existing) == ""
}

// SetWriter makes obj, which is about to be written, name its writer.
func (c Claim) SetWriter(obj metav1.Object) { owner.SetWriter(obj, c.Writer) }

// MayWrite refuses, in NATS, an entity that is not the owner's, and that the options do not give to it. Who names no
// owner may write all: that changes no owner.
func (c Claim) MayWrite(existing metav1.Object) error {
	if c.Owner.IsNone() || c.Allow(owner.NamedBy(existing), c.Owner) {
		return nil
	}
	return c.refusal(existing, c.Owner)
}

// Settle makes obj, of which mutate has made what it is, name its owner. was is whom obj named before mutate. Nothing
// is moved that the options do not move: where a primary is to own obj, mutate cannot name another one; where none is,
// mutate may name one to what is new, and take the marks off. existing is nil if the object is new.
func (c Claim) Settle(was owner.Named, obj, existing metav1.Object) error {
	is := owner.NamedBy(obj)
	switch {
	case c.Owner.IsNone():
		if existing != nil && is != was && !is.IsNone() && !c.Allow(was, is.Owner()) {
			return c.refusal(existing, is.Owner())
		}
		return nil
	case is != was && is.Denies(c.Owner):
		return alreadyOwned(obj, c.Owner, is.Owner())
	}
	named := owner.Of(obj)
	c.Owner.Own(obj)
	if named != c.Owner {
		c.carryMarks(obj)
	}
	return nil
}

// carryMarks gives obj what its writer said of the owner's revision, the controller, and the proof of it.
func (c Claim) carryMarks(obj metav1.Object) {
	if owner.Of(c.template) != c.Owner {
		return
	}
	annotations := maps.Clone(obj.GetAnnotations())
	for _, name := range []string{
		entity.OwnerRevisionAnnotation, entity.OwnerStatusBucketAnnotation, entity.OwnerProofAnnotation,
	} {
		if value, ok := c.template.GetAnnotations()[name]; ok {
			annotations[name] = value
		}
	}
	obj.SetAnnotations(annotations)
}

// refusal is the error about an object that names another owner, or none.
func (c Claim) refusal(existing metav1.Object, to owner.Owner) error {
	if named := owner.NamedBy(existing); c.what.Kind != "" && !named.IsNone() {
		return alreadyOwned(existing, named.Owner(), to)
	}
	return NewResourceExistsError(c.what, existing, to)
}

func alreadyOwned(obj metav1.Object, is, to owner.Owner) *AlreadyOwnedError {
	return &AlreadyOwnedError{
		Object: source.ObjectKey(obj), OwnerKind: is.Kind, OwnerKey: is.Key, OwnerInstance: is.Instance,
		WantedKind: to.Kind, WantedKey: to.Key, WantedInstance: to.Instance,
	}
}

// Await has the reconciled primary wait until the object has another owner or is gone. If that is news the caller has
// to look at the object once more.
func (c Claim) Await(ctx context.Context) (news bool) {
	r, ok := reconcilectx.Of(ctx)
	return ok && r.AwaitName(c.place, source.ObjectKey(c.template))
}

// Reasons of the events about an object that the primary did not get, and the message about one that nobody's primary
// owns.
const (
	ReasonResourceExists  = "ErrResourceExists"
	ReasonAlreadyOwned    = "ErrAlreadyOwned"
	MessageResourceExists = "Resource %q already exists and is not managed by this controller"
)

// Tell records an event on the reconciled primary about an object that it did not get, as err says: once, until
// something changes.
func (c Claim) Tell(ctx context.Context, err error) {
	r, ok := reconcilectx.Of(ctx)
	if !ok {
		return
	}
	object := source.ObjectKey(c.template)
	about := c.what.String() + " " + object
	if owned, ok := errors.AsType[*AlreadyOwnedError](err); ok {
		r.WarnOnce(about, ReasonAlreadyOwned, owned.Error())
		return
	}
	r.WarnOnce(about, ReasonResourceExists, fmt.Sprintf(MessageResourceExists, object))
}
