package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble runs a test on a clock of its own.
func inBubble(t *testing.T, f func(t *testing.T, k *key)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &key{}) })
}

// after lets this much time pass, and everything happen that is due by then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// firstLeads starts a replica, and returns when it leads.
func firstLeads(t *testing.T, k *key) *replica {
	t.Helper()
	r := k.join("first").run(t)
	after(10 * latency)
	if !r.leads() {
		t.Fatal("the first does not lead")
	}
	return r
}

func wantEnded(t *testing.T, r *replica, at time.Time, cause error) {
	t.Helper()
	term := r.last(t)
	if !term.ended.Equal(at) || !errors.Is(term.cause, cause) {
		t.Errorf("the term of %s ended at %v with %v, want at %v with %v", r.id, term.ended, term.cause, at, cause)
	}
	if !term.Over() {
		t.Errorf("the term of %s is not over", r.id)
	}
}

func TestOneReplicaLeadsAndTheOthersWait(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		second, third := k.join("second").run(t), k.join("third").run(t)
		after(10 * time.Minute)
		if len(first.served()) != 1 || !first.leads() || first.last(t).Over() {
			t.Errorf("terms of the first: %+v", first.served())
		}
		if n := len(second.served()) + len(third.served()); n != 0 {
			t.Errorf("%d terms of the others", n)
		}
	})
}

func TestATermTellsTheRevisionWithWhichItBegan(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.put(`{"holderIdentity":"","leaseDurationSeconds":1}`)
		first := firstLeads(t, k)
		after(time.Minute)
		if got := first.last(t).Revision; got != 2 {
			t.Errorf("revision %d, want 2: that of the first write, not of a renewal", got)
		}
	})
}

func TestTheHolderRenewsEveryRetryPeriodWithOneRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		first.requests()
		after(time.Minute)
		got := first.requests()
		if len(got) != 30 || slices.Contains(got, "load") {
			t.Errorf("%d requests in a minute, want 30 writes: %v", len(got), got)
		}
	})
}

func TestReplicasThatWaitLookEveryRetryPeriodWithJitter(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		firstLeads(t, k)
		second := k.join("second").run(t)
		after(time.Hour)
		got := second.requests()
		if n := len(got); n < 1100 || n > 1150 || slices.Contains(got, "store") { // 3600 s / 3.2 s
			t.Errorf("%d requests in an hour, want about 1125 reads", n)
		}
		if a, b := usual.retry(0), usual.retry(1); a != 2*time.Second || b != 4400*time.Millisecond {
			t.Errorf("pauses from %v to %v, want 2 s to 4.4 s", a, b)
		}
	})
}

func TestALeaseThatIsNotRenewedEndsTheTermBeforeAnotherBegins(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		second := k.join("second").run(t)
		first.use(lost, lost)
		after(time.Minute)
		sent := first.last(t).Term.began
		wantEnded(t, first, sent.Add(12*time.Second), errNotRenewed)
		began := second.last(t).began
		if wait := began.Sub(sent); wait < 15*time.Second || wait > 20*time.Second {
			t.Errorf("the second led %v after the last renewal, want 15 s and at most a pause", wait)
		}
	})
}

// TestATermIsCountedFromBeforeTheRenewalWasSent: the server has the renewal before its answer is here, and others count
// from then.
func TestATermIsCountedFromBeforeTheRenewalWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := k.join("first")
		first.use(delayed(latency, latency), delayed(0, 1500*time.Millisecond))
		first.run(t)
		after(1600 * time.Millisecond)
		won := first.last(t)
		if late := won.began.Sub(won.Term.began); late != 1500*time.Millisecond {
			t.Errorf("the term began to count %v before the answer, want 1.5 s", late)
		}
		after(2*time.Second + time.Millisecond) // one renewal was sent 2 s after the first write, and answered
		first.use(lost, lost)
		after(time.Minute)
		wantEnded(t, first, won.Term.began.Add(2*time.Second).Add(12*time.Second), errNotRenewed)
	})
}

func TestAnAnswerThatComesAfterTheTermBeginsNone(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := k.join("first")
		stubborn := func(_ context.Context, request func() reply) reply { // a store that disregards its context
			got := request()
			time.Sleep(12 * time.Second)
			return got
		}
		first.use(delayed(latency, latency), stubborn)
		first.run(t)
		after(5 * time.Second)
		first.heal()
		after(8 * time.Second)
		if terms := first.served(); len(terms) != 1 || terms[0].Revision != 2 {
			t.Errorf("terms %+v, want one, by the second write", terms)
		}
	})
}

func TestATermEndsInTimeEvenIfTheStoreNeverAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		answer := make(chan struct{})
		first.use(lost, func(_ context.Context, request func() reply) reply {
			<-answer
			return request()
		})
		after(time.Minute)
		wantEnded(t, first, first.last(t).Term.began.Add(12*time.Second), errNotRenewed)
		if n := len(first.requests()); n != 3 {
			t.Errorf("%d requests, want none while one is under way", n)
		}
		close(answer)
	})
}

// TestATermIsOverByTheClock: a process that stood still may run on before its timers fire.
func TestATermIsOverByTheClock(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		ctx, end := context.WithCancelCause(t.Context())
		term := newTerm(version{revision: 7, at: time.Now()}, 12*time.Second, end)
		time.Sleep(12*time.Second - 1)
		if term.Over() || ctx.Err() != nil {
			t.Error("over too early")
		}
		term.renewed(time.Now().Add(-time.Second), 12*time.Second)
		time.Sleep(11*time.Second - 1)
		if term.Over() || ctx.Err() != nil {
			t.Error("over although it was renewed")
		}
		time.Sleep(2 * time.Nanosecond)
		term.renewed(time.Now(), 12*time.Second) // too late
		if !term.Over() || !errors.Is(context.Cause(ctx), errNotRenewed) {
			t.Errorf("not over; cause %v", context.Cause(ctx))
		}
		term.renewed(time.Now(), 12*time.Second)
		if !term.Over() {
			t.Error("a term that was over goes on")
		}
	})
}

func TestAHolderThatIsTakenOverEndsItsTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		sent := first.last(t).Term.began
		k.edit(t, func(r *record) { r.HolderIdentity = "another" })
		after(5 * time.Second)
		wantEnded(t, first, sent.Add(usual.RetryPeriod+4*latency), errTaken) // a write that conflicts, and a look
		if got := k.record(t).HolderIdentity; got != "another" {
			t.Errorf("the holder is %q", got)
		}
	})
}

func TestAHolderWhoseLeaseWasGivenBackByHandEndsItsTermAndAppliesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		k.edit(t, func(r *record) { r.HolderIdentity = "" })
		after(5 * time.Second)
		terms := first.served()
		if len(terms) != 2 || !errors.Is(terms[0].cause, errTaken) || !first.leads() {
			t.Errorf("terms %+v", terms)
		}
		if n := k.record(t).LeaderTransitions; n != 1 {
			t.Errorf("%d transitions, want 1", n)
		}
	})
}

func TestARenewalThatConflictsIsFollowedByALookAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		first.requests()
		first.use(delayed(latency, latency), unanswered) // the server has the renewal, we do not know
		after(3 * time.Second)
		first.heal()
		after(time.Minute)
		got := first.requests()
		if want := []string{"store", "load", "store", "store"}; !slices.Equal(got[:4], want) {
			t.Errorf("requests %v, want %v", got[:4], want)
		}
		if len(first.served()) != 1 || !first.leads() {
			t.Errorf("terms %+v, want one that goes on", first.served())
		}
	})
}

func TestAHolderFailsAndTriesAgainAfterAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		first.requests()
		refused := func(context.Context, func() reply) reply { return reply{err: errors.New("no leader")} }
		first.use(refused, refused)
		after(9 * time.Second)
		if n := len(first.requests()); n != 8 {
			t.Errorf("%d requests in 9 s, want a write and a look each 2 s", n)
		}
		first.heal()
		after(time.Minute)
		if len(first.served()) != 1 || !first.leads() {
			t.Errorf("terms %+v, want one that goes on", first.served())
		}
	})
}

func TestLeadReturnsBeforeTheNextApplication(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := k.join("first")
		first.lingers = time.Minute
		first.run(t)
		after(time.Second)
		k.edit(t, func(r *record) { r.HolderIdentity = "another" })
		after(10 * time.Second)
		if first.leads() {
			t.Fatal("the first leads")
		}
		k.edit(t, func(r *record) { r.HolderIdentity = "" })
		first.requests()
		after(50 * time.Second)
		if got := first.requests(); len(got) != 0 {
			t.Errorf("requests while lead has not returned: %v", got)
		}
		after(5 * time.Second)
		if !first.leads() {
			t.Error("the first does not lead again")
		}
	})
}

func TestALeaseThatIsGivenBackIsTakenAtTheNextLook(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := k.join("first")
		first.lingers = 3 * time.Second
		first.run(t)
		after(time.Second)
		second := k.join("second").run(t)
		after(time.Second)
		stopped := time.Now()
		first.stop()
		after(3*time.Second - 1)
		if got := k.record(t).HolderIdentity; got != "first" {
			t.Errorf("the holder is %q while the first works on", got)
		}
		after(5 * time.Second)
		began := second.last(t).began
		if wait := began.Sub(stopped); wait < 3*time.Second || wait > 3*time.Second+usual.retry(1)+10*latency {
			t.Errorf("the second led after %v", wait)
		}
	})
}

func TestALeaseIsGivenBackEvenIfARenewalArrivesInBetween(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		first.use(delayed(latency, 10*latency), late(15*latency))
		after(2 * time.Second) // a renewal is under way
		go func() {
			time.Sleep(latency)
			first.use(delayed(latency, 10*latency), delayed(latency, latency))
		}()
		first.halt()
		if got := k.record(t); got.HolderIdentity != "" || got.LeaseDurationSeconds != 1 {
			t.Errorf("the record is %+v, want one without a holder", got)
		}
	})
}

func TestTheEndDoesNotWaitLongForALeaseThatCannotBeGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		slow := delayed(giveBackPatience*3/4, 0)
		first.use(slow, slow)
		stopped := time.Now()
		first.halt()
		if took := time.Since(stopped); took != giveBackPatience {
			t.Errorf("it took %v, want %v", took, giveBackPatience)
		}
	})
}

func TestTheEndOfAReplicaThatDoesNotHoldTheLeaseChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		second := k.join("second").run(t)
		after(time.Second)
		second.halt()
		after(time.Minute)
		if got := k.record(t).HolderIdentity; got != "first" || len(first.served()) != 1 {
			t.Errorf("the holder is %q, terms %+v", got, first.served())
		}
	})
}

// TestARecordThatDoesNotChangeForItsDurationIsTaken: the times in it are another computer's, and count for nothing.
func TestARecordThatDoesNotChangeForItsDurationIsTaken(t *testing.T) {
	for name, at := range map[string]string{"behind": "1999-01-01T00:00:00Z", "ahead": "2100-01-01T00:00:00Z"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *key) {
				k.put(`{"holderIdentity":"dead","leaseDurationSeconds":30,"acquireTime":"` + at +
					`","renewTime":"` + at + `","leaderTransitions":4}`)
				began := time.Now()
				second := k.join("second").run(t)
				after(time.Minute)
				if wait := second.last(t).began.Sub(began); wait < 30*time.Second || wait > 35*time.Second {
					t.Errorf("taken after %v, want 30 s and at most a pause", wait)
				}
				if n := k.record(t).LeaderTransitions; n != 5 {
					t.Errorf("%d transitions, want 5", n)
				}
			})
		})
	}
}

// TestARenewalWithinTheSameSecondCounts: the record has whole seconds, so such a renewal leaves the value of the key as
// it was.
func TestARenewalWithinTheSameSecondCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		const same = `{"holderIdentity":"alive","leaseDurationSeconds":1}`
		k.put(same)
		second := k.join("second")
		second.timing = Timing{time.Second, 700 * time.Millisecond, 200 * time.Millisecond}
		second.run(t)
		for range 100 {
			after(300 * time.Millisecond)
			k.put(same)
		}
		if n := len(second.served()); n != 0 {
			t.Errorf("%d terms while another renewed", n)
		}
		after(2 * time.Second)
		if !second.leads() {
			t.Error("it does not lead after the other's last renewal")
		}
	})
}

func TestARenewalKeepsTheTimeOfTheAcquisition(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		firstLeads(t, k)
		before := k.record(t)
		after(time.Minute)
		renewed := k.record(t)
		if !renewed.AcquireTime.Equal(&before.AcquireTime) || renewed.LeaderTransitions != 0 {
			t.Errorf("the record is %+v, was %+v", renewed, before)
		}
		if age := time.Since(renewed.RenewTime.Time); age > 3*time.Second {
			t.Errorf("renewed %v ago", age)
		}
	})
}

// TestAReplicaTakesItsOwnLeaseAtOnce: the answer of its write was lost.
func TestAReplicaTakesItsOwnLeaseAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := k.join("first")
		first.use(delayed(latency, latency), unanswered)
		first.run(t)
		after(time.Second)
		first.heal()
		after(6 * time.Second) // the write is given up after 2 s
		if !first.leads() {
			t.Fatal("it does not lead")
		}
		if r := k.record(t); r.LeaderTransitions != 0 {
			t.Errorf("%d transitions, want 0", r.LeaderTransitions)
		}
	})
}

func TestThatAnotherHoldsTheLeaseIsNoFault(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		second := k.join("second").run(t)
		k.edit(t, func(r *record) { r.HolderIdentity = "another" }) // a conflict, and a look
		after(time.Minute)
		first.halt()
		for _, r := range []*replica{first, second} {
			got := r.reported()
			if len(got) == 0 || slices.ContainsFunc(got, func(err error) bool { return err != nil }) {
				t.Errorf("%s reported %v", r.id, got)
			}
		}
	})
}

func TestWhatCannotBeReachedIsReportedUntilItCan(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		first.reported()
		first.use(lost, lost)
		after(30 * time.Second)
		got := first.reported()
		fine := func(err error) bool { return !errors.Is(err, context.DeadlineExceeded) }
		if len(got) < 4 || slices.ContainsFunc(got, fine) {
			t.Errorf("reported %v", got)
		}
		first.heal()
		after(10 * time.Second)
		if got = first.reported(); len(got) == 0 || got[len(got)-1] != nil {
			t.Errorf("then reported %v", got)
		}
	})
}

// TestALeaseThatCanOnlyBeReadIsReportedAllTheTime, by the holder and by one that would take it.
func TestALeaseThatCanOnlyBeReadIsReportedAllTheTime(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		denied := errors.New("no rights")
		refused := func(context.Context, func() reply) reply { return reply{err: denied} }
		first := firstLeads(t, k)
		first.reported()
		first.use(delayed(latency, latency), refused)
		after(time.Minute)
		if first.leads() {
			t.Error("it leads without a renewal")
		}
		fine := func(err error) bool { return !errors.Is(err, denied) }
		if got := first.reported(); len(got) < 10 || slices.ContainsFunc(got, fine) {
			t.Errorf("reported %v", got)
		}
		k.join("second").run(t)
		after(time.Minute)
		if got := first.reported(); len(got) == 0 || got[len(got)-1] != nil {
			t.Errorf("reported %v while another holds the lease", got)
		}
	})
}

func TestRunRefusesAConfigurationThatCannotWork(t *testing.T) {
	good := Config{Store: &link{}, Identity: "me", Timing: usual}
	for want, spoil := range map[string]func(*Config){
		"no store":                 func(c *Config) { c.Store = nil },
		"no identity":              func(c *Config) { c.Identity = "" },
		"0 < RetryPeriod":          func(c *Config) { c.Timing.RetryPeriod = 0 },
		"1.2*RetryPeriod":          func(c *Config) { c.Timing.RetryPeriod = 9 * time.Second },
		"RenewDeadline < Duration": func(c *Config) { c.Timing.RenewDeadline = 15 * time.Second },
		"1h0m0s at most is believed": func(c *Config) {
			c.Timing.Duration = LongestDuration + time.Second
		},
		"whole seconds": func(c *Config) { c.Timing.Duration += time.Millisecond },
	} {
		c := good
		spoil(&c)
		err := Run(t.Context(), c, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := usual.Validate(); err != nil {
		t.Error(err)
	}
}
