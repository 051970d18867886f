package kube

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/kubeapi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ApplyConflictError says that an Apply with WithoutForce would change fields that others manage. Nothing was written.
// apierrors.IsConflict holds for it.
type ApplyConflictError struct {
	Resource  schema.GroupVersionResource
	Key       string
	Conflicts []FieldConflict
	cause     error
}

// FieldConflict names a field and its manager.
type FieldConflict struct {
	Manager string // as the API server names it, as: "kubectl" using apps/v1
	Field   string // as: .spec.replicas
}

// Error names the fields and their managers.
func (e *ApplyConflictError) Error() string {
	fields := make([]string, len(e.Conflicts))
	for i, c := range e.Conflicts {
		fields[i] = c.Field + " is managed by " + c.Manager
	}
	return fmt.Sprintf("apply %s %q: %s; leave these fields away, or apply with force to take them over",
		kubeapi.ResourceName(e.Resource), e.Key, strings.Join(fields, ", "))
}

// Unwrap returns the API server's error.
func (e *ApplyConflictError) Unwrap() error { return e.cause }

// applyConflict returns the conflict of fields in err, if it is one.
func applyConflict(resource schema.GroupVersionResource, key string, err error) *ApplyConflictError {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	conflict := &ApplyConflictError{Resource: resource, Key: key, cause: err}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			manager := strings.TrimPrefix(cause.Message, "conflict with ")
			conflict.Conflicts = append(conflict.Conflicts, FieldConflict{Manager: manager, Field: cause.Field})
		}
	}
	if len(conflict.Conflicts) == 0 {
		return nil
	}
	return conflict
}

func (k *Handle[T]) explain(doing, key string, err error) error {
	return k.watching.NoteUnanswered(kubeapi.Explain(doing, k.resource, key, err))
}
