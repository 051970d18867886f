package lifecycle

import (
	"context"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/klog/v2"
)

// Ownerless counts objects that a sweep found: those without an owner, and among them those that stay, because it
// cannot be told whose they are; and those that stay for other reasons.
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
	// Unasked is how many owners the leader was never asked about, and is to be in the next sweep: there were too many
	// for this one.
	Unasked int
	// Unread says that what names missing owners, and is not in the caches of this replica, could not be read.
	Unread bool

	unanswered int // the leader was not asked for their owner, or did not answer
}

// ownerless is what one sweep finds out about objects.
type ownerless struct {
	Ownerless
	teardown *Teardown
	keys     map[string]string // of primaries and anchors by the hash of them; made for the first hash
	had      map[string]answer // what the leader has of a missing owner, by key
	asked    int
	orphans  []Orphan
}

// answer is what the leader says of an owner that has neither a document nor a record.
type answer int

const (
	unknown answer = iota // it was not asked, or did not answer
	never                 // it has nothing
	marked                // it has the marker of a delete
)

func (t *Teardown) ownerless() *ownerless {
	for v := range t.found {
		t.found[v].Begin()
	}
	return &ownerless{teardown: t, had: map[string]answer{}}
}

// mostAsked bounds how many owners the leader is asked about in a sweep.
const mostAsked = 1000

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
	for v := range verdicts {
		if first := o.teardown.found[v].End(); len(first) > 0 {
			klog.FromContext(ctx).Info(rulings[v].found, "first", first, "all", *rulings[v].count(&o.Ownerless))
		}
	}
}

// keyOf returns the key of an owner. Of one that is named by a hash alone it is not known if there is neither such a
// primary nor such an anchor. Then the leader cannot be asked whether it is really gone, and nothing may be deleted.
func (o *ownerless) keyOf(named owner.Named) (key string, known bool) {
	key, hash := named.Key()
	if hash == "" {
		return key, true
	}
	if o.keys == nil {
		o.keys = o.hashes()
	}
	key, known = o.keys[hash]
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
