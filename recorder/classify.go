package recorder

import (
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinds knows which kinds are NATS entities.
type kinds struct {
	scheme *runtime.Scheme

	mu    sync.RWMutex
	names map[string]bool
	types map[reflect.Type]string
}

func newKinds(scheme *runtime.Scheme) *kinds {
	return &kinds{scheme: scheme, names: map[string]bool{}, types: map[reflect.Type]string{}}
}

func (k *kinds) register(kind string, samples []runtime.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names[kind] = true
	for _, sample := range samples {
		switch sample.(type) {
		case nil, *unstructured.Unstructured, *corev1.ObjectReference:
			// One Go type for every kind: it says nothing.
		default:
			k.types[reflect.TypeOf(sample)] = kind
		}
	}
}

// isNATS is the rule that RegisterKind documents.
func (k *kinds) isNATS(object runtime.Object, ref *corev1.ObjectReference) bool {
	k.mu.RLock()
	_, typed := k.types[reflect.TypeOf(object)]
	registered := typed || k.names[ref.Kind]
	k.mu.RUnlock()
	known := k.scheme.Recognizes(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	switch {
	case registered && !known:
		return true
	case !registered && known:
		return false
	default:
		return ref.UID == ""
	}
}

// gvk finds the kind of an object. It asks its TypeMeta first, then what was registered for its Go type, then the
// scheme, and takes the name of the Go type if none of them knows.
func (k *kinds) gvk(object runtime.Object) schema.GroupVersionKind {
	gvk := object.GetObjectKind().GroupVersionKind()
	if gvk.Kind != "" {
		return gvk
	}
	k.mu.RLock()
	kind, ok := k.types[reflect.TypeOf(object)]
	k.mu.RUnlock()
	if ok {
		return gvk.GroupVersion().WithKind(kind)
	}
	if known, _, err := k.scheme.ObjectKinds(object); err == nil && len(known) > 0 {
		return known[0]
	}
	t := reflect.TypeOf(object)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name, _, _ := strings.Cut(t.Name(), "[") // the name of a generic type has its arguments in it
	return gvk.GroupVersion().WithKind(name)
}
