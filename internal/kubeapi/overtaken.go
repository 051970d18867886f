package kubeapi

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Overtaken reports whether a write failed because the object is not what it was taken for.
func Overtaken(err error) bool {
	switch {
	case apierrors.IsConflict(err):
		return !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
	case apierrors.IsAlreadyExists(err):
		return true
	case apierrors.IsNotFound(err):
		return !WrongPath(err) && !MissingNamespace(err)
	case apierrors.IsInvalid(err):
		// Another object has the name by now, so the uid would change.
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Details == nil {
			return false
		}
		for _, cause := range status.Status().Details.Causes {
			if cause.Field == "metadata.uid" {
				return true
			}
		}
	}
	return false
}
