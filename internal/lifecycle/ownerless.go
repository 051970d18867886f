package lifecycle

import (
	"context"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Ownerless counts objects that a sweep found: those without an owner, and among them those that stay, because nobody
// can tell whose they are; and those that stay for other reasons.
type Ownerless struct {
	Orphaned int // their owner does not exist
	Hashed   int // their owner does not exist, and they name it by the hash of its key alone
	// Contradicting are ours by their annotations, and another's by their labels.
	Contradicting int
	Unmarked      int // they name no owner any more, and we have written them
	Unproven      int // they name an owner of ours, and a proof of that is wanted and not there
	ProvenByOlder int // their proof is by a secret that no longer signs; they do not stay
	// NeverWas name an owner that, as far as anybody can tell, never was: it has neither a document nor a record, and
	// the leader no marker of its delete.
	NeverWas       int
	CrossNamespace int // they name an owner in another namespace, and may not
}

// ownerless is what one sweep finds out about objects whose marks somebody has taken off.
type ownerless struct {
	Ownerless
	teardown *Teardown
	keys     map[string]string // of primaries and anchors by the hash of them; made for the first hash
	unmarked newlyFound
	neverWas newlyFound
	doubted  newlyFound
	unproven newlyFound
	crossing newlyFound
	had      map[string]answer // what the leader has of a missing owner, by key
	asked    int
	// unanswered objects name a missing owner of which the leader was not asked, or did not answer.
	unanswered int
}

// answer is what the leader says of an owner that has neither a document nor a record.
type answer int

const (
	unknown answer = iota // it was not asked, or did not answer
	never                 // it has nothing
	marked                // it has the marker of a delete
)

func (t *Teardown) ownerless() *ownerless {
	return &ownerless{
		teardown: t, unmarked: newlyFound{before: t.unmarked}, neverWas: newlyFound{before: t.neverWas},
		doubted: newlyFound{before: t.doubted}, crossing: newlyFound{before: t.crossing},
		unproven: newlyFound{before: t.unproven}, had: map[string]answer{},
	}
}

// newlyFound names the first objects that the last sweep did not find.
type newlyFound struct {
	before, now map[string]struct{} // by source and key of the object
	first       []string
}

// namesInLog bounds how many objects one line of the log names.
const namesInLog = 10

func (f *newlyFound) add(s source.Owned, obj metav1.Object) {
	name := nameOf(s, obj)
	if _, before := f.before[name]; !before && len(f.first) < namesInLog {
		f.first = append(f.first, name)
	}
	if f.now == nil {
		f.now = map[string]struct{}{}
	}
	f.now[name] = struct{}{}
}

// knows reports whether the last sweep found an object.
func (f *newlyFound) knows(s source.Owned, obj metav1.Object) bool {
	if len(f.before) == 0 {
		return false
	}
	_, before := f.before[nameOf(s, obj)]
	return before
}

// see counts an object without an owner of our kind if it once had one.
func (o *ownerless) see(s source.Owned, obj metav1.Object, named owner.Named) {
	if !named.IsNone() || obj.GetDeletionTimestamp() != nil || !s.WrittenBy(obj, o.teardown.Anchors.Controller) {
		return
	}
	o.unmarked.add(s, obj)
	o.Unmarked++
}

// contradicts counts an object whose labels name another owner or installation than its annotations, which are ours. It
// reports whether the object is such.
func (o *ownerless) contradicts(s source.Owned, obj metav1.Object, named owner.Named, claim owner.Claim) bool {
	if !named.Contradicts() || claim.IsForeign(named) {
		return false
	}
	o.doubted.add(s, obj)
	o.Contradicting++
	return true
}

// mostAsked bounds how many owners the leader is asked about in a sweep.
const mostAsked = 1000

// crosses counts an object that names an owner in another namespace, and may not. It reports whether it is such. What a
// deletion policy left stays known as left: somebody may open the source.
func (o *ownerless) crosses(
	s source.Owned, obj metav1.Object, claim owner.Claim, key string, left *leftOwners,
) bool {
	if !claim.Crosses(obj, key) {
		return false
	}
	if !o.teardown.Primaries.Exists(key) {
		left.use(key)
	}
	o.crossing.add(s, obj)
	o.CrossNamespace++
	return true
}

// lived reports whether the leader has a marker of the delete of an owner that has neither a document nor a record. It
// counts an object without: who may write secondaries can name any owner, and what names one that never was may be
// another installation's, as where two installations of the original Kumori runtime share a cluster. What the leader
// was not asked for now, or did not answer, stays what it was, and waits for another sweep.
func (o *ownerless) lived(s source.Owned, obj metav1.Object, key string) bool {
	switch had := o.had[key]; {
	case had == marked:
		return true
	case had == never || o.neverWas.knows(s, obj):
		o.neverWas.add(s, obj)
		o.NeverWas++
	default:
		o.unanswered++
	}
	return false
}

// ask asks the leader once in a sweep. What no key of the bucket can be never was in it.
func (o *ownerless) ask(ctx context.Context, key string) {
	if _, asked := o.had[key]; asked {
		return
	}
	if !o.teardown.wellFormed(key) {
		o.had[key] = never
		return
	}
	if o.asked == mostAsked {
		return
	}
	o.asked++
	switch was, err := o.teardown.Marked(ctx, key); {
	case err != nil:
		o.had[key] = unknown
	case was:
		o.had[key] = marked
	default:
		o.had[key] = never
	}
}

// report logs what the last sweep did not find.
func (o *ownerless) report(ctx context.Context) {
	o.reportUnproven(ctx)
	o.teardown.unmarked, o.teardown.neverWas = o.unmarked.now, o.neverWas.now
	o.teardown.doubted, o.teardown.crossing = o.doubted.now, o.crossing.now
	if len(o.doubted.first) > 0 {
		klog.FromContext(ctx).Info("Labels name another owner or installation than annotations do, so it is not "+
			"certain whose these objects are, and nothing deletes them: mend them, as Apply does, or delete them "+
			"by hand",
			"first", o.doubted.first, "all", o.Contradicting)
	}
	if len(o.unmarked.first) > 0 {
		klog.FromContext(ctx).Info("Objects that this controller has written name no owner any more: nothing deletes "+
			"them; delete them, or let their primaries adopt them (AdoptOrFail)",
			"first", o.unmarked.first, "all", o.Unmarked)
	}
	if len(o.neverWas.first) > 0 {
		klog.FromContext(ctx).Info("Objects name an owner that, as far as anybody can tell, never was: it has neither "+
			"a document nor a record, and the leader no marker of its delete. Nothing deletes them, because "+
			"somebody else may have made them; delete them by hand if nobody needs them",
			"first", o.neverWas.first, "all", o.NeverWas)
	}
	if len(o.crossing.first) > 0 {
		klog.FromContext(ctx).Info("Objects name an owner in another namespace, so they are nobody's: no primary is "+
			"reconciled for them, and nothing deletes them; open their source to such owners "+
			"(WithOwnersInOtherNamespaces) if they are meant so",
			"first", o.crossing.first, "all", o.CrossNamespace)
	}
}

// keyOf returns the key of an owner. Of one that is named by a hash alone it is not known if there is neither such a
// primary nor such an anchor. Then nobody can be asked whether it is really gone, and nothing may be deleted.
func (o *ownerless) keyOf(named owner.Named) (key string, known bool) {
	key, hash := named.Key()
	if hash == "" {
		return key, true
	}
	if o.keys == nil {
		o.keys = o.hashes()
	}
	key, known = o.keys[hash]
	if !known {
		o.Hashed++
	}
	return key, known
}

// hashes are the keys of all primaries and anchors by the value that labels have for them.
func (o *ownerless) hashes() map[string]string {
	keys := map[string]string{}
	add := func(key string) {
		if value := entity.OwnerLabelValue(key); strings.HasPrefix(value, owner.HashPrefix) {
			keys[value] = key
		}
	}
	for key, anchor := range o.teardown.Records.All() {
		if record.IsAnchor(anchor) {
			add(key)
		}
	}
	for _, key := range o.teardown.Primaries.Keys() {
		add(key)
	}
	return keys
}
