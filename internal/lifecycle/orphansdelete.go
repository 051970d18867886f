package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/deletes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// How long DeleteOrphans and AdoptOrphans take: after the first they begin nothing, and after the second they wait for
// nothing.
const (
	orphansBegin = 3 * time.Second
	orphansEnd   = 4 * time.Second
)

// OrphansOrder says what DeleteOrphans is to delete. Everything but the filter is needed.
type OrphansOrder struct {
	Filter OrphanFilter
	List   string // the ID of the OrphanList that was read
	Expect int    // how many of it that the filter chooses can be deleted
}

// OrphansDeleted is what DeleteOrphans has done.
type OrphansDeleted struct {
	Deleted int
	Left    int    // how many there still are that the order's filter chooses
	List    string // the ID of the OrphanList now
}

// OrphansDiffer says that nothing was done, because the order is not about what there is. Both members say that: Count
// is how many can be deleted, or adopted, as was ordered.
type OrphansDiffer struct {
	List  string
	Count int
}

func (e *OrphansDiffer) Error() string {
	return fmt.Sprintf("nothing was done: %d orphans are there for it, of the list %q, and the order is about others",
		e.Count, e.List)
}

// ErrRewritten says that an orphan stays, since it is not what the sweep saw.
var ErrRewritten = errors.New("it was written or removed since it was listed")

// DeleteOrphans deletes those that can be, as an operator has ordered who has read the list, if the list is still that
// one; else it is OrphansDiffer, and nothing goes. Each passes the guard: the leader is asked whether the owner is
// there. What does not go stays, and the error says why. It takes no longer than orphansEnd; what is left then is no
// error. Not to be called concurrently with itself, AdoptOrphans and Sweep.
func (t *Teardown) DeleteOrphans(ctx context.Context, order OrphansOrder) (done OrphansDeleted, err error) {
	list, err := t.Orphans(order.Filter)
	if err != nil {
		return done, err
	}
	all := list.Deletable()
	if list.ID != order.List || len(all) != order.Expect {
		return done, &OrphansDiffer{List: list.ID, Count: len(all)}
	}
	bounded, cancel := context.WithTimeout(ctx, orphansEnd)
	defer cancel()
	round := &orphansRound{Teardown: t, until: time.Now().Add(orphansBegin), seen: ownedNow{}}
	var errs []error
	for len(all) > 0 && !round.over(bounded) {
		key, n := all[0].OwnerKey, 1
		for n < len(all) && all[n].OwnerKey == key {
			n++
		}
		if err := round.deleteOf(bounded, key, all[:n]); bounded.Err() == nil {
			errs = append(errs, err) // else it is of the end, or nobody knows
		}
		all = all[n:]
	}
	done.Deleted = len(round.gone)
	t.forgetOrphans(round.gone)
	if ctx.Err() != nil {
		return done, errors.Join(append(errs, context.Cause(ctx))...)
	}
	after, err := t.Orphans(order.Filter)
	done.Left, done.List = len(after.Deletable()), after.ID
	return done, errors.Join(append(errs, err)...)
}

// forgetOrphans takes what was deleted, or adopted, off the list of the last sweep.
func (t *Teardown) forgetOrphans(gone []Orphan) {
	if t.goneOrphans == nil {
		t.goneOrphans = sets.New[string]()
	}
	for _, o := range gone {
		t.goneOrphans.Insert(o.place())
	}
	last := t.orphans.Load()
	left := slices.DeleteFunc(slices.Clone(last.all), func(o Orphan) bool { return t.goneOrphans.Has(o.place()) })
	t.orphans.Store(&orphans{last.at, left})
}

// orphansRound is one call of DeleteOrphans or AdoptOrphans.
type orphansRound struct {
	*Teardown
	until time.Time // nothing is begun from then on
	seen  ownedNow
	gone  []Orphan
}

func (r *orphansRound) over(ctx context.Context) bool {
	return ctx.Err() != nil || !time.Now().Before(r.until)
}

// deleteOf deletes the orphans of one owner.
func (r *orphansRound) deleteOf(ctx context.Context, key string, all []Orphan) error {
	if left, err := r.leftBehind(ctx, key); err != nil || left {
		return cmp.Or(err, fmt.Errorf("what %s %q owned was left on purpose by now", r.Kind, key))
	}
	letsGo := func(context.Context, deletes.Source, metav1.Object) bool {
		return !r.mayOwe(key) && !r.Brake.HoldsOrphans(key)
	}
	round, stale := r.Guard.OfGone(key, letsGo), r.APIs.Stale(key)
	var errs []error
	for _, o := range all {
		if r.over(ctx) {
			break
		}
		if slices.Contains(stale, o.in) {
			errs = append(errs, fmt.Errorf("%s: %q is to be listed again first", o.Source, o.Object))
			continue
		}
		obj, err := r.seen.object(o)
		if err == nil && (obj == nil || writtenAs(obj) != o.version) {
			err = ErrRewritten
		}
		if err == nil {
			err = round.Delete(ctx, o.in, obj)
		}
		if err == nil {
			r.gone = append(r.gone, o)
			r.Counters.Cascaded()
			continue
		}
		errs = append(errs, fmt.Errorf("delete %s %q, whose owner %s %q never was: %w",
			o.in, o.Object, r.Kind, key, err))
		if deletes.Ends(err) {
			break
		}
	}
	return errors.Join(errs...)
}
