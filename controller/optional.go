package controller

import "github.com/nagi-runtime/nagi/internal/source"

// ErrNotSynced is why an optional source is degraded that has not synced, for errors.Is with what Stats().Degraded
// holds: all that does not need it goes on.
var ErrNotSynced = source.ErrNotSynced

// WithOptional has the controller begin without a source of Owns, Watches, OwnsKube or WatchesKube that is away when it
// starts: a store at an edge, or a CustomResourceDefinition that is not installed yet. Without the option nothing is
// reconciled before every source has synced, and Run fails if one does not within WithCacheSyncTimeout. OwnsExternal
// has the Optional of external.Config instead. The source of the primaries cannot be optional.
//
// The start waits for the source until something is known to be wrong with it, ten seconds at most. While it has not
// synced:
//
//   - Stats().Degraded names it, with the reason (ErrNotSynced), and Explain says that its news is missing. The
//     readiness of package probes does not fail for it.
//   - All primaries are reconciled. A reconciler that needs the source asks HasSynced of the informer or of the handle.
//     A read of its lister or handle fails, and the error is not IsNotFound: it is IsServiceUnavailable.
//   - Nothing is deleted because of what it does not show: no sweep, no cascade and no prune believes its absence. A
//     teardown that would have to delete there waits, and its record says so.
//
// When the source has synced, all primaries are due once more, with OperationSecondary, OperationTertiary or
// OperationExternal, and so are teardowns that have waited. From then on it is a source as any other: if it goes away
// it is degraded, its cache stays, and the rest goes on.
//
// A client of a bucket that is away needs OpenLater of entity.Config. A manager does not wait for such clients, nor for
// informers of AddOptionalInformers. The Kumori API has no place for options of sources; its clients of external
// resources may have Optional.
func WithOptional() SourceOption {
	return func(o *sourceOptions) error {
		o.optional = true
		return nil
	}
}
