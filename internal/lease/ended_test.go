package lease

import (
	"testing"
	"time"
)

// TestWhoDoesNotApplyAnyMoreReportsNothing: nobody else would take back what was reported last, and a controller that
// waits for the lease of its process is not degraded by its own.
func TestWhoDoesNotApplyAnyMoreReportsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		first.use(lost, lost)
		after(time.Minute)
		if last := lastOf(first.reported()); last == nil {
			t.Fatal("that the lease cannot be reached was not reported")
		}
		first.halt()
		if reports := first.reported(); len(reports) == 0 || lastOf(reports) != nil {
			t.Errorf("at the end %v was reported, want nil last", reports)
		}
	})
}

func lastOf(reports []error) error {
	if len(reports) == 0 {
		return nil
	}
	return reports[len(reports)-1]
}
