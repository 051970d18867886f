package controller

import (
	"context"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			message, e.Kind, OwnerkindAnnotation, OwnerKeyAnnotation)
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
		e.Object, which, e.WantedKind, e.WantedKey, OwnerkindAnnotation, OwnerKeyAnnotation)
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

// mayUpdate refuses, inside a reconcile, an entity that is not the reconciled primary's.
func mayUpdate(ctx context.Context, kind string, existing metav1.Object) error {
	if r, ok := current.Of(ctx); ok {
		return mayOwn(kind, existing, r.Primary().Owner)
	}
	return nil
}

// mayOwn refuses an entity that is not the primary's: its marks name another owner, or none. Each label counts where
// its annotation is gone; the original Kumori runtime sets labels alone. An owner that is named without an installation
// counts as one of this installation.
func mayOwn(kind string, existing metav1.Object, primary owner.Owner) error {
	marks, object := owner.NamedBy(existing), source.ObjectKey(existing)
	if marks.Allows(primary) {
		return nil
	}
	if marks.IsNone() {
		return &ResourceExistsError{Kind: kind, Key: object}
	}
	named := marks.Owner()
	return &AlreadyOwnedError{
		Object: object, OwnerKind: named.Kind, OwnerKey: named.Key, OwnerInstance: named.Instance,
		WantedKind: primary.Kind, WantedKey: primary.Key, WantedInstance: primary.Instance,
	}
}
