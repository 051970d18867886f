package secondary

import (
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ResourceExistsError is that of package controller.
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

	wanted owner.Owner // who wanted to own it
}

// NewResourceExistsError is about an object without an owner, or in Kubernetes with another one.
func NewResourceExistsError(what What, existing metav1.Object, wanted owner.Owner) *ResourceExistsError {
	is := owner.NamedBy(existing).Owner()
	err := &ResourceExistsError{
		Resource: what.Resource, Kind: what.Kind, Key: source.ObjectKey(existing), wanted: wanted,
		OwnerKind: is.Kind, OwnerKey: is.Key, OwnerInstance: is.Instance,
	}
	if ref := metav1.GetControllerOf(existing); ref != nil && what.Kind == "" {
		err.Controller = ref.Kind + " " + ref.Name
	}
	return err
}

// Unwrap returns an *AlreadyOwnedError where another primary owns the object, and nil else.
func (e *ResourceExistsError) Unwrap() error {
	if e.OwnerKind == "" || e.OwnerKey == "" {
		return nil
	}
	return &AlreadyOwnedError{
		Object: e.Key, OwnerKind: e.OwnerKind, OwnerKey: e.OwnerKey, OwnerInstance: e.OwnerInstance,
		WantedKind: e.wanted.Kind, WantedKey: e.wanted.Key, WantedInstance: e.wanted.Instance,
	}
}

// AwaitsName has the condition of a primary whose reconcile returns the error say that it waits for a name.
func (e *ResourceExistsError) AwaitsName() {}

// Error says what exists, who owns it as far as that is known, and what to do.
func (e *ResourceExistsError) Error() string {
	message := fmt.Sprintf(MessageResourceExists, e.Key)
	what := "this object of " + kubeapi.ResourceName(e.Resource)
	how := "take it over with WithAdopt or AdoptOrFail"
	if e.Kind != "" {
		what = "this " + e.Kind + " in NATS"
		how = fmt.Sprintf("take it over with CreateOrUpdateWith and WithAdopt, or name the owner in its "+
			"annotations %s and %s", entity.OwnerKindAnnotation, entity.OwnerKeyAnnotation)
	}
	switch {
	case e.OwnerKind != "" && e.OwnerKey != "" && e.wanted.IsNone():
		return fmt.Sprintf("%s: %s is owned by %s, maybe one of another installation; use another name",
			message, what, ownerAsTold(e.Key, e.OwnerKind, e.OwnerKey))
	case e.OwnerKind != "" && e.OwnerKey != "":
		owned := e.Unwrap().(*AlreadyOwnedError)
		return fmt.Sprintf("%s: %s is owned by %s; %s", message, what, owned.ownerAsTold(), owned.advice())
	case e.Controller != "":
		return fmt.Sprintf("%s: %s is controlled by %s; use another name", message, what, printable.Text(e.Controller))
	case e.OwnerKind != "" || e.OwnerKey != "" || e.OwnerInstance != "":
		return fmt.Sprintf("%s: %s names an owner in part, so nobody can tell whose it is; use another name, or "+
			"first take off what is left of its owner's labels and annotations", message, what)
	}
	return fmt.Sprintf("%s: %s names no owner; use another name, or %s", message, what, how)
}

// ownerAsTold names an owner to those who may see what is in the namespace of the key. It tells no key of another
// namespace, nor a hash of one.
func ownerAsTold(seenFrom, kind, key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	from, _, namespaced := strings.Cut(seenFrom, "/")
	kind = printable.Text(kind)
	switch {
	case strings.HasPrefix(key, owner.HashPrefix):
		return fmt.Sprintf("another %s", kind)
	case namespace != key && (!namespaced || namespace != from):
		return fmt.Sprintf("a %s in another namespace", kind)
	}
	return fmt.Sprintf("%s %s", kind, printable.Quote(key))
}

// AlreadyOwnedError is that of package controller.
type AlreadyOwnedError struct {
	Object                                string // its key
	OwnerKind, OwnerKey, OwnerInstance    string
	WantedKind, WantedKey, WantedInstance string
}

// AwaitsName is as that of ResourceExistsError.
func (e *AlreadyOwnedError) AwaitsName() {}

// Error says who owns the object, and what to do.
func (e *AlreadyOwnedError) Error() string {
	return fmt.Sprintf("%q is owned by %s already, so %s %s cannot own it: %s",
		e.Object, e.ownerAsTold(), printable.Text(e.WantedKind), printable.Quote(e.WantedKey), e.advice())
}

// ownerAsTold names the owner.
func (e *AlreadyOwnedError) ownerAsTold() string {
	which := ownerAsTold(e.WantedKey, e.OwnerKind, e.OwnerKey)
	if e.isOfAnotherInstallation() {
		which += " of another installation"
	}
	return which
}

// isOfAnotherInstallation is false where the owner is named without one: then it is of every installation.
func (e *AlreadyOwnedError) isOfAnotherInstallation() bool {
	return e.OwnerInstance != "" && e.OwnerInstance != e.WantedInstance
}

// advice says what to do.
func (e *AlreadyOwnedError) advice() string {
	if e.isOfAnotherInstallation() {
		return "use another name; only that installation can give it up"
	}
	renamed := ""
	if e.OwnerKind != e.WantedKind && e.OwnerKey == e.WantedKey && e.OwnerInstance != "" {
		renamed = fmt.Sprintf("; if %s is the former kind of %s, give the controller WithFormerKind",
			printable.Text(e.OwnerKind), printable.Text(e.WantedKind))
	}
	return fmt.Sprintf("use another name, or move it: write it as %s %s with the option WithHandOverFrom of its "+
		"owner%s", printable.Text(e.WantedKind), printable.Quote(e.WantedKey), renamed)
}

// ContradictingMarksError says that annotations and labels of a Kubernetes object name different owners or
// installations, so whose it is cannot be told. Nothing was deleted.
type ContradictingMarksError struct {
	Resource schema.GroupVersionResource
	Key      string // of the object: "name" or "namespace/name"
}

// Error names the object, and says what to do.
func (e *ContradictingMarksError) Error() string {
	return fmt.Sprintf("%s %q: its annotations name another owner or installation than its labels, "+
		"so it is not certain whose it is: mend them, as Apply does, or delete it by hand",
		kubeapi.ResourceName(e.Resource), e.Key)
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
		kubeapi.ResourceName(e.Resource), e.Key)
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
		e.Key, kubeapi.ResourceName(e.Resource))
	if len(e.Finalizers) == 0 {
		return message
	}
	return message + ", which waits for the finalizers " + strings.Join(e.Finalizers, ", ")
}
