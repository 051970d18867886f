package controller

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GenerationChanged drops the updates of an object whose spec stays as it is: those of labels, annotations and status
// alone. What has no spec, such as a ConfigMap, is compared apart from its metadata and status, and so are documents
// in NATS, whose generation is their sequence in the stream. Where Kubernetes counts generations, an equal one is an
// unchanged object. Of a client with OnlyMetadata the hash of the document counts; where an informer of Kubernetes
// keeps nothing but metadata, each write does. What a transform has taken out of an object is not compared. Creations
// and deletions pass, and so does an object that begins to be deleted, or that was deleted and created anew between two
// looks of the informer.
//
// A controller that reads labels or annotations takes Or(GenerationChanged(), LabelsChanged()). One that takes its
// secondaries from a label or annotation that names the owner misses an owner that changes.
func GenerationChanged() Predicate { return changed(generationDiffers) }

// LabelsChanged drops the updates of an object whose labels stay as they are.
func LabelsChanged() Predicate {
	return changed(func(before, after metav1.Object) bool { return !maps.Equal(before.GetLabels(), after.GetLabels()) })
}

// AnnotationsChanged drops the updates of an object whose annotations stay as they are.
func AnnotationsChanged() Predicate {
	return changed(func(before, after metav1.Object) bool {
		return !maps.Equal(written(before.GetAnnotations()), written(after.GetAnnotations()))
	})
}

// written are the annotations of an object without those that say something about its document.
func written(annotations map[string]string) map[string]string {
	_, expires := annotations[entity.ExpiresAnnotation]
	if _, hashed := annotations[hashOfDocument]; !hashed && !expires {
		return annotations
	}
	annotations = maps.Clone(annotations)
	delete(annotations, hashOfDocument)
	delete(annotations, entity.ExpiresAnnotation)
	return annotations
}

// ResourceVersionChanged drops updates in which nothing was written, such as those of the resync of a Kubernetes
// informer. A status in NATS is beside its document, so its resource version moves with the document alone: the
// predicate drops the updates of such a status.
func ResourceVersionChanged() Predicate {
	return changed(func(before, after metav1.Object) bool {
		return before.GetResourceVersion() != after.GetResourceVersion() || madeAnew(before, after)
	})
}

// changed looks at updates only.
func changed(differ func(before, after metav1.Object) bool) Predicate {
	return PredicateFuncs{UpdateFunc: differ}
}

func madeAnew(before, after metav1.Object) bool { return before.GetUID() != after.GetUID() }

func generationDiffers(before, after metav1.Object) bool {
	switch generation := after.GetGeneration(); {
	case before == after:
		return false
	case madeAnew(before, after), before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero():
		return true
	case generation != 0 && generation == before.GetGeneration() &&
		strconv.FormatInt(generation, 10) != after.GetResourceVersion():
		return false // an API server has counted. The sequence of a document may be the same in the next stream.
	}
	return wantsOther(before, after)
}

// wantsOther compares what objects say apart from their metadata and status, as JSON: that is what is written of them.
func wantsOther(before, after metav1.Object) bool {
	if entity.IsTransformed(before) && entity.IsTransformed(after) {
		was, is := before.GetAnnotations()[hashOfDocument], after.GetAnnotations()[hashOfDocument]
		if was != "" && is != "" {
			return was != is
		}
	}
	return wantedOther(before, after)
}

const hashOfDocument = entity.DocumentHashAnnotation

func wantedOther(before, after metav1.Object) bool {
	was, err := wanted(before)
	if err != nil {
		return true // a superfluous reconcile is harmless
	}
	is, err := wanted(after)
	if len(was) == 0 && len(is) == 0 {
		return before.GetResourceVersion() != after.GetResourceVersion() // an informer of metadata shows no more
	}
	return err != nil || !maps.EqualFunc(was, is, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

func wanted(obj metav1.Object) (map[string]json.RawMessage, error) {
	document, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		return nil, err
	}
	for _, name := range []string{"kind", "apiVersion", "metadata", "status"} {
		delete(members, name)
	}
	return members, nil
}
