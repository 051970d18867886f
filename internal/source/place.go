package source

import "k8s.io/client-go/tools/cache"

// OwnedOf returns those sources in which primaries own something.
func OwnedOf(sources []Source) (owned []Owned) {
	for _, s := range sources {
		if s, ok := s.(Owned); ok && s.Owns() {
			owned = append(owned, s)
		}
	}
	return owned
}

// Confined reports whether the objects of a place are secondaries, and may not name owners in other namespaces.
func Confined(sources []Source, place Place) (confined bool) {
	for _, s := range OwnedOf(sources) {
		if s, ok := s.(Placed); ok && s.Place() == place {
			if s.AnyNamespace() {
				return false
			}
			confined = true
		}
	}
	return confined
}

// unownedNoter is a source of entities that tells once that one was written without an owner.
type unownedNoter interface {
	Placed
	Kinded
	noteUnowned() (first bool)
}

// NoteUnowned notes that an entity of a place was written without an owner. first is true once for each source in which
// primaries own something; kind is that of its entities.
func NoteUnowned(sources []Source, place Place) (kind string, first bool) {
	for _, s := range OwnedOf(sources) {
		s, ok := s.(unownedNoter)
		if ok && s.Place() == place && s.noteUnowned() {
			kind, first = s.Kind(), true
		}
	}
	return kind, first
}

// Place is where secondaries are, as a reconcile names it: a bucket, or a Kubernetes informer.
type Place struct {
	Bucket   string
	Informer cache.SharedIndexInformer
}
