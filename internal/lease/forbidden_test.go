package lease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// forbid is a server that denies.
func forbid(context.Context, func() reply) reply {
	return reply{err: apierrors.NewForbidden(resource, "lease", errors.New("denied"))}
}

// TestThatTheLeaseMayNotBeWrittenStaysReported while it can be read, until it may be written.
func TestThatTheLeaseMayNotBeWrittenStaysReported(t *testing.T) {
	reads := delayed(latency, latency)
	working := func(err error) bool { return err == nil }
	inBubble(t, func(t *testing.T, k *key) {
		first := k.join("first")
		first.use(reads, forbid)
		first.run(t)
		after(10 * latency)
		first.reported() // a read before the first write
		for range 2 {    // as a candidate, and as the holder
			after(time.Minute)
			if got := first.reported(); len(got) < 4 || slices.ContainsFunc(got, working) {
				t.Errorf("reported %v", got)
			}
			first.heal()
			after(2 * usual.RetryPeriod * 2)
			if got := first.reported(); !first.leads() || !working(got[len(got)-1]) {
				t.Errorf("then reported %v", got)
			}
			first.use(reads, forbid)
			after(2 * usual.RetryPeriod)
			first.reported()
		}
		second := k.join("second").run(t)
		after(time.Minute)
		if got := first.reported(); !second.leads() || !working(got[len(got)-1]) {
			t.Errorf("while another holds the lease: reported %v", got)
		}
	})
}
