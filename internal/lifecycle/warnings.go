package lifecycle

import (
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"golang.org/x/time/rate"
)

// warnings records events about what there is to warn about in documents. It records one for each set of warnings of a
// key, because the record keeps the set; and as many as there are lines about invalid documents, because who may write
// documents can write any number. The record has what is left out.
type warnings struct {
	once    sync.Once
	limiter *rate.Limiter
}

func (w *warnings) allow() bool {
	w.once.Do(func() { w.limiter = rate.NewLimiter(printable.LinesPerSecond, printable.LinesAtOnce) })
	return w.limiter.Allow()
}

// warnsAnew reports whether there is something else to warn about than the record says.
func warnsAnew(before *entity.Record, v source.View) bool {
	return !record.SameWarnings(before.Conditions, v)
}

// tell records the event once the record has the warnings.
func (w *outcomeWrite) tell() {
	if w.warnsAnew && w.view.Warned != nil && w.warnings.allow() {
		w.Warn(w.it.Key, entity.ConditionDocumentWarnings, w.view.Warned.Message)
	}
}
