package prune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// presence says that a primary is there at the revision that was reconciled, while what it does not want is deleted.
// That may take long, and the document may be changed or deleted meanwhile: from then on nothing more may go.
type presence struct {
	pruner   *Pruner
	key      string
	revision uint64

	asked     time.Time // the leader
	contested bool      // a delete may be under way
}

// inCache asks the cache.
func (s *presence) inCache() bool {
	v := s.pruner.Primaries.View(s.key)
	return v.Object != nil && v.Revision == s.revision
}

// still asks the cache, and the leader if its last answer is old.
func (s *presence) still(ctx context.Context) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, context.Cause(ctx)
	}
	if !s.inCache() {
		return false, nil
	}
	now := time.Now()
	if now.Sub(s.asked) < source.LeaderTrusted {
		return true, nil
	}
	found, err := s.pruner.Primaries.Confirm(ctx, s.key)
	if err != nil {
		s.pruner.LeaderErrors()
		return false, fmt.Errorf("ask the leader whether %s %q is still at revision %d: %w",
			s.pruner.Kind, s.key, s.revision, err)
	}
	if !found.Exists || found.Revision != s.revision {
		return false, nil
	}
	s.asked = now
	return true, nil
}

// remove deletes the targets as they were seen. It returns what to wait for if one of them has to be looked at again;
// "" if they are gone. A delete that is not answered may arrive late.
func (p *Pruner) remove(ctx context.Context, seen *presence, targets []target) (waitsFor string, err error) {
	var errs []error
	for i, t := range targets {
		still, err := seen.still(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("prune %s: %w", describe(targets[i:]), err))
			break
		}
		if !still {
			waitsFor = fmt.Sprintf("the cache to show the latest document, before %s goes", describe(targets[i:]))
			break
		}
		switch gone, err := p.removeOne(ctx, seen, t); {
		case err != nil:
			errs = append(errs, fmt.Errorf("prune %v, which %s %q does not want any more: %w",
				t, p.Kind, seen.key, err))
		case !gone:
			waitsFor = fmt.Sprintf("the cache to show what has changed of %v, before it goes", t)
		}
	}
	return waitsFor, errors.Join(errs...)
}

// removeOne deletes a target, unless it is another than the one that was seen; then gone is false.
func (p *Pruner) removeOne(ctx context.Context, seen *presence, t target) (gone bool, err error) {
	live, err := t.source.Live(ctx, t.object)
	if err != nil || live == nil {
		return err == nil, err
	}
	if !isAsSeen(live, t.object) {
		return false, nil
	}
	if !seen.contested {
		seen.contested = true
		p.Contest(seen.key)
	}
	if err := t.source.Remove(ctx, live); err != nil {
		return false, err
	}
	p.Pruned()
	return true, nil
}

// isAsSeen reports whether a live object is the one of the cache, off which a transform may have taken uid and version.
// Without a version the marks tell whether it is still to go.
func isAsSeen(live, seen metav1.Object) bool {
	replaced := seen.GetUID() != "" && live.GetUID() != seen.GetUID()
	if replaced || live.GetDeletionTimestamp() != nil {
		return false
	}
	if seen.GetResourceVersion() != "" {
		return live.GetResourceVersion() == seen.GetResourceVersion()
	}
	return owner.NamedBy(live) == owner.NamedBy(seen) && owner.StampOf(live) == owner.StampOf(seen) &&
		owner.WriterOf(live) == owner.WriterOf(seen)
}
