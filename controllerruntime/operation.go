package controllerruntime

import (
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
)

// Operation is one reason to sync a key.
type Operation = controller.Operation

// Operations is a set of reasons to sync a key.
type Operations = controller.Operations

// The first four have the values of the Kumori controllerruntime.
const (
	OperationPut       = controller.OperationPut       // the document was written
	OperationDelete    = controller.OperationDelete    // the document was deleted, or is absent
	OperationPurge     = controller.OperationPurge     // the document and its history were purged
	OperationSecondary = controller.OperationSecondary // something that the key owns has changed
	OperationTertiary  = controller.OperationTertiary  // something that the key only reads has changed
	OperationExternal  = controller.OperationExternal  // an external resource drifted
	OperationResync    = controller.OperationResync    // its turn in the resync interval, or a new term
	OperationRetry     = controller.OperationRetry     // the last sync failed and its backoff is over
	OperationRequeue   = controller.OperationRequeue   // the last attempt asked for it; SyncHandler never does
	OperationManual    = controller.OperationManual    // asked for by hand
)

// The labels and annotations by which a secondary names its primary, in NATS and in Kubernetes alike. The annotation
// holds the key itself; the label holds it where it is a valid label value, else a stable hash.
const (
	OwnerkindLabel      = entity.OwnerKindLabel
	OwnerKeyLabel       = entity.OwnerKeyLabel
	OwnerkindAnnotation = entity.OwnerKindAnnotation
	OwnerKeyAnnotation  = entity.OwnerKeyAnnotation
)
