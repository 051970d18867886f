package kube

import (
	"sync"

	"github.com/nagi-runtime/nagi/internal/managedfields"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	version string
	managed string // hash of the fields that the server gave us
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

// upToDate tells whether an apply would change nothing: the same was applied last, and nobody has touched it since.
// Another apply by our own field manager shows in the hash on the object, even where the set of managed fields stays.
// Other writers show in the set: the server takes a field out of it when they change or remove the field.
func (k *Handle[T]) upToDate(c *configuration, existing metav1.Object) bool {
	last, known := k.applied.of(c.key, existing.GetUID())
	known = known && last.hash == c.hash
	if known && last.version == existing.GetResourceVersion() {
		return true
	}
	if existing.GetAnnotations()[AppliedHashAnnotation(c.manager)] != c.hash {
		return false
	}
	managed := managedBy(existing, c.manager, k.resource.GroupVersion())
	if managed == nil {
		return false
	}
	if known {
		return hashOfSet(managed) == last.managed
	}
	return managedfields.Cover(managed, c.fields)
}

// managedBy returns the fields that a manager applied, nil if there are none.
func managedBy(obj metav1.Object, manager string, version schema.GroupVersion) *fieldpath.Set {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply &&
			entry.Subresource == "" && entry.APIVersion == version.String() && entry.FieldsV1 != nil {
			set := &fieldpath.Set{}
			if set.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
				return nil
			}
			return set
		}
	}
	return nil
}

// hashOfSet hashes the set and not its text, whose order depends on the encoder. It is "" for nil.
func hashOfSet(set *fieldpath.Set) string {
	if set == nil {
		return ""
	}
	text, err := set.ToJSON()
	if err != nil {
		return ""
	}
	return shortHash(text)
}
