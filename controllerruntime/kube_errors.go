package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ApplyConflictError says that an Apply WithoutForce would change fields that others manage. Nothing was written.
// apierrors.IsConflict holds for it.
type ApplyConflictError struct {
	Resource  schema.GroupVersionResource
	Key       string
	Conflicts []FieldConflict
	cause     error
}

// FieldConflict is a field and who manages it.
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
		resourceName(e.Resource), e.Key, strings.Join(fields, ", "))
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

func (k *Kube[T]) explain(doing, key string, err error) error {
	return k.watching.noteUnanswered(explainKube(doing, k.resource, key, err))
}

// noAnswer tells whether an error is of the way to the API server and not of it, or of the time that has passed. Maybe it is
// away; maybe only this request was lost, or its deadline is one of the reconcile's own: whoever needs to know asks it.
func noAnswer(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport) && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && !errors.Is(err, context.Canceled)
}

// unansweredError marks an unanswered request with the informer of its source.
type unansweredError struct {
	error
	by *watchErrors
}

func (e *unansweredError) Unwrap() error { return e.error }

// explainKube says what was being done, and what to do about an error of the API server, which it wraps.
func explainKube(doing string, resource schema.GroupVersionResource, key string, err error) error {
	if err == nil {
		return nil
	}
	what := doing + " " + resourceName(resource)
	if key != "" {
		what += fmt.Sprintf(" %q", key)
	}
	advice := kubeAdvice(err)
	if key != "" && !strings.Contains(key, "/") && (unknownResource(err) || apierrors.IsMethodNotSupported(err)) {
		advice = "if the resource is namespaced, the object lacks its namespace; else " + advice
	}
	if advice != "" {
		return fmt.Errorf("%s: %w (%s)", what, err, advice)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func kubeAdvice(err error) string {
	switch {
	case unknownResource(err):
		return "the API server does not have this resource: install its CustomResourceDefinition, or mend group, version and resource"
	case apierrors.IsMethodNotSupported(err):
		return "the API server does not allow this for the resource"
	case apierrors.IsNotFound(err) && missingNamespace(err):
		return "create the namespace"
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "the namespace is being deleted: nothing can be created in it until it is gone and made again; delete the primary, or wait"
	case strings.Contains(err.Error(), "denied request") || strings.Contains(err.Error(), "denied the request"):
		return "an admission policy or webhook refuses it: change the object, or the policy"
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot "):
		return "grant the verb to this user in a Role or ClusterRole"
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept the credentials"
	case apierrors.IsInvalid(err):
		return "the API server does not accept the object: mend the field that it names"
	case apierrors.IsConflict(err):
		return "it has changed since it was read; the next try sees what it is now"
	case noAnswer(err) && errors.Is(err, context.DeadlineExceeded):
		return "the API server did not answer in time; it is tried again"
	case noAnswer(err):
		return "the API server cannot be reached; it is tried again"
	}
	return ""
}

// unknownResource tells the 404 of a path that the API server does not have from that of an object: only the former has
// no status of its own, so client-go makes one of it.
func unknownResource(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func missingNamespace(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}
