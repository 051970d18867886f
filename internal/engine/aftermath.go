package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
)

// Aftermath returns the context of what follows from a reconcile that has ended: its record, and what a teardown
// deletes. It has the life of its term, and the values that observers gave the reconcile, but is no reconcile. before
// is the reconcile's context as the observers got it: if they gave it nothing, there is nothing but the term.
func Aftermath(term, before, reconcile context.Context) context.Context {
	if reconcile == before {
		return term
	}
	return aftermath{term, context.WithoutCancel(reconcile)}
}

// aftermath has its values of the reconcile without its life, by which package context would else tell when it ends,
// and why.
type aftermath struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (a aftermath) Value(key any) any {
	switch key {
	case reconcilectx.Key{}, ownwrites.Key{}, ownwrites.ObserverKey{}, external.RuntimeKey{}:
		return a.Context.Value(key)
	}
	if value := a.values.Value(key); value != nil {
		return value
	}
	return a.Context.Value(key)
}
