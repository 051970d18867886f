// A Teardown cleans up after a primary that is gone: it deletes what the primary still owns, and then the record that
// says so, which is the anchor of the teardown. And it finds what is owned by primaries that do not exist.
//
// Nothing is deleted on the word of a cache alone: the leader of the primaries' stream must say, too, that the document
// does not exist.

package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// CheckInterval is how long to wait before the first look whether what was deleted is gone. Usually the event of its
// delete comes earlier.
const CheckInterval = 250 * time.Millisecond

// TeardownPrimaries are the documents of the primaries.
type TeardownPrimaries interface {
	// Exists reports whether the cache has a document, also one that does not decode.
	Exists(key string) bool
	// Keys lists the keys of all documents in the cache.
	Keys() []string
	// CheckKey refuses what no key of the bucket can be.
	CheckKey(key string) error
}

// TeardownOwner says what belongs to this controller's primaries.
type TeardownOwner interface {
	// Claim says which objects are theirs, and which the runtime may delete.
	Claim() owner.Claim
	// LastSeen returns the primary as it was when this process saw its delete; nil if it did not see it.
	LastSeen(key string) metav1.Object
	// SetOwner makes the primary with that key the owner of obj, as a reconcile's write does.
	SetOwner(obj metav1.Object, key string, in owner.Resource)
}

// TeardownCounters are told what happens.
type TeardownCounters struct {
	Cascaded     func()      // an object was deleted
	LeftUnproven func(n int) // a teardown has ended, and left n objects because nothing proves whose they are
	Foreign      func()      // an object names an owner of this kind, and may not be deleted
}

// TeardownBrake lets deletes go that are not evidenced.
type TeardownBrake interface {
	// LetsGo reports whether the delete of a key, which is owed, is evidenced or the brake has let it go.
	LetsGo(key string) bool
	// WasLetGo reports whether a sweep or a release let an owner go that has no record.
	WasLetGo(owner string) bool
	// AdmitSwept reports whether an object may be deleted whose owner has neither a document nor a record.
	AdmitSwept(ctx context.Context, owner, source, object, version string) bool
	// HoldsOrphans reports whether it holds secondaries of the owner, which does not exist.
	HoldsOrphans(owner string) bool
}

// TeardownRecords are the records and reserved keys of the status bucket.
type TeardownRecords interface {
	record.Store
	All() iter.Seq2[string, *entity.Record]
	Informer() natsinformer.Informer
	Unreadable(key string) bool
	Delete(ctx context.Context, key string, revision uint64) error
}

// TeardownConfig is what a Teardown works with. Everything is needed.
type TeardownConfig struct {
	Kind      string // of the primaries
	Primaries TeardownPrimaries
	Records   TeardownRecords
	Anchors   *record.Anchors
	Reserved  *record.Bucket
	APIs      *apisource.Set
	Owner     TeardownOwner
	Counters  TeardownCounters
	// Sources are those in which primaries own something.
	Sources func() []source.Owned
	Guard   *deletes.Guard
	Brake   TeardownBrake
	// Former says that objects name a key as one of the kind that it had before: a teardown would not find them.
	Former func(key string) error
	// Filtered says that the caches hold a part of the buckets only, and so no reserved keys.
	Filtered bool
	// NoCascade leaves what a primary owned to its reconciler; the sweep still finds it.
	NoCascade bool
}

// Teardown cleans up after primaries. CleanUp and the rest may be called concurrently for different keys; Sweep may
// not.
type Teardown struct {
	TeardownConfig
	deleted    deleted
	unusedLeft map[string]struct{}     // see leftOwners; only the sweep's, as is the next
	found      [verdicts]notify.Found  // what sweeps find that is told, by source and key
	waits      map[string]int          // likewise: for how many sweeps an owner has waited to be asked about
	marked     sets.Set[string]        // likewise: missing owners that have the marker of a delete, of sweeps before
	orphans    atomic.Pointer[orphans] // of the last sweep; nil before the first
	// goneOrphans are the places of orphans that were deleted or adopted since the sweep before; for Sweep,
	// DeleteOrphans and AdoptOrphans only.
	goneOrphans sets.Set[string]
}

// NewTeardown returns a Teardown.
func NewTeardown(c TeardownConfig) *Teardown { return &Teardown{TeardownConfig: c} }

// CleanUp deletes what the primary still owns and then its anchor. gone is false while the caches still show some of
// it; held then says what of it is being deleted and does not go, or which source has not synced that may have more. It
// fails with deletes.ErrDocumentReturned if the document exists.
func (t *Teardown) CleanUp(ctx context.Context, key string) (gone bool, held, err error) {
	a := t.absence(key)
	gone, err = t.cleanUp(ctx, a)
	return gone, a.held, err
}

func (t *Teardown) cleanUp(ctx context.Context, a *absence) (gone bool, err error) {
	key := a.key
	if err := a.Still(ctx); err != nil {
		return false, err
	}
	var waitsFor error
	if !t.NoCascade {
		if err := cmp.Or(a.lookWhetherItWas(ctx), t.Former(key)); err != nil {
			return false, err
		}
		a.held = t.undeleted(key)   // also in the looks that wait for a list
		a.stale = t.APIs.Stale(key) // before the intents ask: for them a list may do that is older than the teardown
		var waiting []source.Owned
		waiting, waitsFor = t.outdatedSources()
		a.stale = append(a.stale, waiting...)
		if record.IsAnchor(t.Anchors.Cached(key)) && !t.Brake.LetsGo(key) { // what came late is in doubt
			return false, nil
		}
	}
	left, err := t.APIs.IntentsLeft(ctx, key)
	if err != nil {
		return false, err
	}
	conclusive := left.Conclusive
	if !t.NoCascade {
		// What is known goes at once, even while some API cannot tell what there is, or what came of an intent.
		a.stale = append(a.stale, left.Held...)
		gone, err := t.cascade(ctx, a)
		if err != nil {
			return false, withLeftOpen(&left, err)
		}
		if waitsFor == nil {
			_, waitsFor = t.outdatedSources() // it may have been found out meanwhile
		}
		conclusive = conclusive && len(a.stale) == 0
		if conclusive && !gone {
			return false, left.Err
		}
	}
	if left.Err != nil {
		return false, left.Err
	}
	if waitsFor != nil {
		waitsFor = fmt.Errorf("%s %q: what it owned is not deleted yet: %w", t.Kind, key, waitsFor)
		if errors.Is(waitsFor, source.ErrNotSynced) { // no failure: it may be away for days
			a.held = cmp.Or(a.held, waitsFor)
			return false, nil
		}
		return false, waitsFor
	}
	if !conclusive {
		return false, t.APIs.CannotList(key)
	}
	ended, err := t.removeRecords(ctx, a)
	if ended || a.neverWas && err == nil {
		a.tellLeft(ctx, ended)
	}
	return true, err
}

// withLeftOpen is the error of a clean-up that failed, with the intents that were left open. A person settles
// those, so the teardown is tried again and again, even if err is terminal, unless the document is back.
func withLeftOpen(left *apisource.LeftOpen, err error) error {
	if left.Err == nil || errors.Is(err, deletes.ErrDocumentReturned) {
		return err
	}
	return fmt.Errorf("%w; and %v", left.Err, err)
}

// removeRecords ends the teardown, unless another one has. Intents that say what was only observed outlive the anchor,
// or the next teardown after a crash would not know of it.
func (t *Teardown) removeRecords(ctx context.Context, a *absence) (ended bool, err error) {
	if err := a.Still(ctx); err != nil {
		return false, err
	}
	if a.spared {
		if ended, err = t.removeAnchor(ctx, a.key); err != nil {
			return false, err
		}
		return ended, t.APIs.RemoveIntents(ctx, a.key)
	}
	if err := t.APIs.RemoveIntents(ctx, a.key); err != nil {
		return false, err
	}
	return t.removeAnchor(ctx, a.key)
}
