package kubesource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// scope is whether the objects of a resource have namespaces: all have, or none has. The zero value does not know.
type scope struct{ is atomic.Int32 }

const (
	unknownScope int32 = iota
	namespaced
	clusterWide
)

// note learns it from an object.
func (s *scope) note(obj metav1.Object) {
	if s.is.Load() != unknownScope {
		return
	}
	if obj.GetNamespace() != "" {
		s.is.Store(namespaced)
	} else {
		s.is.Store(clusterWide)
	}
}

// CheckKey returns an error for a key that no object of the source can have. Whether the objects have namespaces is
// known once there was one.
func (s *Source) CheckKey(key string) error {
	namespace, name, cut := strings.Cut(key, "/")
	if !cut {
		name = key
	}
	switch scope := s.scope.is.Load(); {
	case name == "" || cut && namespace == "":
		return errors.New(`want "name" or "namespace/name"`)
	case !cut && scope == namespaced:
		return errors.New(`want "namespace/name", since the objects have namespaces`)
	case cut && scope == clusterWide:
		return errors.New(`want "name", since the objects have no namespaces`)
	}
	if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
		return fmt.Errorf("the name %s", strings.Join(wrong, ", and "))
	}
	if !cut {
		return nil
	}
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return fmt.Errorf("the namespace is none: %s", strings.Join(wrong, ", and "))
	}
	return nil
}

// Live reads an object at the API server; nil if there is none. Where the deleter cannot, it returns the object that it
// was given: a delete asks for what was seen.
func (s *Source) Live(ctx context.Context, obj metav1.Object) (metav1.Object, error) {
	d, ok := s.config.Deleter.(LiveReader)
	if !ok {
		return obj, nil
	}
	live, err := d.Live(ctx, obj)
	return live, s.health.errors.NoteUnanswered(err)
}
