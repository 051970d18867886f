package follow

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// document is a Document in a store, under the key of NATS.
type document struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	in         string // the namespace that the document names
	revision   uint64
	written    time.Time
	unreadable bool
}

// DeepCopyObject returns a shallow copy. The informer gives that of a document that is deleted another revision and
// annotations of its own; nothing else is ever changed.
func (d *document) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }

// keptAnnotations are those that say whose a document is, and what becomes of it.
var keptAnnotations = []string{
	entity.OwnerKindAnnotation, entity.OwnerKeyAnnotation, entity.OwnerInstanceAnnotation,
	entity.OwnerStatusBucketAnnotation, entity.SuspendAnnotation, entity.DeletionPolicyAnnotation,
}

// decodeDocument takes any value: what is no document is shown as one that cannot be read.
func decodeDocument(e natsinformer.Entry) (runtime.Object, error) {
	d := &document{revision: e.Revision, written: e.Created}
	var read struct {
		Metadata struct {
			Namespace   string            `json:"namespace"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(e.Value, &read); err != nil {
		d.unreadable = true
	} else {
		d.in, d.Labels = read.Metadata.Namespace, read.Metadata.Labels
		for _, name := range keptAnnotations {
			if value := read.Metadata.Annotations[name]; value != "" {
				if d.Annotations == nil {
					d.Annotations = map[string]string{}
				}
				d.Annotations[name] = value
			}
		}
	}
	d.Name = e.Key
	return d, nil
}

func indexByOwner(obj any) ([]string, error) {
	d, ok := obj.(*document)
	if !ok {
		return nil, nil
	}
	if value := entity.OwnerIndexValueOf(d); value != "" {
		return []string{value}, nil
	}
	return nil, nil
}

// State is what a record says of its primary.
type State struct {
	Phase   entity.Phase
	Message string // of the condition Reconciled, if that is not True
	// Since is when that condition changed last, and FirstSeen when a controller saw the primary first; zero if the
	// record does not say.
	Since, FirstSeen time.Time
	// Observed is the revision that was reconciled last, with success.
	Observed   uint64
	Controller string
	Unreadable bool
	Revision   uint64 // of the record
}

// OK reports whether the controller is done with it, or about to begin.
func (s *State) OK() bool {
	return s != nil && !s.Unreadable && (s.Phase == entity.PhaseSynced || s.Phase == entity.PhasePending)
}

type record struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	State
}

// DeepCopyObject returns a shallow copy, as that of a document does.
func (r *record) DeepCopyObject() runtime.Object { shallow := *r; return &shallow }

var errReserved = errors.New("a key of the controller's own")

func decodeRecord(e natsinformer.Entry) (runtime.Object, error) {
	if strings.HasPrefix(e.Key, entity.ReservedPrefix) {
		return nil, errReserved
	}
	r := &record{ObjectMeta: metav1.ObjectMeta{Name: e.Key}, State: StateOf(e.Value)}
	r.Revision = e.Revision
	return r, nil
}

// StateOf reads a record as its bucket has it.
func StateOf(value []byte) State {
	var rec entity.Record
	if err := json.Unmarshal(value, &rec); err != nil {
		return State{Phase: entity.PhaseUnknown, Message: "the record cannot be read", Unreadable: true}
	}
	s := State{
		Phase: rec.Phase(), FirstSeen: rec.FirstSeen, Observed: rec.ObservedRevision, Controller: rec.Controller,
	}
	if c := meta.FindStatusCondition(rec.Conditions, entity.ConditionReconciled); c != nil {
		s.Since = c.LastTransitionTime.Time
		if c.Status != metav1.ConditionTrue {
			s.Message = c.Message
		}
	}
	return s
}
