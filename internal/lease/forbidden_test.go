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

// TestWhatFailsInARenewalIsReportedAsOne: why the write failed stays the reason while the look after it fails for
// another one. They took turns in the log as long as the term lasted.
func TestWhatFailsInARenewalIsReportedAsOne(t *testing.T) {
	unread := func(context.Context, func() reply) reply { return reply{err: errors.New("not read")} }
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		first.reported()
		first.use(unread, forbid)
		after(usual.RenewDeadline)
		got := first.reported()
		other := func(err error) bool { return !apierrors.IsForbidden(err) }
		if len(got) < 4 || slices.ContainsFunc(got, other) {
			t.Errorf("the holder reported %v", got)
		}
		after(time.Minute) // it has lost the lease, and can only look
		if last := lastOf(first.reported()); last == nil || last.Error() != "not read" {
			t.Errorf("then %v was reported", last)
		}
	})
}
