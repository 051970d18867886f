package source

import "k8s.io/client-go/tools/cache"

// Placed is a source of which it is known where its objects are.
type Placed interface {
	Place() Place
	// AnyNamespace reports whether its objects may name owners in other namespaces.
	AnyNamespace() bool
}

// Confined reports whether the objects of a place are secondaries, and may not name owners in other namespaces.
func Confined(owned []Owned, place Place) (confined bool) {
	for _, s := range owned {
		if s, ok := s.(Placed); ok && s.Place() == place {
			if s.AnyNamespace() {
				return false
			}
			confined = true
		}
	}
	return confined
}

// Place is where secondaries are, as a reconcile names it: a bucket, or a Kubernetes informer.
type Place struct {
	Bucket   string
	Informer cache.SharedIndexInformer
}
