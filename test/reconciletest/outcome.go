package reconciletest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrNotReconciled says that the reconciler was not called, as a controller would not have called it. The text says
// why: the document is invalid or suspended, the key is parked, or there is nothing to do for it.
var ErrNotReconciled = errors.New("the reconciler was not called")

// Outcome is what came of one reconcile.
type Outcome[T entity.IEntity] struct {
	// Result is what the reconciler returned. Where something that it called waits, such as external.Reconcile or a
	// prune, RequeueAfter is when the key is looked at again.
	Result controller.Result
	// Err is the reconciler's error, a panic as an error, an error of what the engine does around it (ErrNotReconciled,
	// a record that cannot be written, a cascade that failed), or nil.
	Err error
	// Status is the primary with the status that SetStatus was given, as it was written to the record. It is nil where
	// SetStatus was not called, and where there is no record to write it to: in a teardown, and WithoutTeardown.
	Status T
	// Condition is the condition of type Reconciled in the record after the reconcile; zero if there is no record.
	Condition metav1.Condition
	// Events are those that the runtime recorded on the primary, and those that the reconciler recorded with the
	// Recorder that was given to controller.WithEventRecorder, in order.
	Events []Event
	// Written are the documents that have changed in all buckets of the account, in order, and then the Kubernetes
	// objects that the informers of the controller's sources show otherwise, by kind and key. Of several writes to one
	// key it has the last. The status bucket of the primary is left out: Status and Condition tell of it.
	Written []Write
	// TornDown is true if the primary is gone, its teardown is done, and nothing is owed.
	TornDown bool

	again bool // the teardown goes on by itself
}

// Event is an event as it was recorded.
type Event struct {
	Kind, Key string // of the object
	Type      string // "Normal" or "Warning"
	Reason    string
	Message   string
}

// String is the event in one line: "Warning Terminal Site shop: no such domain".
func (e Event) String() string {
	return fmt.Sprintf("%s %s %s %s: %s", e.Type, e.Reason, e.Kind, e.Key, e.Message)
}

// Change is what a write did to a document or object.
type Change string

// The changes.
const (
	Created Change = "created"
	Updated Change = "updated"
	Deleted Change = "deleted" // in a bucket also: purged
)

// Write is one change of a document in a bucket, or of a Kubernetes object.
type Write struct {
	Change Change
	// Kind is that of the entity or of the Kubernetes object. It is empty in a bucket that is no source of the
	// controller, and in a status bucket.
	Kind string
	// Bucket is where the document is; empty for a Kubernetes object.
	Bucket string
	// Key is client-go's. In a bucket that is no source of the controller it is the key as in NATS.
	Key string
	// Document is the JSON that was written; nil if it was deleted.
	Document []byte
}

// String is the write in one line: "created Page shop.home", or "updated counters/visits" in a bucket without a kind.
func (w Write) String() string {
	if w.Kind == "" {
		return fmt.Sprintf("%s %s/%s", w.Change, w.Bucket, w.Key)
	}
	return fmt.Sprintf("%s %s %s", w.Change, w.Kind, w.Key)
}

// Into decodes the document into obj.
func (w Write) Into(obj any) error {
	if err := json.Unmarshal(w.Document, obj); err != nil {
		return fmt.Errorf("decode what was %v: %w", w, err)
	}
	return nil
}
