package lease

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const thirtyYears = `{"holderIdentity":"crashed","leaseDurationSeconds":946080000}`

func TestARecordThatAsksForThirtyYearsIsBelievedForAnHour(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.put(thirtyYears)
		began := time.Now()
		second := k.join("second").run(t)
		after(LongestDuration - time.Nanosecond)
		if len(second.served()) != 0 {
			t.Fatalf("taken after %v", second.last(t).began.Sub(began))
		}
		after(10 * time.Second)
		if !second.leads() {
			t.Error("not taken an hour and some tries later")
		}
	})
}

func TestAStandbyTellsWhoHoldsALeaseThatIsNotRenewedAndUntilWhen(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.put(thirtyYears)
		second := k.join("second").run(t)
		after(usual.Duration - time.Nanosecond)
		if got := second.reported(); slices.ContainsFunc(got, func(err error) bool { return err != nil }) {
			t.Errorf("told before a holder with this timing would have been overtaken: %v", got)
		}
		after(10 * time.Second)
		got := second.reported()
		err := got[len(got)-1]
		if !errors.Is(err, ErrNotRenewed) {
			t.Fatalf("reported %v", got)
		}
		for _, want := range []string{`"crashed"`, "946080000 s", "1h0m0s", "takes it at 2000-01-01T01:00:00Z",
			"nats kv put bucket lease"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
		after(LongestDuration)
		if got := second.reported(); got[len(got)-1] != nil || !second.leads() {
			t.Errorf("it leads, and the last report is %v", got[len(got)-1])
		}
	})
}

// TestAStandbyTellsThatNoReplicaHoldsTheLease from when it is gone until it takes it, however often it is deleted.
func TestAStandbyTellsThatNoReplicaHoldsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.put(`{"holderIdentity":"crashed","leaseDurationSeconds":15}`)
		second := k.join("second").run(t)
		after(time.Second)
		told := func() error { got := second.reported(); return got[len(got)-1] }
		for range 4 {
			k.remove()
			after(6 * time.Second)
			if err := told(); !errors.Is(err, ErrNoHolder) || !strings.Contains(err.Error(), "nats kv put bucket lease") {
				t.Errorf("reported %v", err)
			}
		}
		after(usual.Duration + 3*time.Second)
		if !second.leads() || told() != nil {
			t.Errorf("it leads: %v, and the last report is %v", second.leads(), told())
		}
	})
}

// TestAFreeLeaseOfABackupIsNotTakenAtOnce by who knows of a holder at a higher revision, which may work on.
func TestAFreeLeaseOfABackupIsNotTakenAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		for range 9 {
			k.put(`{"holderIdentity":"works","leaseDurationSeconds":15}`)
		}
		second := k.join("second").run(t)
		after(time.Second)
		k.restore(3, `{"holderIdentity":"","leaseDurationSeconds":1,"renewTime":"1999-12-31T23:00:00Z"}`)
		after(usual.Duration - time.Second)
		if second.leads() {
			t.Error("it leads beside the holder, which has not noticed")
		}
		if err := lastOf(second.reported()); !errors.Is(err, ErrNoHolder) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("reported %v", err)
		}
		after(4 * usual.RetryPeriod)
		if !second.leads() {
			t.Error("it does not lead when that holder's term is over")
		}
		second.halt()
		third := k.join("third").run(t)
		after(4 * usual.RetryPeriod)
		if !third.leads() {
			t.Error("a lease that was given back is not taken at once")
		}
		fourth := k.join("fourth").run(t)
		after(time.Second)
		third.halt()
		k.restore(1, `{"holderIdentity":"","leaseDurationSeconds":1}`)
		after(4 * usual.RetryPeriod)
		if !fourth.leads() {
			t.Error("a lease that an operator has freed is not taken at once")
		}
	})
}

func TestAHolderThatRenewsIsNotOvertakenHoweverLongItsRecordAsksFor(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.put(thirtyYears)
		second := k.join("second").run(t)
		for range 5 {
			after(LongestDuration - time.Second)
			k.put(thirtyYears) // renewed
		}
		if len(second.served()) != 0 {
			t.Error("a holder that lives was overtaken")
		}
	})
}

func TestAStandbyTellsThatTheHolderRunsOtherControllers(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := k.join("first")
		first.runs = []string{"pages", "sites"}
		first.run(t)
		after(time.Second)
		same, other, unnamed := k.join("same"), k.join("other"), k.join("unnamed")
		same.runs, other.runs = first.runs, []string{"billing"}
		for _, r := range []*replica{same, other, unnamed} {
			r.run(t)
		}
		after(10 * time.Second)
		for _, r := range []*replica{same, unnamed} {
			if got := r.reported(); slices.ContainsFunc(got, func(err error) bool { return err != nil }) {
				t.Errorf("%s reported %v", r.id, got)
			}
		}
		got := other.reported()
		err := got[len(got)-1]
		if !errors.Is(err, ErrOtherControllers) || !strings.Contains(err.Error(), `only here ["billing"]`) ||
			!strings.Contains(err.Error(), `only there ["pages" "sites"]`) || !strings.Contains(err.Error(), `"first"`) {
			t.Errorf("the other one reported %v", err)
		}
		same.halt()
		unnamed.halt()
		first.halt()
		after(10 * time.Second)
		if got := other.reported(); !other.leads() || got[len(got)-1] != nil {
			t.Errorf("it leads, and the last report is %v", got[len(got)-1])
		}
		if names := k.record(t).Controllers; !slices.Equal(names, other.runs) {
			t.Errorf("the record names %q", names)
		}
	})
}

// TestALeaseThatAnEarlierVersionHoldsTellsNothingOfControllers: old and new replicas take turns.
func TestALeaseThatAnEarlierVersionHoldsTellsNothingOfControllers(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.put(`{"holderIdentity":"old","leaseDurationSeconds":15}`)
		second := k.join("second")
		second.runs = []string{"sites"}
		second.run(t)
		after(10 * time.Second)
		if got := second.reported(); slices.ContainsFunc(got, func(err error) bool { return err != nil }) {
			t.Errorf("reported %v", got)
		}
	})
}
