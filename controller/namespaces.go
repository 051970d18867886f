package controller

import "errors"

// WithOwnersInOtherNamespaces lets the objects of one source, of Owns or OwnsKube, name owners in other namespaces.
//
// Without it a secondary and its owner are in the same namespace, where both have one: the primary's bucket is
// Namespaced, and the secondary is a Kubernetes object of a namespace, or in a Namespaced bucket too. What names an
// owner in another namespace is then treated as another installation's: its events make no primary due, and cascade,
// sweep, prune and brake leave it. Stats().CrossNamespace counts it, and the log names it once. CreateOrUpdate, and
// Apply, CreateOrUpdate, AdoptOrFail and Delete of a handle, refuse it inside a reconcile, before anything is written.
// SetOwner does not: it knows of no source.
//
// With it, who may write secondaries in any namespace can have primaries of all namespaces reconciled, and what he
// writes there deleted with them. So open only a source in which only those write whom you trust with all
// namespaces. What is given to several sources may be written if one of them is open; each still ignores or takes what
// it sees by its own option.
//
// The Kumori API has no place for options; there all sources are open.
func WithOwnersInOtherNamespaces() SourceOption {
	return func(o *sourceOptions) error {
		o.open = true
		return nil
	}
}

// onlyForOwned refuses what would do nothing for a source of objects that are not owned.
func (o *sourceOptions) onlyForOwned() error {
	if o.open {
		return errors.New("WithOwnersInOtherNamespaces is for Owns and OwnsKube; other objects need no owner")
	}
	return nil
}
