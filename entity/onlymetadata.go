package entity

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	"github.com/nagi-runtime/nagi/internal/guard"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DocumentHashAnnotation is where an object of a client with Config.OnlyMetadata has a hash of what the cache has left
// out of it. It changes when that does, and is the same in all processes of one version of the type. Lister and
// handlers show it. It is never written, and a document that has it is read as if it had not.
const DocumentHashAnnotation = "nagi/document-hash"

// onlyMetadata is the transform of Config.OnlyMetadata.
func onlyMetadata[T IEntity](c *codec[T]) (*transformer[T], error) {
	if err := checkMarkable(c); err != nil {
		return nil, fmt.Errorf("entity: Config.OnlyMetadata of kind %s: %w", c.kind, err)
	}
	if _, err := c.withoutMetadata(c.new()); err != nil {
		return nil, fmt.Errorf("entity: Config.OnlyMetadata of kind %s: %T cannot be encoded without its metadata, "+
			"which the hash of a document is made of: %w", c.kind, c.new(), err)
	}
	// It has no state, and the object is the caller's alone: each is hashed where it is decoded, side by side.
	call := guard.NewConcurrentTransform("Config.OnlyMetadata", func(obj any) (any, error) {
		return c.metadataOf(obj.(T))
	})
	return &transformer[T]{codec: c, metadataOnly: true, call: call}, nil
}

// metadataOf returns an object with the metadata of obj, which is the caller's, and a hash of the rest.
func (c *codec[T]) metadataOf(obj T) (T, error) {
	var none T
	rest, err := c.withoutMetadata(obj)
	if err != nil {
		return none, err
	}
	annotations := maps.Clone(obj.GetAnnotations()) // a type may give all its objects one map
	if annotations == nil {
		annotations = make(map[string]string, 1)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(rest) // it never fails
	annotations[DocumentHashAnnotation] = strconv.FormatUint(hash.Sum64(), 36)
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		u.SetAnnotations(annotations)
		for name := range u.Object {
			if name != "metadata" && name != "kind" && name != "apiVersion" {
				delete(u.Object, name)
			}
		}
		u.SetManagedFields(nil)
		return obj, nil
	}
	out := c.new()
	out.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	out.SetUID(obj.GetUID())
	out.SetCreationTimestamp(obj.GetCreationTimestamp())
	out.SetOwnerReferences(obj.GetOwnerReferences())
	out.SetFinalizers(obj.GetFinalizers())
	out.SetAnnotations(annotations)
	out.SetLabels(obj.GetLabels())
	return out, nil
}

// withoutMetadata encodes the rest of a document.
func (c *codec[T]) withoutMetadata(obj T) ([]byte, error) {
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		rest := map[string]any{}
		for name, value := range u.Object {
			if name != "metadata" && name != "kind" && name != "apiVersion" && name != "status" {
				rest[name] = value
			}
		}
		return anyJSON.Marshal(rest)
	}
	metadata := metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
		CreationTimestamp: obj.GetCreationTimestamp(), Labels: obj.GetLabels(),
		Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(), Finalizers: obj.GetFinalizers(),
	}
	setMetadata(obj, &metav1.ObjectMeta{})
	defer setMetadata(obj, &metadata)
	return c.marshal(obj)
}

// setMetadata sets all that a document says, and what its revision does.
func setMetadata(obj metav1.Object, from *metav1.ObjectMeta) {
	obj.SetName(from.Name)
	obj.SetNamespace(from.Namespace)
	obj.SetUID(from.UID)
	obj.SetResourceVersion(from.ResourceVersion)
	obj.SetGeneration(from.Generation)
	obj.SetCreationTimestamp(from.CreationTimestamp)
	obj.SetLabels(from.Labels)
	obj.SetAnnotations(from.Annotations)
	obj.SetOwnerReferences(from.OwnerReferences)
	obj.SetFinalizers(from.Finalizers)
	obj.SetManagedFields(nil)
	obj.SetGenerateName("")
}

// checkMarkable refuses a type whose objects cannot carry how they were read.
func checkMarkable[T IEntity](c *codec[T]) error {
	probe := c.new()
	if setMark(probe, c.kind, mark{read: readTransformed}); !IsTransformed(probe) {
		return fmt.Errorf("%T keeps no kind, so no write could tell which objects came through the cache and lack "+
			"members: embed metav1.TypeMeta in it", probe)
	}
	return nil
}
