package record

import (
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SameWarnings reports whether conditions say what there is to warn about in a document, at whichever revision. Where
// there is no document that decodes, they stay what they are.
func SameWarnings(conditions []metav1.Condition, v source.View) bool {
	if v.Object == nil {
		return true
	}
	have := meta.FindStatusCondition(conditions, entity.ConditionDocumentWarnings)
	if have == nil || v.Warned == nil {
		return have == nil && v.Warned == nil
	}
	return have.Status == metav1.ConditionTrue && have.Reason == v.Warned.Reason && have.Message == v.Warned.Message
}

// setWarnings writes them down, or takes them away.
func setWarnings(record *entity.Record, v source.View) {
	switch {
	case v.Object == nil:
	case v.Warned == nil:
		meta.RemoveStatusCondition(&record.Conditions, entity.ConditionDocumentWarnings)
	default:
		meta.SetStatusCondition(&record.Conditions, metav1.Condition{
			Type: entity.ConditionDocumentWarnings, Status: metav1.ConditionTrue,
			Reason: v.Warned.Reason, Message: v.Warned.Message,
			ObservedGeneration: int64(v.Revision), LastTransitionTime: metav1.NewTime(time.Now()),
		})
	}
}
