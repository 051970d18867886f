// Package kubewrites remembers what this process has written to Kubernetes. It leaves out an apply that would change
// nothing (applied.go), and shows a write before the informer does (overlay.go).
//
// The rule of applies: what counts is what the API server returned for the last apply of the same, and not what was
// sent. An admission webhook may have changed it, or the server may have dropped a field that it does not know; an
// apply that compared with what was sent would be sent for ever. In doubt an apply is sent that changes nothing, and
// what the server returns is remembered.
package kubewrites

import (
	"sync"

	"github.com/nagi-runtime/nagi/internal/mergediff"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// most is how many objects are remembered before those are forgotten that the cache does not show.
const most = 65536

// State is known of an object that this process wrote, or found to be right.
type State struct {
	UID     types.UID
	Owner   owner.Owner
	Hash    string // of what was sent
	Version string // that the server returned
	// values is a digest of our fields: as the server returned them, or as the cache shows them once it has them. Its
	// Go type may show a value in another way.
	values string
	cached bool // values are the cache's
	// right is what was found to be right, as the cache has it. That never changes, so it needs no second look. A
	// resourceVersion tells less: after etcd went back, another state may get the same one.
	right identity
}

// Memory has the States of objects by key. Make one with NewMemory. All methods may be called concurrently.
type Memory struct {
	*states
	readOnly bool
}

type states struct {
	stored func(key string) metav1.Object

	mu    sync.Mutex
	byKey map[string]State
	room  int // how many there may be before the cache is asked
}

// NewMemory makes one that remembers nothing. stored returns what the cache has; nil if that is nothing.
func NewMemory(stored func(key string) metav1.Object) *Memory {
	return &Memory{states: &states{stored: stored, byKey: map[string]State{}, room: most}}
}

// ReadOnly is the same memory, which remembers and forgets nothing by what it is told. It is for plans: what a plan
// says of an object has not happened to it.
func (m *Memory) ReadOnly() *Memory { return &Memory{states: m.states, readOnly: true} }

// Put remembers a State.
func (m *Memory) Put(key string, state State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.putLocked(key, state)
}

// Owned remembers whose this very object is, in case the owner is taken off it.
func (m *Memory) Owned(key string, uid types.UID, owner owner.Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.byKey[key]
	if state.UID != uid {
		state = State{UID: uid}
	}
	if state.Owner != owner {
		state.Owner = owner
		m.putLocked(key, state)
	}
}

func (m *Memory) putLocked(key string, state State) {
	if m.readOnly {
		return
	}
	if m.byKey[key] = state; len(m.byKey) <= m.room {
		return
	}
	for other := range m.byKey {
		if other != key && m.stored(other) == nil {
			delete(m.byKey, other)
		}
	}
	m.room = max(most, 2*len(m.byKey))
}

// Of returns what is remembered of this very object.
func (m *Memory) Of(key string, uid types.UID) (State, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state, ok := m.byKey[key]
	return state, ok && state.UID == uid
}

// Forget forgets an object.
func (m *Memory) Forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.readOnly {
		delete(m.byKey, key)
	}
}

// Wanted is what an apply wants of an object.
type Wanted struct {
	Key     string
	Owner   owner.Owner
	Manager string
	Version schema.GroupVersion
	Fields  map[string]any
	Hash    string // of the fields
}

// Returned remembers what the server returned for an apply.
func (m *Memory) Returned(w Wanted, returned *unstructured.Unstructured) {
	m.Put(w.Key, State{
		UID: returned.GetUID(), Owner: w.Owner, Hash: w.Hash, Version: returned.GetResourceVersion(),
		values: oursOf(returned, w.Manager, w.Version).digest(),
	})
}

// Confirmed remembers that an apply changed nothing: existing, as the cache has it, is right.
func (m *Memory) Confirmed(w Wanted, existing metav1.Object) { m.Put(w.Key, w.shownBy(existing)) }

// shownBy is the State of an object that is right, as the cache has it.
func (w Wanted) shownBy(existing metav1.Object) State {
	return State{
		UID: existing.GetUID(), Owner: w.Owner, Hash: w.Hash, Version: existing.GetResourceVersion(),
		values: oursOf(existing, w.Manager, w.Version).digest(), cached: true, right: identityOf(existing),
	}
}

// Right tells whether an apply would change nothing: our fields have the values that the server returned for the last
// apply of the same. A process that has not applied the object itself compares with what it wants; hash is the one that
// the object carries. cached says that existing is what the cache has, and not an own write that it does not show yet.
func (m *Memory) Right(w Wanted, existing metav1.Object, hash string, cached bool) bool {
	last, known := m.Of(w.Key, existing.GetUID())
	if known = known && last.Hash == w.Hash; known && last.right.is(existing) {
		return true
	}
	now := w.shownBy(existing)
	switch {
	case known && last.Version == now.Version && (!last.cached || now.values == ""): // as the server returned it
	case now.values == "":
		return false
	case known:
		if now.values != last.values {
			return false
		}
	case hash != w.Hash || !oursOf(existing, w.Manager, w.Version).are(w.Fields):
		return false
	}
	if cached {
		m.Put(w.Key, now)
	}
	return true
}

// ours are the fields of an object that a manager has applied.
type ours struct {
	set    *fieldpath.Set
	fields map[string]any // nil if they are not known
}

// oursOf returns the fields of an object that a manager applied. The cache may lack what tells: the values, where the
// informer keeps metadata only, or the managedFields, where a transform drops them.
func oursOf(obj metav1.Object, manager string, version schema.GroupVersion) ours {
	set := FieldsOf(obj, manager, version)
	if set == nil || mergediff.OnlyMetadata(obj) {
		return ours{}
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return ours{set, u.Object}
	}
	fields, err := mergediff.FieldsOf(obj)
	if err != nil {
		return ours{}
	}
	return ours{set, fields}
}

// digest is equal where the same fields have the same values; "" if it is not known.
func (o ours) digest() string {
	if o.fields == nil {
		return ""
	}
	return FieldValues(o.set, o.fields)
}

// are tells whether the fields are all of a configuration, and have its values.
func (o ours) are(configured map[string]any) bool {
	return CoverFields(o.set, configured) && HaveFields(o.set, o.fields, configured)
}
