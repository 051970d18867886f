package lifecycle

import (
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/apimachinery/pkg/api/meta"
)

// noteUnfinished says in the record why a teardown is not over, for those who wait for its end: it fails, or waits. One
// failure tells nothing, nor does a moment in which the caches do not show yet what was deleted; and where the leader
// was asked in vain, it cannot be told there. What the brake holds changes no record: that may be all keys at once.
func (r *RecordedLife) noteUnfinished(t *Term, key string, o *Outcome) {
	if t.Ctx.Err() != nil || o.Where == beforeTeardown {
		return
	}
	switch o.Verdict {
	case Terminal:
		r.annotateDeleting(t, key, entity.ReasonTerminal, o.Attempt.Err)
	case Failed:
		if r.Keys.Of(key).Failures > 0 {
			r.annotateDeleting(t, key, entity.ReasonRetrying, o.Attempt.Err)
		}
	case Waiting, Succeeded:
		if why := r.teardownWaits(key, o); why != nil {
			r.annotateDeleting(t, key, entity.ReasonRetrying, why)
		}
	}
}

// teardownWaits is what a teardown waits for that has not failed; nil if that is not to be told, or is told elsewhere.
func (r *RecordedLife) teardownWaits(key string, o *Outcome) error {
	switch {
	case o.Verdict == Waiting:
		kind, away := o.Attempt.Waits.Awaits()
		if !away && r.isDeleting(key) { // turns come and go, and each would be a write
			return nil
		}
		return errors.New(awaitsAPI(kind, away))
	case o.Attempt.Requeue > 0:
		return errors.New(record.WaitsFor + "the reconciler, which is not done and asked to be called again")
	case o.Held != nil || o.After < heldPatience: // noteHeld tells of that
		return nil
	case !r.Brake.LetsGo(key):
		return errors.New(record.WaitsFor + "the decision of the brake")
	}
	still, _ := r.Teardown.StillThere(key, 1)
	if len(still) == 0 {
		return errors.New(record.WaitsFor + "what it owned, which is being deleted")
	}
	return fmt.Errorf(record.WaitsFor+"%s, which was deleted and is still there", printable.Text(still[0]))
}

// isDeleting reports whether the record says already that the teardown is not over.
func (r *RecordedLife) isDeleting(key string) bool {
	held := r.Anchors.Cached(key)
	return held != nil && meta.IsStatusConditionTrue(held.Conditions, entity.ConditionDeleting)
}
