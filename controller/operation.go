package controller

import "github.com/nagi-runtime/nagi/internal/operation"

// Operation is one reason to reconcile a key. Its String is its name, such as "Put".
//
// Put, Delete and Purge say what last happened to the primary's document. The others say what else asked for the
// reconcile.
type Operation = operation.Operation

// Operations is a set of reasons to reconcile a key. The zero value is the empty set, which a reconciler never gets. Of
// Put, Delete and Purge it holds at most one: the last that happened. Has tells whether one is in it; String returns
// their names joined by "|", as "Put|Secondary".
type Operations = operation.Operations

// The values of the first four are those of the Kumori controllerruntime.
const (
	OperationPut       = operation.Put       // the document was written
	OperationDelete    = operation.Delete    // the document was deleted, or is absent
	OperationPurge     = operation.Purge     // the document and its history were purged
	OperationSecondary = operation.Secondary // something that the key owns has changed
	OperationTertiary  = operation.Tertiary  // something that the key only reads has changed
	OperationExternal  = operation.External  // an external resource drifted
	OperationResync    = operation.Resync    // its turn in the resync interval, a new term, an informer's resync
	OperationRetry     = operation.Retry     // the last attempt failed and its backoff is over
	OperationRequeue   = operation.Requeue   // the last attempt asked for it with RequeueAfter
	OperationManual    = operation.Manual    // asked for by hand
)
