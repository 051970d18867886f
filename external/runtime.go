package external

import (
	"context"
	"time"
)

// Runtime is what Reconcile needs of whoever calls the reconciler. The engine puts one into each reconcile's context.
type Runtime interface {
	// Owner is the primary that is reconciled.
	Owner() Owner
	// Store remembers the intents of this primary.
	Store() Store
	// Gate stands before the API of a kind; nil if nobody guards it.
	Gate(kind string) Gate
	// Pending says that the primary is not reconciled yet, whatever the reconciler returns: what it waits for, and when to look
	// again.
	Pending(what string, after time.Duration)
	// Drifted says that a resource is not as it should be, and is left so.
	Drifted(what string)
}

// Gate stands before an API: the breaker and the rate limit of a client. Its methods may be called concurrently.
type Gate interface {
	// Enter waits for the turn of one call, and returns the call's context, which the call must end. The error is an
	// UnavailableError while the API is known to be away.
	Enter(ctx context.Context) (context.Context, context.CancelFunc, error)
	// Timeout bounds each call: from Enter on that long it may be carried out, though the caller is dead by then.
	Timeout() time.Duration
	// Report is told how a reconcile that called the API ended: with an error that IsUnavailable, or nil.
	Report(err error)
}

// RuntimeKey is the key under which a context has its Runtime.
type RuntimeKey struct{}

// WithRuntime returns a context with a Runtime, for those who call Reconcile outside of a reconcile of the engine.
func WithRuntime(ctx context.Context, runtime Runtime) context.Context {
	return context.WithValue(ctx, RuntimeKey{}, runtime)
}

type ownerKey struct{}

// WithOwner returns a context that says for whom a client is called: see OwnerFrom.
func WithOwner(ctx context.Context, owner Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// OwnerFrom returns for whom the engine calls List, Delete or Watch: the kind of the primaries and the id of the installation,
// which resources are marked with; the zero Owner if nobody said. Key is "": it is not for one primary. Several controllers
// may share one client, and each call is then for one of them.
func OwnerFrom(ctx context.Context) Owner {
	owner, _ := ctx.Value(ownerKey{}).(Owner)
	return owner
}

// InstanceOf returns the Instance of OwnerFrom.
func InstanceOf(ctx context.Context) string { return OwnerFrom(ctx).Instance }

func runtimeOf(ctx context.Context) (Runtime, bool) {
	runtime, ok := ctx.Value(RuntimeKey{}).(Runtime)
	return runtime, ok && runtime != nil
}
