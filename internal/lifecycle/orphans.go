package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// OrphanReason says why a secondary stays whose owner does not exist.
type OrphanReason string

// The reasons.
const (
	OrphanNeverWas      OrphanReason = "neverWas"      // no document, no record, no marker of a delete of its owner
	OrphanUnanswered    OrphanReason = "unanswered"    // the leader was not asked for its owner, or did not answer
	OrphanUnproven      OrphanReason = "unproven"      // a proof of its owner is wanted and not there
	OrphanContradicting OrphanReason = "contradicting" // labels name another owner than annotations do
	OrphanHashed        OrphanReason = "hashed"        // it has the hash of its owner's key alone
	OrphanHeld          OrphanReason = "held"          // the brake holds it
)

// Orphan is a secondary of this installation that a sweep found and that stays, although its owner does not exist.
type Orphan struct {
	Source       string // in which it is
	Kind         string // "" if the object does not say it
	Object       string // its key: "name" or "namespace/name"
	OwnerKind    string
	OwnerKey     string // "" if only a hash of it is known
	Installation string // that it names; "" if it names none
	Why          OrphanReason

	version string
	in      source.Owned
	deletes bool // the runtime deletes there
}

// Deletable reports whether DeleteOrphans deletes it: not what may be another's, nor what the brake holds.
func (o Orphan) Deletable() bool { return o.Why == OrphanNeverWas && o.deletes }

// ID orders orphans by their owners. It is text that can be shown.
func (o Orphan) ID() string {
	return printable.Text(o.OwnerKey) + " " + o.Source + " " + printable.Text(o.Object)
}

// OrphanFilter chooses orphans. The zero value chooses all.
type OrphanFilter struct{ Owner, Source string }

func (f OrphanFilter) has(o Orphan) bool {
	return (f.Owner == "" || f.Owner == o.OwnerKey) && (f.Source == "" || f.Source == o.Source)
}

// OrphansDiffer says that nothing was deleted, because another number was expected. Count is the right one.
type OrphansDiffer struct{ Count int }

func (e *OrphansDiffer) Error() string {
	return fmt.Sprintf("nothing was deleted: %d orphans can be, and another number was expected", e.Count)
}

// orphans are those of one sweep.
type orphans struct {
	at  time.Time
	all []Orphan // in the order of their IDs
}

// noteOrphan notes an object of the sweep that stays, unless its owner exists.
func (o *ownerless) noteOrphan(v verdict, s source.Owned, obj metav1.Object) {
	why := rulings[v].orphan
	if why == "" {
		return
	}
	named := owner.NamedBy(obj)
	key, known := o.keyOf(named)
	if known && o.teardown.Primaries.Exists(key) {
		return
	}
	kind := ""
	if typed, ok := obj.(runtime.Object); ok {
		kind = typed.GetObjectKind().GroupVersionKind().Kind
	}
	of := named.Owner()
	o.orphans = append(o.orphans, Orphan{
		Source: s.String(), Kind: kind, Object: source.ObjectKey(obj), OwnerKind: of.Kind, OwnerKey: key,
		Installation: of.Instance, Why: why, version: versionOf(obj), in: s,
		deletes: s.Deletable() && !o.teardown.NoCascade,
	})
}

// keepOrphans is the end of a sweep.
func (t *Teardown) keepOrphans(all []Orphan) {
	slices.SortFunc(all, func(a, b Orphan) int { return cmp.Compare(a.ID(), b.ID()) })
	t.orphans.Store(&orphans{time.Now(), all})
}

// Orphans are those that the last sweep found and that are so still, in the order of their IDs, and when it ended; the
// zero time if there was none. Those whose owner exists by now are left out, and of the deletable those that are not
// any more what the sweep saw.
func (t *Teardown) Orphans(filter OrphanFilter) (found []Orphan, at time.Time, err error) {
	last := t.orphans.Load()
	if last == nil {
		return nil, at, nil
	}
	seen := ownedNow{}
	for _, o := range last.all {
		if !filter.has(o) || o.OwnerKey != "" && (t.Primaries.Exists(o.OwnerKey) || t.mayOwe(o.OwnerKey)) {
			continue
		}
		held := o.OwnerKey != "" && t.Brake.HoldsOrphans(o.OwnerKey)
		switch {
		case held && o.Why == OrphanNeverWas:
			o.Why = OrphanHeld
		case o.Why == OrphanHeld && !held:
			continue // it goes
		}
		if o.Why == OrphanNeverWas {
			obj, err := seen.object(o)
			if err != nil {
				return nil, at, fmt.Errorf("list what %s %q owns in %s: %w", t.Kind, o.OwnerKey, o.in, err)
			}
			if obj == nil || versionOf(obj) != o.version {
				continue // the next sweep judges it anew
			}
		}
		found = append(found, o)
	}
	return found, last.at, nil
}

// ownedNow are the secondaries of owners in the caches, by source, owner and key.
type ownedNow map[source.Owned]map[string]map[string]metav1.Object

// object is an orphan in the cache now; nil if it is gone.
func (n ownedNow) object(o Orphan) (metav1.Object, error) {
	if n[o.in] == nil {
		n[o.in] = map[string]map[string]metav1.Object{}
	}
	objects, known := n[o.in][o.OwnerKey]
	if !known {
		list, err := o.in.OwnedBy(o.OwnerKey)
		if err != nil {
			return nil, err
		}
		objects = make(map[string]metav1.Object, len(list))
		for _, obj := range list {
			objects[source.ObjectKey(obj)] = obj
		}
		n[o.in][o.OwnerKey] = objects
	}
	return objects[o.Object], nil
}

// DeleteOrphans deletes those that can be, as an operator has ordered who has read the list, if they are as many as
// expected; else it is OrphansDiffer, and nothing goes. Each passes the guard: the leader is asked whether the owner is
// there. What does not go stays, and the error says why. Not to be called concurrently with itself and with Sweep.
func (t *Teardown) DeleteOrphans(ctx context.Context, filter OrphanFilter, expect int) (deleted int, err error) {
	all, _, err := t.Orphans(filter)
	if err != nil {
		return 0, err
	}
	all = slices.DeleteFunc(all, func(o Orphan) bool { return !o.Deletable() })
	if len(all) != expect {
		return 0, &OrphansDiffer{len(all)}
	}
	seen, errs := ownedNow{}, []error{}
	for len(all) > 0 {
		key, n := all[0].OwnerKey, 1
		for n < len(all) && all[n].OwnerKey == key {
			n++
		}
		gone, err := t.deleteOrphansOf(ctx, key, all[:n], seen)
		deleted, all = deleted+gone, all[n:]
		errs = append(errs, err)
		if ctx.Err() != nil {
			return deleted, errors.Join(append(errs, context.Cause(ctx))...)
		}
	}
	return deleted, errors.Join(errs...)
}

// deleteOrphansOf deletes the orphans of one owner.
func (t *Teardown) deleteOrphansOf(ctx context.Context, key string, all []Orphan, seen ownedNow) (n int, err error) {
	if left, err := t.leftBehind(ctx, key); err != nil || left {
		return 0, cmp.Or(err, fmt.Errorf("what %s %q owned was left on purpose by now", t.Kind, key))
	}
	letsGo := func(context.Context, deletes.Source, metav1.Object) bool {
		return !t.mayOwe(key) && !t.Brake.HoldsOrphans(key)
	}
	round, stale := t.Guard.OfGone(key, letsGo), t.APIs.Stale(key)
	var errs []error
	for _, o := range all {
		obj, err := seen.object(o)
		if err != nil || obj == nil || slices.Contains(stale, o.in) {
			errs = append(errs, cmp.Or(err, fmt.Errorf("%s: %q is to be listed again first", o.Source, o.Object)))
			continue
		}
		err = round.Delete(ctx, o.in, obj)
		if err == nil {
			n++
			t.Counters.Cascaded()
			continue
		}
		errs = append(errs, fmt.Errorf("delete %s %q, whose owner %s %q never was: %w",
			o.in, o.Object, t.Kind, key, err))
		if deletes.Ends(err) {
			break
		}
	}
	return n, errors.Join(errs...)
}
