package external

import (
	"context"
	"time"
)

// Runtime is what Reconcile needs of its caller. The engine puts one into the context of each reconcile.
type Runtime interface {
	// Owner is the primary that is being reconciled.
	Owner() Owner
	// Store keeps the intents of this primary.
	Store() Store
	// Gate guards the API of a kind; nil if nothing guards it.
	Gate(kind string) Gate
	// Pending says that the primary is not reconciled yet, no matter what the reconciler returns: what it waits for,
	// and when to look again.
	Pending(what string, after time.Duration)
	// Drifted says that a resource is not as desired, and is left so.
	Drifted(what string)
}

// Gate guards an API: it is the breaker and the rate limit of a client. Its methods may be called concurrently.
type Gate interface {
	// Enter waits for the turn of one call, and returns the context for it, which the caller must cancel after the
	// call. The error is an UnavailableError while the API is known to be away.
	Enter(ctx context.Context) (context.Context, context.CancelFunc, error)
	// Timeout bounds each call. A call may be carried out that long after Enter, even if its caller is dead by then.
	Timeout() time.Duration
	// Report takes the result of a reconcile that called the API: an error that IsUnavailable, or nil.
	Report(err error)
}

// RuntimeKey is the key of the Runtime in a context.
type RuntimeKey struct{}

// WithRuntime returns a context with a Runtime, for callers of Reconcile outside of a reconcile of the engine.
func WithRuntime(ctx context.Context, runtime Runtime) context.Context {
	return context.WithValue(ctx, RuntimeKey{}, runtime)
}

type ownerKey struct{}

// WithOwner returns a context that says for whom a client is called; see OwnerFrom.
func WithOwner(ctx context.Context, owner Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// OwnerFrom returns for whom the engine calls List, Delete or Watch: the kind of the primaries and the id of the
// installation, which mark the resources. Key is "", because the call is not for one primary. Without WithOwner it is
// the zero Owner. Several controllers may share one client; each call is for one of them.
func OwnerFrom(ctx context.Context) Owner {
	owner, _ := ctx.Value(ownerKey{}).(Owner)
	return owner
}

// InstanceOf returns the Instance of OwnerFrom.
func InstanceOf(ctx context.Context) string { return OwnerFrom(ctx).Instance }

type callKey struct{}

// WithCall returns a context that says for which call a Gate is entered: "Observe", "Apply", "Delete", "Poll" or
// "List".
func WithCall(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callKey{}, name)
}

// CallFrom returns the name that WithCall was given; "" without one. It is for messages alone.
func CallFrom(ctx context.Context) string {
	name, _ := ctx.Value(callKey{}).(string)
	return name
}

func runtimeOf(ctx context.Context) (Runtime, bool) {
	runtime, ok := ctx.Value(RuntimeKey{}).(Runtime)
	return runtime, ok && runtime != nil
}
