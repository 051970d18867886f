package secondary

import (
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/owner"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ResourceExistsError says that an entity or a Kubernetes object of that name exists and is not the primary's. Nothing
// was written. The error is about an entity in NATS only where that names no owner; if another primary owns it, the
// error is an AlreadyOwnedError.
type ResourceExistsError struct {
	Resource schema.GroupVersionResource // of a Kubernetes object; empty for an entity in NATS
	Kind     string                      // of an entity in NATS; empty for a Kubernetes object
	Key      string                      // of the object: "name" or "namespace/name"
	// The primary that owns it, maybe of another installation; empty if it names none. Error does not tell the
	// installation, nor the key of an owner in another namespace: its text ends in conditions and events, which those
	// read who write documents.
	OwnerKind, OwnerKey, OwnerInstance string
	// Controller is the Kubernetes object that controls it by an ownerReference, as "ReplicaSet web-5d4f"; else "".
	Controller string
}

// Error says what exists, who owns it as far as that is known, and what to do.
func (e *ResourceExistsError) Error() string {
	message := fmt.Sprintf(current.MessageResourceExists, e.Key)
	if e.Kind != "" {
		return fmt.Sprintf("%s: this %s in NATS names no owner; use another name, or hand it over: "+
			"name the owner in its annotations %s and %s, as SetOwner does",
			message, e.Kind, entity.OwnerKindAnnotation, entity.OwnerKeyAnnotation)
	}
	switch {
	case e.OwnerKey != "":
		return fmt.Sprintf("%s: this object of %s is owned by %s, maybe one of another installation; use another name",
			message, kubeerrors.ResourceName(e.Resource), ownerAsTold(e.Key, e.OwnerKind, e.OwnerKey))
	case e.Controller != "":
		return fmt.Sprintf("%s: this object of %s is controlled by %s; use another name",
			message, kubeerrors.ResourceName(e.Resource), e.Controller)
	}
	return fmt.Sprintf("%s: this object of %s names no owner; use another name, or take it over with AdoptOrFail",
		message, kubeerrors.ResourceName(e.Resource))
}

// ownerAsTold names an owner to those who may see what is in the namespace of the key. It tells no key of another
// namespace, nor a hash of one.
func ownerAsTold(seenFrom, kind, key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	from, _, namespaced := strings.Cut(seenFrom, "/")
	switch {
	case strings.HasPrefix(key, owner.HashPrefix):
		return fmt.Sprintf("another %s", kind)
	case namespace != key && (!namespaced || namespace != from):
		return fmt.Sprintf("a %s in another namespace", kind)
	}
	return fmt.Sprintf("%s %q", kind, key)
}

// AlreadyOwnedError says that a primary wanted to own an entity that another primary owns, maybe one of another
// installation. Nothing was written. The fields tell programs all that is known; Error tells neither installations nor
// the key of an owner in another namespace, because its text ends in conditions and events, which those read who write
// documents.
type AlreadyOwnedError struct {
	Object                                string // its key
	OwnerKind, OwnerKey, OwnerInstance    string
	WantedKind, WantedKey, WantedInstance string
}

// Error says who owns the object, and what to do.
func (e *AlreadyOwnedError) Error() string {
	which := ownerAsTold(e.WantedKey, e.OwnerKind, e.OwnerKey)
	if e.OwnerInstance != "" && e.OwnerInstance != e.WantedInstance {
		which += " of another installation"
	}
	return fmt.Sprintf("%q is owned by %s already, so %s %q cannot own it: "+
		"use another name, or hand it over: name the owner in its annotations %s and %s, as SetOwner does",
		e.Object, which, e.WantedKind, e.WantedKey, entity.OwnerKindAnnotation, entity.OwnerKeyAnnotation)
}

// ContradictingMarksError says that annotations and labels of a Kubernetes object name different owners or
// installations, so that nobody knows whose it is. Nothing was deleted.
type ContradictingMarksError struct {
	Resource schema.GroupVersionResource
	Key      string // of the object: "name" or "namespace/name"
}

// Error names the object, and says what to do.
func (e *ContradictingMarksError) Error() string {
	return fmt.Sprintf("%s %q: its annotations name another owner or installation than its labels, "+
		"so it is not certain whose it is: mend them, as Apply does, or delete it by hand",
		kubeerrors.ResourceName(e.Resource), e.Key)
}

// UnprovenError says that a Kubernetes object names the reconciled primary as its owner, and carries no valid proof of
// it though WithOwnerProof wants one. Nothing was deleted.
type UnprovenError struct {
	Resource schema.GroupVersionResource
	Key      string // of the object: "name" or "namespace/name"
}

// Error names the object, and says what to do.
func (e *UnprovenError) Error() string {
	return fmt.Sprintf("%s %q: it names this owner and carries no valid proof of it, so somebody else may have marked "+
		"it: write it with Apply or CreateOrUpdate first, which proves it, or delete it by hand",
		kubeerrors.ResourceName(e.Resource), e.Key)
}

// BeingDeletedError says that a Kubernetes object that was written outside of a reconcile is being deleted, so that
// what was written of it will not last. Inside a reconcile it is no error: the primary waits until the object is gone.
type BeingDeletedError struct {
	Resource   schema.GroupVersionResource
	Key        string   // of the object: "name" or "namespace/name"
	Finalizers []string // what it waits for
}

// Error names the object and its finalizers.
func (e *BeingDeletedError) Error() string {
	message := fmt.Sprintf("the object %q of %s is being deleted; write it again when it is gone",
		e.Key, kubeerrors.ResourceName(e.Resource))
	if len(e.Finalizers) == 0 {
		return message
	}
	return message + ", which waits for the finalizers " + strings.Join(e.Finalizers, ", ")
}
