package natsinformer

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeleteReason says what made a key disappear.
type DeleteReason string

// The reasons of a delete.
const (
	DeleteMarker   DeleteReason = "Delete"
	PurgeMarker    DeleteReason = "Purge"
	ExpiryMarker   DeleteReason = "Expired"
	DeleteVanished DeleteReason = "Vanished" // nothing in the stream tells

	// expiredByAge is an ExpiryMarker that is no evidence, see Deletion.
	expiredByAge DeleteReason = "ExpiredByAge"
)

// Deletion tells how the informer learned of a delete.
type Deletion struct {
	// Evidenced is true if the stream says that a writer wanted the key to go: it has a delete marker or a purge
	// marker; or the key expired by the TTL that its own writer set, as a marker says, or the leader of the stream, who
	// has nothing of the key when that time is over. It is false if the delete was only inferred from the key's
	// absence, and if the key expired by the bucket's age limit, which may be set by mistake, unless
	// Config.DocumentsExpire says that it is meant and the stream has a marker.
	Evidenced bool
	Reason    DeleteReason
}

// deletionAnnotation is put on the copy that a delete handler receives; the object in the store never carries it. It is
// an annotation, because only that survives client-go's queue and handlers unchanged.
const deletionAnnotation = "natsinformer.nagi/deletion"

// DeleteOf tells how an Informer learned of a delete, from the object that a delete handler received. For anything else
// (a cache.DeletedFinalStateUnknown, an object of another informer) it returns the zero Deletion, which means inferred:
// a handler that deletes only on evidence is safe with it.
func DeleteOf(obj any) Deletion {
	object, err := meta.Accessor(obj)
	if err != nil {
		return Deletion{}
	}
	// The resourceVersion is part of the value, so a document that carries the annotation itself proves nothing: its
	// writer cannot know the sequence of the marker that will delete it.
	value := object.GetAnnotations()[deletionAnnotation]
	for _, reason := range []DeleteReason{DeleteMarker, PurgeMarker, ExpiryMarker} {
		if value == deletionValue(reason, object.GetResourceVersion()) {
			return deletionOf(reason)
		}
	}
	switch value {
	case deletionValue(DeleteVanished, object.GetResourceVersion()):
		return deletionOf(DeleteVanished)
	case deletionValue(expiredByAge, object.GetResourceVersion()):
		return deletionOf(expiredByAge)
	}
	return Deletion{}
}

func deletionOf(reason DeleteReason) Deletion {
	switch reason {
	case DeleteMarker, PurgeMarker, ExpiryMarker:
		return Deletion{Evidenced: true, Reason: reason}
	case expiredByAge:
		return Deletion{Reason: ExpiryMarker}
	}
	return Deletion{Reason: reason}
}

// ForgetDelete removes what DeleteOf reads. Call it on a copy of the object that a delete handler received: all
// handlers share the object itself.
func ForgetDelete(object metav1.Object) {
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, deletionAnnotation)
	if len(annotations) == 0 {
		annotations = nil
	}
	object.SetAnnotations(annotations)
}

func deletionValue(reason DeleteReason, resourceVersion string) string {
	return string(reason) + "@" + resourceVersion
}

// deleted is the object a delete handler receives: a copy of the last known one, at the revision of the delete.
func deleted(last runtime.Object, reason DeleteReason, revision uint64) runtime.Object {
	gone := last.DeepCopyObject()
	object, err := meta.Accessor(gone)
	if err != nil {
		return gone // cannot be: it was accepted when it was decoded
	}
	version := formatVersion(revision)
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[deletionAnnotation] = deletionValue(reason, version)
	object.SetAnnotations(annotations)
	object.SetResourceVersion(version)
	return gone
}
