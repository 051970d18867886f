package lifecycle

import (
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// warnsAnew reports whether there is something else to warn about in a document than the record says.
func warnsAnew(before *entity.Record, v source.View) bool {
	return !record.SameWarnings(before.Conditions, v)
}

// tell records an event about what there is to warn about, once the record has it: one for each set of warnings of a
// key, because the record keeps the set; and as many as there are lines about invalid documents, because who may write
// documents can write any number. The record has what is left out.
func (w *outcomeWrite) tell() {
	if w.warnsAnew && w.view.Warned != nil && w.warnings.Allow() {
		w.Warn(w.it.Key, entity.ConditionDocumentWarnings, w.view.Warned.Message)
	}
}
