package record

import (
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitsFor begins the messages of conditions that tell what a key waits for.
const WaitsFor = "waits for "

// Condition is the condition of type Reconciled. A long message is cut, which keeps records small.
func Condition(status metav1.ConditionStatus, reason, message string, revision uint64) metav1.Condition {
	return metav1.Condition{
		Type: entity.ConditionReconciled, Status: status, Reason: reason, Message: printable.Message(message),
		ObservedGeneration: int64(revision),
	}
}

// sameCondition tells whether there is no transition to write. The message of a retry may change with each attempt: it
// is written with the transition only, or a failing key would write without end. What a key waits for does not change.
func sameCondition(conditions []metav1.Condition, want metav1.Condition) bool {
	have := meta.FindStatusCondition(conditions, entity.ConditionReconciled)
	if have == nil || have.Status != want.Status || have.Reason != want.Reason {
		return false
	}
	if strings.HasPrefix(have.Message, WaitsFor) || strings.HasPrefix(want.Message, WaitsFor) {
		return have.ObservedGeneration == want.ObservedGeneration && have.Message == want.Message
	}
	return want.Reason == entity.ReasonSynced || have.ObservedGeneration == want.ObservedGeneration
}

// setCondition sets the condition, and ends what an earlier one said besides.
func setCondition(record *entity.Record, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(time.Now())
	meta.SetStatusCondition(&record.Conditions, condition)
	meta.RemoveStatusCondition(&record.Conditions, entity.ConditionDeleting)
	record.Invalid = nil
}

// setDeleting says that the condition is about the teardown of a primary that is gone.
func setDeleting(record *entity.Record, condition metav1.Condition) {
	condition.Type, condition.Status = entity.ConditionDeleting, metav1.ConditionTrue
	condition.LastTransitionTime = metav1.NewTime(time.Now())
	meta.SetStatusCondition(&record.Conditions, condition)
}

// noted tells whether a record has the note already. Of another stream even the same revision is another one.
func noted(record *entity.Record, n Note, stream string) bool {
	if !sameCondition(record.Conditions, n.Condition) ||
		n.Deleting != meta.IsStatusConditionTrue(record.Conditions, entity.ConditionDeleting) {
		return false
	}
	about := record.Stream
	if record.Invalid != nil {
		about = record.Invalid.Stream
	}
	// Earlier versions did not say which stream a note without an anchor is about.
	return about == stream || about == "" || IsAnchor(record) && n.Invalid == nil
}

// take gives a record the condition of another one, or none if that has none.
func take(record, from *entity.Record, conditionType string) {
	meta.RemoveStatusCondition(&record.Conditions, conditionType)
	if have := meta.FindStatusCondition(from.Conditions, conditionType); have != nil {
		meta.SetStatusCondition(&record.Conditions, *have)
	}
}
