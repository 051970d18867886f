package explain

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Index has the keys of a controller in order, those of documents and records, and apart from them the few that a state
// may be about. It begins with the first listing: until then nothing is kept. Its methods may be called concurrently.
type Index struct {
	begun     atomic.Bool
	ready     sync.Once
	mu        sync.Mutex // held from a look at the caches until what they show is put into the sets
	known     Set        // keys that have a document or a record
	lost      Set        // a record, and no document
	refused   Set        // a record says that its document is invalid
	asleep    Set        // the document asks not to be reconciled
	behind    Set        // the record does not say that the document as it is was reconciled
	malformed names

	lists    keptBy[choice, *list]
	rankings keptBy[choice, *ranking]
	visited  atomic.Int64 // how many keys were copied or looked at, for tests
}

// traits are what the sets of an Index say of one key.
type traits struct{ known, lost, refused, asleep, behind bool }

// Note has the index look at a key of which a document or a record changed. Until the first listing it does nothing.
func (i *Index) Note(x *Explainer, key string) {
	if i == nil || !i.begun.Load() {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	t := x.traitsOf(key)
	if !x.WellFormed(key) {
		shown := printable.Text(key)
		i.malformed.put(shown, key, t.known)
		key = shown
	}
	i.known.Put(key, t.known)
	i.lost.Put(key, t.lost)
	i.refused.Put(key, t.refused)
	i.asleep.Put(key, t.asleep)
	i.behind.Put(key, t.behind)
}

// Begun reports whether Note does anything.
func (i *Index) Begun() bool { return i != nil && i.begun.Load() }

// begin fills the sets from the caches, once. What Note puts meanwhile is newer.
func (i *Index) begin(x *Explainer) {
	i.ready.Do(func() {
		i.begun.Store(true)
		keys := x.Primary.Keys()
		if x.Records != nil {
			keys = append(keys, x.recordKeys()...)
		}
		shown, malformed := x.shown(keys)
		for called, key := range malformed {
			i.malformed.put(called, key, true)
		}
		slices.Sort(shown)
		var known, lost, refused, asleep, behind []string
		for _, key := range slices.Compact(shown) {
			t := x.traitsOf(cmp.Or(malformed[key], key))
			for _, in := range []struct {
				is   bool
				keys *[]string
			}{{t.known, &known}, {t.lost, &lost}, {t.refused, &refused}, {t.asleep, &asleep}, {t.behind, &behind}} {
				if in.is {
					*in.keys = append(*in.keys, key)
				}
			}
		}
		i.known.Load(known)
		i.lost.Load(lost)
		i.refused.Load(refused)
		i.asleep.Load(asleep)
		i.behind.Load(behind)
	})
}

// names are the malformed keys of an Index by what answers call them, which is what is in its sets. The zero value has
// none. The methods may be called concurrently.
type names struct {
	mu   sync.RWMutex
	keys map[string]string
}

// put notes a key that is known, and forgets one that is not.
func (n *names) put(called, key string, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case known && n.keys == nil:
		n.keys = map[string]string{called: key}
	case known:
		n.keys[called] = key
	case n.keys[called] == key:
		delete(n.keys, called)
	}
}

func (n *names) get(called string) (key string, ok bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	key, ok = n.keys[called]
	return key, ok
}

// traitsOf looks at the caches.
func (x *Explainer) traitsOf(key string) (t traits) {
	v := x.Primary.View(key)
	var record *entity.Record
	if x.Records != nil {
		record, _ = x.Records.Cached(key)
	}
	t.known = v.Presence != source.Absent || record != nil
	t.lost = v.Presence == source.Absent && record != nil
	t.refused = record != nil && record.Invalid != nil
	t.asleep = v.Suspended()
	if v.Presence == source.Present && x.Records != nil && !t.asleep {
		t.behind = record == nil || record.ObservedRevision != v.Revision ||
			!meta.IsStatusConditionTrue(record.Conditions, entity.ConditionReconciled)
	}
	return t
}

func (x *Explainer) recordKeys() (keys []string) {
	for key := range maps.Collect(x.Records.All()) {
		keys = append(keys, key)
	}
	return keys
}
