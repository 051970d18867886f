package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// target is an object that is not wanted.
type target struct {
	source Prunable
	object metav1.Object
}

func (t target) String() string {
	return fmt.Sprintf("%s %q", t.source, source.ObjectKey(t.object))
}

// waitsForBrake is what a primary waits for, with the objects.
const waitsForBrake = "the brake, before %s goes"

func describe(targets []target) string {
	if len(targets) == 1 {
		return targets[0].String()
	}
	return fmt.Sprintf("%v and %d more", targets[0], len(targets)-1)
}

// unwanted are the objects that the primary owns and the reconcile does not want, of sources whose view is not known to
// be an old one.
func (p *Pruner) unwanted(r EndedReconcile) (targets []target, err error) {
	for _, s := range p.Sources() {
		if !s.Prunes() {
			continue
		}
		claim := p.Claim().In(s)
		wanted, spokenOf := r.Wanted(s.Place())
		if !spokenOf || p.Guard.Outdated(s) != nil {
			continue
		}
		objects, err := s.OwnedBy(r.Key())
		if err != nil {
			return nil, fmt.Errorf("list what %s %q owns in %s: %w", p.Kind, r.Key(), s, err)
		}
		for _, obj := range objects {
			if !wanted.Has(source.ObjectKey(obj)) && obj.GetDeletionTimestamp() == nil && claim.Owns(obj, r.Key()) {
				targets = append(targets, target{s, obj})
			}
		}
	}
	return targets, nil
}

// remove deletes the targets as they were seen. It returns what to wait for if one of them has to be looked at again;
// "" if they are gone. A delete that is not answered may arrive late.
func (p *Pruner) remove(ctx context.Context, round *deletes.Round, targets []target) (waitsFor string, err error) {
	var errs []error
	for i, t := range targets {
		rest := describe(targets[i:])
		switch gone, err := p.removeOne(ctx, round, t); {
		case errors.Is(err, deletes.ErrAnotherRevision):
			return fmt.Sprintf("the cache to show the latest document, before %s goes", rest), errors.Join(errs...)
		case errors.Is(err, deletes.ErrHeld):
			return fmt.Sprintf(waitsForBrake, rest), errors.Join(errs...)
		case deletes.Ends(err):
			return waitsFor, errors.Join(append(errs, fmt.Errorf("prune %s: %w", rest, err))...)
		case err != nil:
			errs = append(errs, fmt.Errorf("prune %v, which %s %q does not want any more: %w",
				t, p.Kind, round.Key(), err))
		case !gone:
			waitsFor = fmt.Sprintf("the cache to show what has changed of %v, before it goes", t)
		}
	}
	return waitsFor, errors.Join(errs...)
}

// removeOne deletes a target, unless it is another than the one that was seen; then gone is false.
func (p *Pruner) removeOne(ctx context.Context, round *deletes.Round, t target) (gone bool, err error) {
	if err := round.Still(ctx); err != nil {
		return false, err
	}
	live, err := t.source.Live(ctx, t.object)
	if err != nil || live == nil {
		return err == nil, err
	}
	if !isAsSeen(live, t.object) {
		return false, nil
	}
	if err := round.Delete(ctx, t.source, live); err != nil {
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

// doubt says what speaks against deleting the targets. "" is nothing.
func (p *Pruner) doubt(v source.View, key string, targets []target) string {
	stream := p.Primaries.Stream().Created
	for _, t := range targets {
		why := p.doubtWriter(t)
		if why == "" {
			why = doubtRevision(v, t, stream)
		}
		if why != "" {
			return fmt.Sprintf("%s %q, at revision %d, does not want %v any more, which %s",
				p.Kind, key, v.Revision, t, why)
		}
	}
	return ""
}

// doubtWriter says why a target may be another controller's: another has written it for an owner of this installation,
// or it names no owner, and the id of the installation was given, so that another controller may have it, too. An id
// that was made here only this controller has. What older versions wrote names no owner; where that matters, what is
// wanted is written once more, see current.Writer.
func (p *Pruner) doubtWriter(t target) string {
	const advice = "Two controllers with one id of the installation each take for their own what the other makes: " +
		"give each an id of its own (WithInstance, and %s in its status bucket). A release deletes what is held"
	switch writer := owner.WriterOf(t.object); {
	case writer == p.Writer:
		return ""
	case writer != "":
		return fmt.Sprintf("the controller with the status bucket %s has written, for the same id of the installation "+
			"(%q). "+advice, printable.Quote(writer), p.Claim().Instance, record.KeyInstance)
	case p.Shared:
		return fmt.Sprintf("does not tell which controller wrote it, and another may have the same id of the "+
			"installation (%q), which was given. "+advice, p.Claim().Instance, record.KeyInstance)
	}
	return ""
}

// doubtRevision says why the documents may have been restored: a target was written for a later one.
func doubtRevision(v source.View, t target, stream string) string {
	stamp := owner.StampOf(t.object)
	if stamp.IsNone() || stamp.Stream == stream && stamp.Revision <= v.Revision {
		return ""
	}
	return fmt.Sprintf("was written for revision %d of it (stream %s, now %s): the documents may have been restored "+
		"to an earlier state", stamp.Revision, stamp.Stream, stream)
}
