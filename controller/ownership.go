package controller

import "github.com/nagi-runtime/nagi/internal/secondary"

// ResourceExistsError says that an entity or a Kubernetes object of that name exists and is not the primary's. Nothing
// was written. The error is about an entity in NATS only where that names no owner; if another primary owns it, the
// error is an AlreadyOwnedError. Its fields:
//
//	Resource schema.GroupVersionResource // of a Kubernetes object; empty for an entity in NATS
//	Kind     string                      // of an entity in NATS; empty for a Kubernetes object
//	Key      string                      // of the object: "name" or "namespace/name"
//	// The primary that owns it, maybe of another installation; empty if it names none. Error does not tell the
//	// installation, nor the key of an owner in another namespace: its text ends in conditions and events, which
//	// those read who write documents.
//	OwnerKind, OwnerKey, OwnerInstance string
//	// The Kubernetes object that controls it by an ownerReference, as "ReplicaSet web-5d4f"; else "".
//	Controller string
type ResourceExistsError = secondary.ResourceExistsError

// AlreadyOwnedError says that a primary wanted to own an entity that another primary owns, maybe one of another
// installation. Nothing was written. The fields tell programs all that is known; Error tells neither installations nor
// the key of an owner in another namespace, because its text ends in conditions and events, which those read who write
// documents. Its fields:
//
//	Object                                string // its key
//	OwnerKind, OwnerKey, OwnerInstance    string
//	WantedKind, WantedKey, WantedInstance string
type AlreadyOwnedError = secondary.AlreadyOwnedError

// ContradictingMarksError says that annotations and labels of a Kubernetes object name different owners or
// installations, so whose it is cannot be told. Nothing was deleted. Its fields are the Resource, and the Key of the
// object: "name" or "namespace/name".
type ContradictingMarksError = secondary.ContradictingMarksError

// UnprovenError says that a Kubernetes object names the reconciled primary as its owner, and carries no valid proof of
// it though WithOwnerProof wants one. Nothing was deleted. Its fields are the Resource, and the Key of the object.
type UnprovenError = secondary.UnprovenError

// BeingDeletedError says that a Kubernetes object that was written outside of a reconcile is being deleted, so that
// what was written of it will not last. Inside a reconcile it is no error: the primary waits until the object is gone.
// Its fields are the Resource, the Key of the object, and the Finalizers that it waits for.
type BeingDeletedError = secondary.BeingDeletedError
