package lifecycle

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verdict says whose an object is, as far as its marks, the caches and the leader tell.
type verdict uint8

const (
	others        verdict = iota // it names no owner of our kind, and we have not written it
	foreign                      // it names an owner of our kind, and is another installation's
	unproven                     // it names an owner of ours, and a proof of that is wanted and not there
	contradicting                // it is ours by its annotations, and another's by its labels
	unmarked                     // it names no owner any more, and we have written it
	neverWas                     // its owner never was: there is no document, no record, and no marker of a delete
	crossing                     // it names an owner in another namespace, and may not
	hashed                       // it names an owner by the hash of its key alone, and there is none with that hash
	unanswered                   // the leader was not asked for its owner, or did not answer
	unreadable                   // its owner has a record that cannot be read
	ours                         // its owner exists, is about to be torn down, or has left it on purpose
	orphaned                     // its owner is gone for certain
	verdicts
)

// rulings say what becomes of an object in a sweep. What has no verdict that goes stays.
var rulings = [verdicts]struct {
	goes    bool         // if the brake lets its owner go
	known   bool         // it counts among the objects of this installation
	kept    bool         // the brake goes on holding it, if it does
	unknown bool         // and so if it may have held it before
	orphan  OrphanReason // why it is among the orphans that are listed, if it is
	count   func(*Ownerless) *int
	found   string // what the log says of those that the last sweep did not find
	left    string // what the log says at the end of a teardown that has left some
}{
	unproven: {
		orphan: OrphanUnproven, count: func(o *Ownerless) *int { return &o.Unproven },
		found: "Objects name an owner of this controller and carry no valid proof of it, so nothing deletes them. A " +
			"reconcile that writes them proves them. Where none does, somebody else has marked them, or the " +
			"reconciler no longer wants them: delete them by hand",
		left: "The teardown has left objects that name this owner and carry no valid proof of it: delete them by " +
			"hand if they were the owner's",
	},
	contradicting: {
		orphan: OrphanContradicting, count: func(o *Ownerless) *int { return &o.Contradicting },
		found: "Labels name another owner or installation than annotations do, so it is not certain whose these " +
			"objects are, and nothing deletes them: mend them, as Apply does, or delete them by hand",
	},
	unmarked: {
		count: func(o *Ownerless) *int { return &o.Unmarked },
		found: "Objects that this controller has written name no owner any more: nothing deletes them; delete them, " +
			"or let their primaries adopt them (AdoptOrFail)",
	},
	neverWas: {
		kept: true, orphan: OrphanNeverWas, count: func(o *Ownerless) *int { return &o.NeverWas },
		found: "Objects name an owner that, as far as anybody can tell, never was: it has neither a document nor a " +
			"record, and the leader no marker of its delete. Nothing deletes them, because somebody else may have " +
			"made them; delete them by hand if nobody needs them",
		left: "Objects name this owner, which has no document, no record and, as far as the leader knows, no marker " +
			"of a delete: it never was, so they stay. Delete them by hand if they are not needed",
	},
	crossing: {
		count: func(o *Ownerless) *int { return &o.CrossNamespace },
		found: "Objects name an owner in another namespace, so they are nobody's: no primary is reconciled for them, " +
			"and nothing deletes them; open their source to such owners (WithOwnersInOtherNamespaces) if they are " +
			"meant so",
		left: "The teardown has left objects that name this owner from other namespaces: open their source to such " +
			"owners (WithOwnersInOtherNamespaces) if they are the owner's, or delete them by hand",
	},
	hashed: {orphan: OrphanHashed, count: func(o *Ownerless) *int { return &o.Hashed }},
	unanswered: {
		kept: true, unknown: true, orphan: OrphanUnanswered, count: func(o *Ownerless) *int { return &o.unanswered },
	},
	unreadable: {known: true, kept: true, unknown: true},
	ours:       {known: true},
	orphaned:   {known: true, goes: true, orphan: OrphanHeld},
}

// ruledByMarks says what the marks of an object tell, which names an owner of our kind with that key; "" if a hash
// stands for the key.
//
// Where proofs are wanted, what does not prove its owner is, as far as we can tell, not ours: nothing deletes it, no
// teardown waits for it, and its stamp is no evidence. Whether it is such says owner.Claim.
func ruledByMarks(claim owner.Claim, obj metav1.Object, named owner.Named) verdict {
	switch {
	case claim.MayDelete(obj):
		return ours
	case claim.IsUnproven(obj):
		return unproven
	case named.Contradicts() && !claim.IsForeign(named):
		return contradicting
	}
	return foreign
}

// judge says whose an object is that a sweep has found, and the key of its owner where that is known.
func (o *ownerless) judge(
	ctx context.Context, s source.Owned, obj metav1.Object, claim owner.Claim, left *leftOwners,
) (v verdict, key string) {
	t := o.teardown
	named, ok := claim.OwnerOf(obj)
	if !ok {
		if named.IsNone() && obj.GetDeletionTimestamp() == nil && s.WrittenBy(obj, t.Anchors.Controller) {
			return unmarked, ""
		}
		return others, ""
	}
	if v = ruledByMarks(claim, obj, named); v != ours {
		// What a deletion policy left stays known as left: a secret that is given again proves it again.
		if key, _ = named.Key(); v == unproven && key != "" && !t.Primaries.Exists(key) {
			left.use(key)
		}
		return v, key
	}
	if claim.IsProvenByOlder(obj) {
		o.ProvenByOlder++
	}
	key, known := o.keyOf(named)
	if !known {
		return hashed, ""
	}
	if claim.Crosses(obj, key) {
		if !t.Primaries.Exists(key) { // nor is that forgotten here: the source may be opened
			left.use(key)
		}
		return crossing, key
	}
	return o.ofMissing(ctx, s, obj, claim, key, left), key
}

// ofMissing is judge for what is for certain its owner's: is that missing? Who may write secondaries can name any
// owner, and what names one that never was may be another installation's, as where two installations of the original
// Kumori runtime share a cluster. What the leader was not asked for now, or did not answer, stays what it was, and
// waits for another sweep.
func (o *ownerless) ofMissing(
	ctx context.Context, s source.Owned, obj metav1.Object, claim owner.Claim, key string, left *leftOwners,
) verdict {
	t := o.teardown
	switch {
	case t.Primaries.Exists(key):
		return ours
	case t.mayOwe(key): // its teardown is owed anyway, and may be about to leave them
		left.use(key)
		if record.IsAnchor(t.Anchors.Cached(key)) {
			return ours
		}
		return unreadable
	case left.has(ctx, key):
		return ours
	case claim.IsProven(obj), o.had[key] == marked:
		return orphaned
	case o.had[key] == never, t.found[neverWas].Before(nameOf(s, obj)):
		return neverWas
	}
	return unanswered
}

// note counts an object by its verdict, and remembers what is to be told of it.
func (o *ownerless) note(v verdict, s source.Owned, obj metav1.Object) {
	if count := rulings[v].count; count != nil {
		*count(&o.Ownerless)++
	}
	if rulings[v].found != "" {
		o.teardown.found[v].Add(nameOf(s, obj))
	}
}
