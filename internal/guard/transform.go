// The transform of an informer: one that a user sets with SetTransform, or one of Nagi's own.
//
// A transform sees each document once, when it was decoded and no other code has it. What it returns is what
// the informer keeps. What it may not change, its metadata as a place in the bucket, is set again or refused.

package guard

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Transform is a transform. Nil changes nothing. Its methods may be called concurrently.
type Transform struct {
	name   string      // in errors: what the user has set
	turn   *sync.Mutex // nil: the transform may be called concurrently
	call   cache.TransformFunc
	copied atomic.Pointer[reflect.Type] // of an object that copied itself
}

// NewTransform returns the transform that a user has set with SetTransform; nil if there is none. Such transforms are
// called one at a time, as by client-go, and may have a state that relies on it.
func NewTransform(call cache.TransformFunc) *Transform {
	if call == nil {
		return nil
	}
	return &Transform{name: "the transform that was set with SetTransform", turn: new(sync.Mutex), call: call}
}

// NewConcurrentTransform returns a transform that may be called concurrently. Its errors begin with the name.
func NewConcurrentTransform(name string, call cache.TransformFunc) *Transform {
	return &Transform{name: name, call: call}
}

// Name is what the errors begin with.
func (f *Transform) Name() string { return f.name }

// Apply returns what the transform makes of an object, which must be the caller's alone. Name and namespace that the
// transform left out are set again, as is the resourceVersion. A panic is an error. Each error names the transform.
func (f *Transform) Apply(object runtime.Object) (transformed runtime.Object, err error) {
	if f == nil {
		return object, nil
	}
	if f.turn != nil {
		f.turn.Lock() // for what follows the call, too: a transform may give all objects one map
		defer f.turn.Unlock()
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panicked: %v", r)
		}
		if err != nil {
			transformed, err = nil, fmt.Errorf("%s %w", f.name, err)
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
	of := reflect.TypeOf(object)
	if known := f.copied.Load(); known == nil || *known != of {
		if copied := reflect.TypeOf(object.DeepCopyObject()); copied != of {
			return nil, fmt.Errorf(
				"returned a %v, and DeepCopyObject of %v returns a %v: generate it with deepcopy-gen", of, of, copied)
		}
		f.copied.Store(&of)
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
