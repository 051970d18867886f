package controller

import (
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WithOwnerProof lets the runtime delete only what it has proven to be its own. Without it the marks of an owner are
// believed, also those that others wrote: who may annotate an object, and not delete it, has it deleted by naming an
// owner that is then gone.
//
// The proof is an HMAC over kind, key and installation of the owner, and over the place, namespace and name of the
// object, in the annotation [entity.OwnerProofAnnotation]. CreateOrUpdate writes it, and so do Apply, CreateOrUpdate
// and AdoptOrFail of a handle; SetProvenOwner is for what is written by other means. An object whose proof is missing
// or wrong is written again by the next reconcile that writes it, even if nothing else has changed. So is one of an
// older secret. A copy of a proof proves nothing on another object.
//
// Cascade, sweep and WithPrune leave what is not proven, a handle's Delete inside a reconcile refuses it, its revision
// of the owner does not engage the brake, and its installation keeps no controller with an empty status bucket from
// starting. Stats().Unproven counts such objects, and the log names them. A
// teardown does not wait for them; where it leaves some, it says so at its end, and Stats().LeftUnproven counts them.
//
// To begin, give the option. Each primary's next reconcile proves what it writes; Stats().Unproven shows the rest. What
// no reconcile writes any more, such as a secondary under an old name, stays unproven, and so it stays.
//
// The first secret signs, and all verify. To change the secret, first add the new one as the second, in all replicas;
// then make it the first; when Stats().ProvenByOlder and Unproven are 0, take the old one away. A secret has at least
// 16 bytes, better 32 random ones; a newline at the end of a file is one of them. Copies are kept. Keep secrets where
// the writers of documents and objects cannot read them, and give them to all replicas.
//
// What it does not do: resources behind an API (OwnsExternal) have no annotations; their owner is believed as before. A
// proof stays true for the object's place and name as long as the owner is the same: who has read it and may create an
// object of that very name, after the first one is gone, can put it there. It names no cluster: of two clusters under
// one controller, each takes the other's proof for an object of the same namespace and name. It does not keep anybody
// from handing an object over to a primary whose reconciler writes one of that name. And where Kubernetes copies
// annotations, as those of a Deployment to its ReplicaSets, the copy proves nothing, so the runtime leaves them.
//
// New fails if a secret is missing or too short, with WithoutTeardown, and for a [Deleter] that does not tell the
// resource of its objects. The Kumori API has no such option: it never deletes by itself.
func WithOwnerProof(secrets ...[]byte) Option {
	return func(o *engine.Options) error {
		made, err := owner.NewSecrets(secrets...)
		if err != nil {
			return fmt.Errorf("WithOwnerProof: %w", err)
		}
		if o.Proofs != nil {
			return errors.New("WithOwnerProof is given twice: give all secrets to one, that which signs first")
		}
		o.Proofs = made
		o.TeardownOptions = append(o.TeardownOptions, "WithOwnerProof")
		return nil
	}
}

// ProofResource is where an object is that SetProvenOwner proves: ProofOfBucket or ProofOfKube.
type ProofResource = owner.Resource

// ProofOfBucket is for entities in a bucket of NATS.
func ProofOfBucket(bucket string) ProofResource { return owner.ResourceOfBucket(bucket) }

// ProofOfKube is for objects of a resource of Kubernetes. They are the same in all versions of it.
func ProofOfKube(resource schema.GroupResource) ProofResource {
	return owner.ResourceOfKube(resource.Group, resource.Resource)
}

// SetProvenOwner is SetOwner with the proof that [WithOwnerProof] wants, for an object that is written without
// CreateOrUpdate and without a handle. obj must have its namespace and name already, and be written to that resource.
// Without the option it is SetOwner.
func (c *Controller[T]) SetProvenOwner(obj metav1.Object, key string, in ProofResource) {
	c.engine.SetOwner(obj, key, in)
}

// isProvable refuses a deleter that cannot honour WithOwnerProof.
func (o *sourceOptions) isProvable(e *engine.Engine) error {
	if e.Claim().Proofs == nil || o.deleter == nil || !kubesource.ResourceOf(o.deleter).IsUnknown() {
		return nil
	}
	return fmt.Errorf("OwnsKube: WithOwnerProof needs to know the resource of the objects, which %T does not tell, "+
		"so nothing there could be proven: use kube.Deleter, or give it a method GroupResource() schema.GroupResource",
		o.deleter)
}
