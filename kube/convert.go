package kube

import (
	"encoding/base64"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/source"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// fromCache copies an object of the informer or the API server into a T. It sets the kind, which typed informers leave
// out.
func (k *Handle[T]) fromCache(item any) (T, error) {
	if obj, ok := item.(T); ok {
		return k.withKind(obj.DeepCopyObject().(T)), nil
	}
	fields, err := fieldsOf(item)
	if err != nil {
		var none T
		return none, fmt.Errorf("read %s: %w", kubeerrors.ResourceName(k.resource), err)
	}
	return k.fromFields(fields)
}

// fromFields makes a T of the fields, which it takes over.
func (k *Handle[T]) fromFields(fields map[string]any) (T, error) {
	obj := newKubeObject[T]()
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		u.Object = fields
		return k.withKind(obj), nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, obj); err != nil {
		return obj, fmt.Errorf("read %s as %T: %w", kubeerrors.ResourceName(k.resource), obj, err)
	}
	return k.withKind(obj), nil
}

func (k *Handle[T]) withKind(obj T) T {
	if k.kind != "" {
		obj.GetObjectKind().SetGroupVersionKind(k.resource.GroupVersion().WithKind(k.kind))
	}
	return obj
}

// fieldsOf returns the fields of an object; they are a copy.
func fieldsOf(item any) (map[string]any, error) {
	if u, ok := item.(*unstructured.Unstructured); ok {
		return runtime.DeepCopyJSON(u.Object), nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", item, err)
	}
	return fields, nil
}

// configOf returns the fields of an object that its writer decides about: neither the status, nor what the server sets.
// In a typed object a null is a field that was not set.
func (k *Handle[T]) configOf(obj T) (map[string]any, error) {
	fields, err := fieldsOf(obj)
	if err != nil {
		return nil, err
	}
	if _, ok := any(obj).(*unstructured.Unstructured); !ok {
		dropNulls(fields)
	}
	if k.kind != "" {
		fields["kind"] = k.kind
	}
	if fields["kind"] == nil || fields["kind"] == "" {
		return nil, fmt.Errorf("the object %q has no kind: set it, or give kube.New WithKind", source.ObjectKey(obj))
	}
	fields["apiVersion"] = k.resource.GroupVersion().String()
	delete(fields, "status")
	if k.resource == secretResource {
		stringDataIsData(fields)
	}
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		for _, name := range setByServer {
			delete(metadata, name)
		}
	}
	return fields, nil
}

var secretResource = corev1.SchemeGroupVersion.WithResource("secrets")

// stringDataIsData does to a Secret what the API server does. The server would keep an applied stringData as ours,
// though no object has it, and the data as nobody's: a change of the data would never show.
func stringDataIsData(fields map[string]any) {
	texts, ok := fields["stringData"].(map[string]any)
	if !ok {
		return
	}
	data, _ := fields["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	for name, text := range texts {
		text, ok := text.(string)
		if !ok {
			return // the API server says what is wrong
		}
		data[name] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	if delete(fields, "stringData"); len(data) > 0 {
		fields["data"] = data
	}
}

var setByServer = []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
	"managedFields", "resourceVersion", "selfLink", "uid"}

func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if field == nil {
				delete(value, name)
				continue
			}
			dropNulls(field)
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}

// onlyMetadata tells whether an informer keeps no more of its objects.
func onlyMetadata(obj metav1.Object) bool {
	_, ok := obj.(*metav1.PartialObjectMetadata)
	return ok
}
