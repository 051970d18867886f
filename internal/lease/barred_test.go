package lease

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

var errMembers = errors.New("members work")

// TestAReplicaThatIsBarredDoesNotTakeTheLease, says why, and takes it once it is not.
func TestAReplicaThatIsBarredDoesNotTakeTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		var free atomic.Bool
		r := k.join("r")
		r.barred = func() (why, err error) {
			if free.Load() {
				return nil, nil
			}
			return errMembers, nil
		}
		r.run(t)
		after(time.Minute)
		if len(r.served()) != 0 || slices.Contains(r.requests(), "store") || !slices.Contains(r.reported(), errMembers) {
			t.Fatalf("terms %+v", r.served())
		}
		free.Store(true)
		after(3 * usual.RetryPeriod)
		if reports := r.reported(); !r.leads() || reports[len(reports)-1] != nil {
			t.Errorf("terms %+v, reports %v", r.served(), reports)
		}
	})
}

// TestAReplicaThatIsBarredOnceItHasTheLeaseGivesItBack: what bars it came between its look and its write.
func TestAReplicaThatIsBarredOnceItHasTheLeaseGivesItBack(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		r, asked := k.join("r"), 0
		r.barred = func() (why, err error) {
			if asked++; asked == 2 {
				return errMembers, nil
			}
			return nil, nil
		}
		r.run(t)
		after(time.Second)
		if got, at := k.record(t), k.load().revision; len(r.served()) != 0 || got.HolderIdentity != "" || at != 2 {
			t.Errorf("terms %+v, the record is %+v after %d writes", r.served(), got, at)
		}
		after(3 * usual.RetryPeriod)
		if !r.leads() || len(r.served()) != 1 {
			t.Errorf("terms %+v", r.served())
		}
	})
}

// TestTheRecordTellsWhetherItsHolderWorksAlone.
func TestTheRecordTellsWhetherItsHolderWorksAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		heldAlone := func() string {
			holder, err := HeldAlone(k.load().value)
			if err != nil {
				t.Error(err)
			}
			return holder
		}
		alone := firstLeads(t, k)
		if got := heldAlone(); got != "first" {
			t.Errorf("held alone by %q", got)
		}
		alone.halt()
		if got := heldAlone(); got != "" {
			t.Errorf("given back, and held alone by %q", got)
		}
		shared := k.join("second")
		shared.shards = 1024
		shared.run(t)
		after(time.Second)
		if got := heldAlone(); got != "" || !shared.leads() {
			t.Errorf("held by one that shares, and alone by %q", got)
		}
		if _, err := HeldAlone([]byte("+OK")); err == nil {
			t.Error("of what is no record it says something")
		}
	})
}

// TestAReplicaThatCannotLookWhatBarsItWaits, and tells that as it tells of the lease: once in an outage, and not where it
// is stopped.
func TestAReplicaThatCannotLookWhatBarsItWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		var answers atomic.Pointer[error]
		r := k.join("r")
		r.barred = func() (why, err error) { return nil, *answers.Load() }
		for _, unanswered := range []error{context.DeadlineExceeded, context.Canceled} {
			answers.Store(&unanswered)
			if r.stop == nil {
				r.run(t)
			}
			after(time.Minute)
			told := errors.Is(unanswered, context.DeadlineExceeded)
			if reports := r.reported(); len(r.served()) != 0 || slices.ContainsFunc(reports, func(err error) bool {
				return errors.Is(err, context.Canceled)
			}) || told != (len(reports) > 0) {
				t.Errorf("after %v: terms %+v, reports %v", unanswered, r.served(), reports)
			}
		}
		none := error(nil)
		answers.Store(&none)
		after(3 * usual.RetryPeriod)
		if !r.leads() {
			t.Errorf("terms %+v", r.served())
		}
	})
}
