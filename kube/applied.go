package kube

import (
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/managedfields"
	"github.com/nagi-runtime/nagi/internal/mergediff"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// appliedMost bounds how many objects' last applies are remembered. Of one that is forgotten the annotation and the
// managedFields still tell, at the cost of a walk through them.
const appliedMost = 65536

// appliedState is known of an object that this process wrote, or found to be right: its owner, and what the server
// returned for the last apply, or for a patch that changed nothing. That may differ from what was sent: an admission
// webhook may have changed it, or the server may have dropped a field that it does not know. So the next apply compares
// with what the server returned, not with what was sent; else it would write for ever.
type appliedState struct {
	uid     types.UID
	owner   owner.Owner
	hash    string // of what was sent
	version string // that the server returned
	values  string // a digest of our fields: as the server returned them, or as the cache shows them once it has them
	cached  bool   // values are those of the cache
	// right is what was found to be right, as the cache has it. That never changes, so it needs no second look. A
	// resourceVersion tells less: after etcd went back, another state may get the same one.
	right metav1.Object
}

// appliedStates are the last applies of this process by key.
type appliedStates struct {
	mu    sync.Mutex
	byKey map[string]appliedState
}

func newAppliedStates() *appliedStates { return &appliedStates{byKey: map[string]appliedState{}} }

func (s *appliedStates) put(key string, state appliedState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(key, state)
}

// owned remembers whose this very object is, in case that somebody takes the owner off it.
func (s *appliedStates) owned(key string, uid types.UID, owner owner.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.byKey[key]
	if state.uid != uid {
		state = appliedState{uid: uid}
	}
	if state.owner != owner {
		state.owner = owner
		s.putLocked(key, state)
	}
}

func (s *appliedStates) putLocked(key string, state appliedState) {
	if _, ok := s.byKey[key]; !ok && len(s.byKey) >= appliedMost {
		for victim := range s.byKey {
			delete(s.byKey, victim)
			break
		}
	}
	s.byKey[key] = state
}

// of returns what is remembered of this very object.
func (s *appliedStates) of(key string, uid types.UID) (appliedState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.byKey[key]
	return state, ok && state.uid == uid
}

func (s *appliedStates) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, key)
}

// upToDate tells whether an apply would change nothing: our fields have the values that the server returned for the
// last apply of the same. A process that has not applied the object itself compares with what it wants. In doubt the
// answer is no, and an apply that changes nothing teaches what the server makes of it.
func (k *Handle[T]) upToDate(c *configuration, existing metav1.Object) bool {
	last, known := k.applied.of(c.key, existing.GetUID())
	if known = known && last.hash == c.hash; known && last.right == existing {
		return true
	}
	ours := k.ours(existing, c.manager)
	now := appliedState{
		uid: existing.GetUID(), owner: c.owner, hash: c.hash, version: existing.GetResourceVersion(),
		values: ours.digest(), cached: true, right: existing,
	}
	switch {
	case known && last.version == now.version && (!last.cached || now.values == ""): // as the server returned it
	case now.values == "":
		return false
	case known:
		if now.values != last.values {
			return false
		}
	case existing.GetAnnotations()[AppliedHashAnnotation(c.manager)] != c.hash || !ours.are(c.fields):
		return false
	}
	if k.own.stored(c.key) == existing { // else the own write would be kept for as long as the cache has it
		k.applied.put(c.key, now)
	}
	return true
}

// ours are the fields of an object that a manager has applied.
type ours struct {
	set    *fieldpath.Set // nil if it is not known
	fields map[string]any // nil if they are not known
}

// ours returns the fields of an object that a manager applied. The cache may lack what tells: the values, where the
// informer keeps metadata only, or the managedFields, where a transform drops them.
func (k *Handle[T]) ours(obj metav1.Object, manager string) ours {
	set := managedBy(obj, manager, k.resource.GroupVersion())
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
	return managedfields.Values(o.set, o.fields)
}

// are tells whether the fields are all of a configuration, and have its values.
func (o ours) are(configured map[string]any) bool {
	return managedfields.Cover(o.set, configured) && managedfields.Have(o.set, o.fields, configured)
}

// stamps are where an object carries a revision of its owner.
var stamps = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "annotations", entity.OwnerRevisionAnnotation))

// managedBy returns the fields that a manager applied, nil if there are none.
func managedBy(obj metav1.Object, manager string, version schema.GroupVersion) *fieldpath.Set {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply &&
			entry.Subresource == "" && entry.APIVersion == version.String() && entry.FieldsV1 != nil {
			set := &fieldpath.Set{}
			if set.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
				return nil
			}
			return set.Difference(stamps) // a stamp is no reason to apply
		}
	}
	return nil
}
