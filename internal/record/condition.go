package record

import (
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/foreign"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitsFor begins the messages of conditions that tell what a key waits for.
const WaitsFor = "waits for "

// Condition is the condition of type Reconciled. A long message is cut, which keeps records small.
func Condition(status metav1.ConditionStatus, reason, message string, revision uint64) metav1.Condition {
	return metav1.Condition{
		Type: entity.ConditionReconciled, Status: status, Reason: reason, Message: foreign.Message(message),
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

func setCondition(record *entity.Record, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(time.Now())
	meta.SetStatusCondition(&record.Conditions, condition)
}
