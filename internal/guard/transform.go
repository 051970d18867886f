// The transform that a user sets on an informer with SetTransform.
//
// A transform sees each document once, when it was decoded and no other code has it. What it returns is what
// the informer keeps. What it may not change, its metadata as a place in the bucket, is set again or refused.

package guard

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Transform is a transform of a user. Nil changes nothing. Its methods may be called concurrently.
type Transform struct {
	mu     sync.Mutex // transforms of client-go are called one at a time, and may have a state that relies on it
	call   cache.TransformFunc
	copied reflect.Type // of an object that copied itself
}

// NewTransform returns nil if there is no transform.
func NewTransform(call cache.TransformFunc) *Transform {
	if call == nil {
		return nil
	}
	return &Transform{call: call}
}

// Apply returns what the transform makes of an object, which must be the caller's alone. Name and namespace that the
// transform left out are set again, as is the resourceVersion. A panic is an error. Each error names the transform.
func (f *Transform) Apply(object runtime.Object) (transformed runtime.Object, err error) {
	if f == nil {
		return object, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panicked: %v", r)
		}
		if err != nil {
			transformed, err = nil, fmt.Errorf("the transform that was set with SetTransform %w", err)
		}
	}()
	was, err := meta.Accessor(object)
	if err != nil {
		return nil, fmt.Errorf("was given a %T: %w", object, err)
	}
	namespace, name, version := was.GetNamespace(), was.GetName(), was.GetResourceVersion() // it may change them
	result, err := f.call(object)
	if err != nil {
		return nil, fmt.Errorf("failed: %w", err)
	}
	transformed, err = f.checked(result)
	if err != nil {
		return nil, err
	}
	is, err := meta.Accessor(transformed)
	if err != nil {
		return nil, fmt.Errorf("returned a %T, which has no metadata: %w", transformed, err)
	}
	if err := keep("namespace", namespace, is.GetNamespace(), is.SetNamespace); err != nil {
		return nil, err
	}
	if err := keep("name", name, is.GetName(), is.SetName); err != nil {
		return nil, err
	}
	if is.GetResourceVersion() != version {
		is.SetResourceVersion(version)
	}
	return transformed, nil
}

// checked returns the result of a transform as an object that can be kept. Of each type one object is copied: a delete
// handler gets a copy, and that must not be where it shows that the type has none.
func (f *Transform) checked(result any) (runtime.Object, error) {
	if v := reflect.ValueOf(result); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("returned no object: return the one that it was given, or a copy")
	}
	object, ok := result.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf(
			"returned a %T, which is no runtime.Object: return the object that it was given, or a copy", result)
	}
	if of := reflect.TypeOf(object); of != f.copied {
		if copied := reflect.TypeOf(object.DeepCopyObject()); copied != of {
			return nil, fmt.Errorf(
				"returned a %v, and DeepCopyObject of %v returns a %v: generate it with deepcopy-gen", of, of, copied)
		}
		f.copied = of
	}
	return object, nil
}

// keep sets what the transform left out, and refuses what it changed.
func keep(what, was, is string, set func(string)) error {
	switch is {
	case was:
		return nil
	case "":
		set(was)
		return nil
	}
	return fmt.Errorf("made the %s %q of %q: the key of the document says it, so leave it as it is, or leave it out",
		what, is, was)
}
