package kube

import (
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/mergediff"
	"github.com/nagi-runtime/nagi/internal/source"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fromCache copies an object of the informer or the API server into a T. It sets the kind, which typed informers leave
// out.
func (k *Handle[T]) fromCache(item any) (T, error) {
	if obj, ok := item.(T); ok {
		return k.withKind(obj.DeepCopyObject().(T)), nil
	}
	fields, err := mergediff.FieldsOf(item)
	if err != nil {
		var none T
		return none, fmt.Errorf("read %s: %w", kubeapi.ResourceName(k.resource), err)
	}
	return k.fromFields(fields)
}

// fromFields makes a T of the fields, which it takes over.
func (k *Handle[T]) fromFields(fields map[string]any) (T, error) {
	obj := newObject[T]()
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		u.Object = fields
		return k.withKind(obj), nil
	}
	if err := mergediff.Into(fields, obj); err != nil {
		return obj, fmt.Errorf("read %s as %T: %w", kubeapi.ResourceName(k.resource), obj, err)
	}
	return k.withKind(obj), nil
}

func (k *Handle[T]) withKind(obj T) T {
	if k.kind != "" {
		obj.GetObjectKind().SetGroupVersionKind(k.resource.GroupVersion().WithKind(k.kind))
	}
	return obj
}

// configOf returns the fields of an object that its writer decides about: neither the status, nor what the server sets.
// In a typed object a null is a field that was not set, and so is a struct that only Go makes an empty one.
func (k *Handle[T]) configOf(obj T) (map[string]any, error) {
	fields, err := mergediff.FieldsOf(obj)
	if err != nil {
		return nil, err
	}
	if _, ok := any(obj).(*unstructured.Unstructured); !ok {
		mergediff.DropNulls(fields)
		mergediff.DropEmptyStructs(fields, obj)
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
		mergediff.StringDataIsData(fields)
	}
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		for _, name := range setByServer {
			delete(metadata, name)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, entity.ExpiresAnnotation) // of an entity whose annotations were copied
			delete(annotations, entity.DocumentHashAnnotation)
		}
	}
	return fields, nil
}

var secretResource = corev1.SchemeGroupVersion.WithResource("secrets")

var setByServer = []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
	"managedFields", "resourceVersion", "selfLink", "uid"}
