package controller

import (
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BeingDeletedError says that a Kubernetes object that was written outside of a reconcile is being deleted, so that
// what was written of it will not last. Inside a reconcile it is no error: the primary waits until the object is gone.
type BeingDeletedError struct {
	Resource   schema.GroupVersionResource
	Key        string   // of the object: "name" or "namespace/name"
	Finalizers []string // what it waits for
}

// Error names the object and its finalizers.
func (e *BeingDeletedError) Error() string {
	message := fmt.Sprintf("the object %q of %s is being deleted; write it again when it is gone",
		e.Key, kubeerrors.ResourceName(e.Resource))
	if len(e.Finalizers) == 0 {
		return message
	}
	return message + ", which waits for the finalizers " + strings.Join(e.Finalizers, ", ")
}
