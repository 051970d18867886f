package kube

import (
	"reflect"

	"github.com/nagi-runtime/nagi/internal/mergediff"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// spelledAs returns a copy of obj in which what is equal to Kubernetes is written as in before: a quantity that is the
// same amount, and a list or map that is empty or none. Else each call would send what the server has in other words.
// Kubernetes' own comparison of objects (equality.Semantic) says so too, but panics at unexported fields.
func spelledAs[T Object](before, obj T) T {
	spelled := mergediff.CopyOf(obj)
	if _, ok := any(obj).(*unstructured.Unstructured); !ok { // that one has no types to know it by
		spell(reflect.ValueOf(before).Elem(), reflect.ValueOf(spelled).Elem())
	}
	return spelled
}

// spell changes is, which can be set, where it is equal to was. It looks at exported fields, and at those of embedded
// structs.
func spell(was, is reflect.Value) {
	if is.Type() == quantityType {
		a, b := was.Interface().(resource.Quantity), is.Interface().(resource.Quantity)
		if a.Cmp(b) == 0 {
			is.Set(was)
		}
		return
	}
	switch is.Kind() {
	case reflect.Struct:
		for i := range is.NumField() {
			if f := is.Type().Field(i); f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct {
				spell(was.Field(i), is.Field(i))
			}
		}
	case reflect.Pointer:
		if !was.IsNil() && !is.IsNil() {
			spell(was.Elem(), is.Elem())
		}
	case reflect.Interface:
		if !was.IsNil() && !is.IsNil() && was.Elem().Type() == is.Elem().Type() {
			is.Set(spelledElem(was.Elem(), is.Elem()))
		}
	case reflect.Slice:
		if was.Len() == 0 && is.Len() == 0 {
			is.Set(was)
		}
		fallthrough
	case reflect.Array:
		for i := 0; i < is.Len() && was.Len() == is.Len(); i++ {
			spell(was.Index(i), is.Index(i))
		}
	case reflect.Map:
		if was.Len() == 0 && is.Len() == 0 {
			is.Set(was)
		}
		for _, key := range is.MapKeys() {
			if elem := was.MapIndex(key); elem.IsValid() {
				is.SetMapIndex(key, spelledElem(elem, is.MapIndex(key)))
			}
		}
	}
}

// spelledElem is spell for what cannot be set: it returns a value to set instead.
func spelledElem(was, is reflect.Value) reflect.Value {
	spelled := reflect.New(is.Type()).Elem()
	spelled.Set(is)
	spell(was, spelled)
	return spelled
}
