package lifecycle

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
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

	version string // see writtenAs
	in      source.Owned
	deletes bool // the runtime deletes there
	going   bool // its delete has begun
}

// Deletable reports whether DeleteOrphans deletes it: not what may be another's, nor what the brake holds.
func (o Orphan) Deletable() bool { return o.Why == OrphanNeverWas && o.deletes && !o.going }

// Adoptable reports whether AdoptOrphans can give it to another owner: it is certain whose it was.
func (o Orphan) Adoptable() bool { return o.mayBeGiven() && o.in.Rewrites() }

// mayBeGiven is Adoptable but for the means to write it.
func (o Orphan) mayBeGiven() bool {
	return (o.Why == OrphanNeverWas || o.Why == OrphanHeld) && !o.going
}

// ID orders orphans by their owners. It is text that can be shown.
func (o Orphan) ID() string {
	return printable.Text(o.OwnerKey) + " " + o.Source + " " + printable.Text(o.Object)
}

// OrphanFilter chooses orphans. The zero value chooses all.
type OrphanFilter struct{ Owner, Source string }

func (f OrphanFilter) has(o Orphan) bool {
	return (f.Owner == "" || f.Owner == o.OwnerKey) && (f.Source == "" || f.Source == o.Source)
}

// OrphanList are orphans, in the order of their IDs.
type OrphanList struct {
	Orphans []Orphan
	At      time.Time // when the sweep ended that found them; the zero time if there was none
	// ID names what can be deleted or adopted, whatever the filter chose: another object, or another version of one
	// that can be deleted, and it is another ID. It is "" if nothing can be.
	ID string
}

// Deletable are those that DeleteOrphans deletes.
func (l OrphanList) Deletable() []Orphan { return l.those(Orphan.Deletable) }

// Adoptable are those that AdoptOrphans can give to another owner.
func (l OrphanList) Adoptable() []Orphan { return l.those(Orphan.Adoptable) }

func (l OrphanList) those(are func(Orphan) bool) (all []Orphan) {
	for _, o := range l.Orphans {
		if are(o) {
			all = append(all, o)
		}
	}
	return all
}

// listID is the ID of a list that has these, of which all can be deleted or adopted. An adoption looks at each object
// as it is by then, so the version does not count of what can only be adopted.
func listID(settled []Orphan) string {
	if len(settled) == 0 {
		return ""
	}
	h := sha256.New()
	for _, o := range settled {
		parts := []string{o.Source, o.Object, o.OwnerKey}
		if o.Deletable() {
			parts = append(parts, o.version)
		}
		for _, part := range parts {
			_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes all
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
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
	if v == unanswered && o.teardown.marked.Has(key) {
		why = OrphanHeld // as when it was asked about: it has no turn in each sweep
	}
	kind := ""
	if typed, ok := obj.(runtime.Object); ok {
		kind = typed.GetObjectKind().GroupVersionKind().Kind
	}
	of := named.Owner()
	o.orphans = append(o.orphans, Orphan{
		Source: s.String(), Kind: kind, Object: source.ObjectKey(obj), OwnerKind: of.Kind, OwnerKey: key,
		Installation: of.Instance, Why: why, version: writtenAs(obj), in: s,
		deletes: s.Deletable() && !o.teardown.NoCascade, going: obj.GetDeletionTimestamp() != nil,
	})
}

// writtenAs tells each version of an object from each other one, also from those before and after a delete.
func writtenAs(obj metav1.Object) string {
	return string(obj.GetUID()) + " " + obj.GetResourceVersion()
}

// place is where an orphan is, and in which version.
func (o Orphan) place() string { return o.Source + "\x00" + o.Object + "\x00" + o.version }

// keepOrphans is the end of a sweep. The cache may still have what was deleted, or what has another owner by now.
func (t *Teardown) keepOrphans(all []Orphan) {
	still := sets.New[string]()
	all = slices.DeleteFunc(all, func(o Orphan) bool {
		gone := t.goneOrphans.Has(o.place())
		if gone {
			still.Insert(o.place())
		}
		return gone
	})
	t.goneOrphans = still
	slices.SortFunc(all, func(a, b Orphan) int { return cmp.Compare(a.ID(), b.ID()) })
	t.orphans.Store(&orphans{time.Now(), all})
}

// ForgetOrphansIn forgets those that a sweep found in a source that was taken away.
func (t *Teardown) ForgetOrphansIn(s source.Owned) {
	for last := t.orphans.Load(); last != nil; last = t.orphans.Load() {
		rest := slices.DeleteFunc(slices.Clone(last.all), func(o Orphan) bool { return o.in == s })
		if t.orphans.CompareAndSwap(last, &orphans{last.at, rest}) {
			return
		}
	}
}

// Orphans are those that the last sweep found and that are so still. Those whose owner exists by now are left out, and
// of the deletable those that are not any more what the sweep saw.
func (t *Teardown) Orphans(filter OrphanFilter) (list OrphanList, err error) {
	last := t.orphans.Load()
	if last == nil {
		return list, nil
	}
	list.At = last.at
	seen, settled := ownedNow{}, []Orphan{}
	for _, o := range last.all {
		if o.OwnerKey != "" && (t.Primaries.Exists(o.OwnerKey) || t.mayOwe(o.OwnerKey)) {
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
				return OrphanList{}, fmt.Errorf("list what %s %q owns in %s: %w", t.Kind, o.OwnerKey, o.in, err)
			}
			if obj == nil || writtenAs(obj) != o.version {
				continue // the next sweep judges it anew
			}
		}
		if o.Deletable() || o.Adoptable() {
			settled = append(settled, o)
		}
		if filter.has(o) {
			list.Orphans = append(list.Orphans, o)
		}
	}
	list.ID = listID(settled)
	return list, nil
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
