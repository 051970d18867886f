package kubewrites

import (
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// stamps are where an object carries a revision of its owner, and who wrote it. Neither is a reason to apply.
var stamps = fieldpath.NewSet(
	fieldpath.MakePathOrDie("metadata", "annotations", entity.OwnerRevisionAnnotation),
	fieldpath.MakePathOrDie("metadata", "annotations", entity.OwnerStatusBucketAnnotation),
)

// FieldsOf returns the fields that a manager applied, without the stamps; nil if there are none.
func FieldsOf(obj metav1.Object, manager string, version schema.GroupVersion) *fieldpath.Set {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply &&
			entry.Subresource == "" && entry.APIVersion == version.String() && entry.FieldsV1 != nil {
			set := &fieldpath.Set{}
			if set.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
				return nil
			}
			return set.Difference(stamps)
		}
	}
	return nil
}
