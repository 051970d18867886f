// Package kubeapi tells the errors of a Kubernetes API server apart and explains them, and says which rights requests
// need.
//
// The rule: an error says what was being done, to which object, and what to do about it. A request that got no answer
// is told from one that was refused: its key is due again when that [Server] answers.
package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ResourceName names a resource as kubectl does: "deployments.apps/v1".
func ResourceName(r schema.GroupVersionResource) string {
	return r.GroupResource().String() + "/" + r.Version
}

// Explain wraps err, an error of the API server, and says what was being done to the object of that key, and the advice
// for it. key may be empty. It returns nil for nil.
func Explain(doing string, resource schema.GroupVersionResource, key string, err error) error {
	if err == nil {
		return nil
	}
	what := doing + " " + ResourceName(resource)
	if key != "" {
		what += fmt.Sprintf(" %q", key)
	}
	advice := Advice(err)
	if key != "" && (WrongPath(err) || apierrors.IsMethodNotSupported(err)) {
		advice = otherScope(key) + advice
	}
	if advice != "" {
		return fmt.Errorf("%s: %w (%s)", what, err, advice)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// otherScope is the advice for an object of that key whose resource is not where the key says.
func otherScope(key string) string {
	if strings.Contains(key, "/") {
		return "take the namespace off the object if its resource has none; else "
	}
	return "give the object a namespace if its resource has namespaces; else "
}

// namespaceTerminating is NamespaceTerminatingCause of k8s.io/api/core/v1, which is too large to import for it.
const namespaceTerminating metav1.CauseType = "NamespaceTerminating"

// Advice says what to do about an error of the API server; "" if nothing more is known than what err says.
func Advice(err error) string {
	switch {
	case WrongPath(err):
		return "the API server does not have this resource: " +
			"install its CustomResourceDefinition, or mend group, version and resource"
	case apierrors.IsMethodNotSupported(err):
		return "the API server does not allow this for the resource"
	case apierrors.IsNotFound(err) && MissingNamespace(err):
		return "create the namespace"
	case apierrors.HasStatusCause(err, namespaceTerminating):
		return "the namespace is being deleted: nothing can be created in it until it is gone and made again; " +
			"delete the primary, or wait"
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
	case Unanswered(err) && errors.Is(err, context.DeadlineExceeded):
		return "the API server did not answer in time; it is tried again"
	case Unanswered(err):
		return "the API server cannot be reached; it is tried again"
	}
	return ""
}

// UnknownResource reports whether err is the 404 of a path that the API server does not have, and not that of an
// object: only the former has no status of its own, so client-go makes one for it.
func UnknownResource(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// WrongPath reports whether err is the 404 of a request for an object that the API server took for something else: its
// resource is not there, or its namespace lacks or does not belong. The 404 of an object names that object.
func WrongPath(err error) bool {
	var status apierrors.APIStatus
	return UnknownResource(err) || apierrors.IsNotFound(err) && errors.As(err, &status) &&
		(status.Status().Details == nil || status.Status().Details.Name == "")
}

// MissingNamespace reports whether err names a namespace that does not exist.
func MissingNamespace(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}
