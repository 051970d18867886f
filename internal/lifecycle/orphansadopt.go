package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// AdoptOrder says what AdoptOrphans is to do. Everything but the source is needed.
type AdoptOrder struct {
	From   string // the key of the owner that the orphans name
	To     string // the key of the primary that is to own them
	Source string // in which they are; "" means each
	List   string // the ID of the OrphanList that was read
	Expect int    // how many of it can be adopted, of that owner and source
}

// OrphansAdopted is what AdoptOrphans has done.
type OrphansAdopted struct {
	Adopted    int
	Unanswered int    // their writes were begun, and may have been done
	Skipped    int    // they were gone, or another's, when their turn came
	Tried      int    // all whose turn came: those, and those of which the error says why they stay
	Left       int    // how many there still are of that owner and source, as far as answers came
	List       string // the ID of the OrphanList now
}

// Why AdoptOrphans does nothing, or goes no further.
var (
	ErrNoNewOwner     = errors.New("there is no document of the new owner")
	ErrNewOwnerGoes   = errors.New("the document of the new owner is gone, and it is being torn down")
	ErrNewOwnerUnseen = errors.New("the cache does not show the document of the new owner yet")
	ErrNewOwnerFresh  = errors.New("the new owner was not reconciled yet, so nothing would tell of what it owns once " +
		"its document is gone")
	ErrNotAdoptable = errors.New("nothing was adopted")
)

// AdoptOrphans makes a primary the owner of another owner's orphans, as an operator has ordered who has read the list,
// if the list is still that one; else it is OrphansDiffer, and nothing is written. ErrNotAdoptable says that some of
// them cannot name that owner. Of the next term, of a former owner whose document is back, and of a new one that has
// gone, nothing is written: the leader is asked for both documents at most deletes.LeaderTrusted before each write. It
// takes no longer than orphansEnd; what is left then is no error. Not to be called concurrently with itself,
// DeleteOrphans and Sweep.
func (t *Teardown) AdoptOrphans(ctx context.Context, order AdoptOrder) (done OrphansAdopted, err error) {
	bounded, cancel := context.WithTimeout(ctx, orphansEnd)
	defer cancel()
	round := &adoptRound{
		orphansRound: orphansRound{Teardown: t, until: time.Now().Add(orphansBegin), seen: ownedNow{}}, order: order,
	}
	if err := round.newOwner(bounded); err != nil {
		return done, err
	}
	all, err := round.ordered(bounded)
	if err != nil {
		return done, err
	}
	var errs []error
	for _, o := range all {
		if round.over(bounded) {
			break
		}
		if err = round.still(bounded); err == nil {
			err = round.adopt(bounded, o)
		}
		if bounded.Err() == nil {
			errs = append(errs, err) // else it is of the end, or nobody knows
		}
		if deletes.Ends(err) {
			break
		}
	}
	done = round.done
	t.forgetOrphans(round.gone)
	if ctx.Err() != nil {
		return done, errors.Join(append(errs, context.Cause(ctx))...)
	}
	after, err := t.Orphans(order.filter())
	done.Left, done.List = len(after.Adoptable()), after.ID
	return done, errors.Join(append(errs, err)...)
}

func (o AdoptOrder) filter() OrphanFilter { return OrphanFilter{Owner: o.From, Source: o.Source} }

// adoptRound is one call of AdoptOrphans. What is adopted or skipped is gone from the orphans.
type adoptRound struct {
	orphansRound
	order AdoptOrder
	done  OrphansAdopted
	asked time.Time // the leader, for both owners
}

// newOwner is nil if the new owner is there, and has an anchor: without one its delete owes no teardown, and what its
// deletion policy leaves would be garbage for the sweep.
func (r *adoptRound) newOwner(ctx context.Context) error {
	there, err := r.Guard.There(ctx, r.order.To)
	switch {
	case err != nil:
		return err
	case !there && r.mayOwe(r.order.To):
		return ErrNewOwnerGoes
	case !there:
		return ErrNoNewOwner
	case !r.Primaries.Exists(r.order.To):
		return ErrNewOwnerUnseen
	case !record.IsAnchor(r.Anchors.Cached(r.order.To)):
		return ErrNewOwnerFresh
	}
	return nil
}

// ordered are the orphans that the order is about.
func (r *adoptRound) ordered(ctx context.Context) ([]Orphan, error) {
	list, err := r.Orphans(r.order.filter())
	if err != nil {
		return nil, err
	}
	all := list.Adoptable()
	if list.ID != r.order.List || len(all) != r.order.Expect {
		return nil, &OrphansDiffer{List: list.ID, Count: len(all)}
	}
	if left, err := r.leftBehind(ctx, r.order.From); err != nil || left {
		return nil, cmp.Or(err, fmt.Errorf("%w: what %s %q owned was left on purpose by now", ErrNotAdoptable, r.Kind,
			r.order.From))
	}
	fixed, sources := 0, sets.New[string]()
	for _, o := range list.Orphans {
		if o.mayBeGiven() && !o.in.Rewrites() {
			fixed++
			sources.Insert(o.Source)
		}
	}
	if fixed > 0 {
		return nil, fmt.Errorf("%w: %d more of the objects of %s %q cannot be told another owner, those in %q. Put "+
			`the document of %q back, or delete them with orphans-delete; to adopt the others alone name their `+
			`"source"`,
			ErrNotAdoptable, fixed, r.Kind, r.order.From, sets.List(sources), r.order.From)
	}
	for _, o := range all {
		obj, err := r.seen.object(o)
		if err != nil {
			return nil, fmt.Errorf("list what %s %q owns in %s: %w", r.Kind, o.OwnerKey, o.in, err)
		}
		if obj != nil && r.Owner.Claim().In(o.in).Crosses(obj, r.order.To) {
			return nil, fmt.Errorf("%w: %s %q is in another namespace than %s %q, and its source is not open to such "+
				"owners (WithOwnersInOtherNamespaces): name a new owner in the same namespace",
				ErrNotAdoptable, o.in, o.Object, r.Kind, r.order.To)
		}
	}
	return all, nil
}

// still is nil while the term leads, the former owner is gone and the new one there.
func (r *adoptRound) still(ctx context.Context) error {
	if err := r.Guard.Leads(ctx); err != nil {
		return deletes.End(err)
	}
	if r.Primaries.Exists(r.order.From) {
		return deletes.End(fmt.Errorf("%s %q: %w", r.Kind, r.order.From, deletes.ErrDocumentReturned))
	}
	if r.mayOwe(r.order.From) {
		return deletes.End(fmt.Errorf("%s %q has a record by now: %w, or did", r.Kind, r.order.From,
			deletes.ErrDocumentReturned))
	}
	now := time.Now()
	if now.Sub(r.asked) < deletes.LeaderTrusted {
		return nil
	}
	if _, err := r.Guard.Gone(ctx, r.order.From); err != nil {
		return deletes.End(fmt.Errorf("%s %q: %w", r.Kind, r.order.From, err))
	}
	if err := r.newOwner(ctx); err != nil {
		return deletes.End(err)
	}
	r.asked = now
	return nil
}

// errNoOrphan says that an object is not the former owner's any more.
var errNoOrphan = errors.New("it is no orphan of that owner any more")

// adopt writes the new owner into an object, as it is now. One that is gone, or another's by now, is skipped.
func (r *adoptRound) adopt(ctx context.Context, o Orphan) error {
	obj, err := r.seen.object(o)
	if err != nil {
		return fmt.Errorf("list what %s %q owns in %s: %w", r.Kind, o.OwnerKey, o.in, err)
	}
	begun := false
	r.done.Tried++
	if obj != nil {
		err = o.in.Rewrite(ctx, obj, func(now metav1.Object) error {
			claim := r.Owner.Claim().In(o.in)
			names := entity.IsOwnedBy(now, claim.Kind, r.order.From)
			if now.GetDeletionTimestamp() != nil || !names || !claim.Owns(now, r.order.From) {
				return errNoOrphan
			}
			if err := r.still(ctx); err != nil { // to read it may have taken seconds
				return err
			}
			begun = true
			r.Owner.SetOwner(now, r.order.To, o.in.Resource())
			return nil
		})
	}
	switch {
	case errors.Is(err, errNoOrphan), err == nil && !begun:
		r.done.Skipped++
	case err != nil:
		if begun && !refused(err) {
			r.done.Unanswered++
		}
		return fmt.Errorf("have %s %q own %s %q, which was that of %q: %w",
			r.Kind, r.order.To, o.in, source.ObjectKey(obj), r.order.From, err)
	}
	if begun && err == nil {
		r.done.Adopted++
	}
	r.gone = append(r.gone, o)
	return nil
}

// refused reports whether the error of a write says that it was not done. Any other one may be of an answer that was
// lost.
func refused(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonConflict, metav1.StatusReasonNotFound, metav1.StatusReasonForbidden,
		metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonUnauthorized,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonRequestEntityTooLarge:
		return true
	}
	return false
}
