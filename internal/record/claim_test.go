package record_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
)

// settle is for a bucket beside which nothing carries an id.
func settle(t *testing.T, claim *record.Claim) error {
	t.Helper()
	if err := claim.Take(quiet(t)); err != nil {
		return err
	}
	return claim.Settle(quiet(t), func() record.Sightings { return nil })
}

func TestTheIDOfAnInstallationIsMadeOnceAndKept(t *testing.T) {
	var s store
	b, _ := s.bucket()
	first := record.NewClaim(b, "sites", "")
	must(t, first.Take(quiet(t)))
	if id := first.Instance(); id != "" {
		t.Errorf("id %q before Settle", id)
	}
	must(t, settle(t, first))
	must(t, settle(t, first))
	second := record.NewClaim(b, "sites", "") // another replica, or the next run
	must(t, settle(t, second))
	held, _ := s.has(record.KeyInstance)
	if id := first.Instance(); id == "" || second.Instance() != id || held != id {
		t.Errorf("ids %q and %q, %q in the bucket; want one", id, second.Instance(), held)
	}
	if name, _ := s.has(record.KeyController); name != "sites" {
		t.Errorf("claimed for %q", name)
	}
}

func TestTheBucketOfAnotherControllerIsNotTaken(t *testing.T) {
	var s store
	b, _ := s.bucket()
	must(t, record.NewClaim(b, "pages", "").Take(quiet(t)))
	claim := record.NewClaim(b, "sites", "")
	err := claim.Take(quiet(t))
	for _, part := range []string{`controller "sites"`, "sites-status", `belongs to controller "pages"`,
		"another StatusBucket"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if id := claim.Instance(); id != "" {
		t.Errorf("it took the id %q", id)
	}
}

// keeping is a claim that is kept until stop is called.
func keeping(t *testing.T, claim *record.Claim) (stop func()) {
	ctx, cancel := context.WithCancel(quiet(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		claim.Keep(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestAClaimThatWasRemovedIsMadeAgainWithTheSameID(t *testing.T) {
	for _, key := range []string{record.KeyController, record.KeyInstance} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s store
				b, _ := s.bucket()
				claim := record.NewClaim(b, "sites", "")
				must(t, settle(t, claim))
				id := claim.Instance()
				stop := keeping(t, claim)
				defer stop()
				s.remove(record.KeyController)
				s.remove(record.KeyInstance)
				claim.Removed(record.KeyLease) // is none of its keys
				synctest.Wait()
				if _, ok := s.has(key); ok {
					t.Error("claimed although nothing of the claim was removed")
				}
				claim.Removed(key)
				synctest.Wait()
				name, _ := s.has(record.KeyController)
				if held, _ := s.has(record.KeyInstance); name != "sites" || held != id || claim.Instance() != id {
					t.Errorf("claimed for %q with the id %q, want %q", name, held, id)
				}
			})
		})
	}
}

func TestAClaimThatAnotherControllerTookIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, board := s.bucket()
		claim := record.NewClaim(b, "sites", "")
		must(t, settle(t, claim))
		stop := keeping(t, claim)
		defer stop()
		reported := func() bool { return board.Degraded()["claim (bucket sites-status)"] != nil }
		s.put(record.KeyController, "pages")
		claim.Removed(record.KeyController)
		synctest.Wait()
		if !reported() {
			t.Errorf("degraded: %v", board.Degraded())
		}
		s.remove(record.KeyController)
		claim.Removed(record.KeyController)
		synctest.Wait()
		if reported() {
			t.Error("still reported")
		}
	})
}

// TestAClaimThatCouldNotBeMadeIsMadeByTheNextKeep: the term ended while NATS was away.
func TestAClaimThatCouldNotBeMadeIsMadeByTheNextKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, _ := s.bucket()
		claim := record.NewClaim(b, "sites", "")
		must(t, settle(t, claim))
		s.failing(1000, errAway)
		stop := keeping(t, claim)
		s.remove(record.KeyController)
		claim.Removed(record.KeyController)
		time.Sleep(time.Minute)
		stop()
		s.failing(0, nil)
		stop = keeping(t, claim)
		defer stop()
		synctest.Wait()
		if _, ok := s.has(record.KeyController); !ok {
			t.Error("not claimed")
		}
	})
}

// pages40 is what is left of an installation.
func pages40() record.Sightings {
	return record.Sightings{"old": {Objects: 40, Source: "Owns Page", Example: "home"}}
}

// TestNoIDIsMadeWhereThereAreOthers: it waits until somebody has put one, and says what it saw.
func TestNoIDIsMadeWhereThereAreOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, board := s.bucket()
		claim := record.NewClaim(b, "sites", "")
		settled := make(chan error, 1)
		go func() { settled <- claim.Settle(quiet(t), pages40) }()
		time.Sleep(time.Hour + time.Second) // between two looks
		reason := board.Degraded()["installation (bucket sites-status)"]
		for _, part := range []string{`"old"`, "40", `"home"`, "Owns Page", "nats kv put sites-status _nagi.instance",
			"WithInstance"} {
			if reason == nil || !strings.Contains(reason.Error(), part) {
				t.Errorf("%v does not say %q", reason, part)
			}
		}
		if _, ok := s.has(record.KeyInstance); ok || claim.Instance() != "" {
			t.Error("an id was made")
		}
		s.put(record.KeyInstance, "old")
		claim.Put(record.KeyLease)
		synctest.Wait()
		if len(settled) > 0 {
			t.Error("it looked before it was told")
		}
		claim.Put(record.KeyInstance)
		synctest.Wait()
		if len(settled) == 0 {
			t.Error("it did not look when it was told")
		}
		must(t, <-settled)
		if claim.Instance() != "old" || len(board.Degraded()) != 0 {
			t.Errorf("id %q, degraded %v", claim.Instance(), board.Degraded())
		}
	})
}

// TestOfSeveralIDsNoneIsProposed: whoever pastes a command takes over what it names.
func TestOfSeveralIDsNoneIsProposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, board := s.bucket()
		claim := record.NewClaim(b, "sites", "")
		ctx, cancel := context.WithCancel(quiet(t))
		defer cancel()
		go func() {
			_ = claim.Settle(ctx, func() record.Sightings {
				return record.Sightings{"aaa": {Objects: 1, Source: "Owns Page"}, "zzz": {Objects: 5000, Source: "Owns Page"}}
			})
		}()
		synctest.Wait()
		reason := fmt.Sprint(board.Degraded()["installation (bucket sites-status)"])
		if !strings.Contains(reason, "_nagi.instance ID,") || strings.Index(reason, "zzz") > strings.Index(reason, "aaa") {
			t.Errorf("reason %q", reason)
		}
	})
}

// TestTheIDOfAFileThatWasPutIsTheID, although the file ends with a newline.
func TestTheIDOfAFileThatWasPutIsTheID(t *testing.T) {
	for text, want := range map[string]string{"old\n": "old", " \n": ""} {
		var s store
		b, _ := s.bucket()
		s.put(record.KeyInstance, text)
		claim := record.NewClaim(b, "sites", "")
		must(t, claim.Take(quiet(t)))
		if got := claim.Instance(); got != want {
			t.Errorf("of %q the id %q", text, got)
		}
		if err := settle(t, claim); (err == nil) != (want != "") {
			t.Errorf("of %q: %v", text, err)
		}
	}
}

// TestAnIDIsMadeOnceTheOthersAreGone, and somebody need not put it.
func TestAnIDIsMadeOnceTheOthersAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, _ := s.bucket()
		claim := record.NewClaim(b, "sites", "")
		began := time.Now()
		must(t, claim.Settle(quiet(t), func() record.Sightings {
			if time.Since(began) < time.Minute {
				return pages40()
			}
			return nil
		}))
		if id := claim.Instance(); id == "" || id == "old" || time.Since(began) > 2*time.Minute {
			t.Errorf("id %q after %v", id, time.Since(began))
		}
	})
}

func TestWaitingForAnIDEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, board := s.bucket()
		ctx, cancel := context.WithTimeout(quiet(t), time.Minute)
		defer cancel()
		err := record.NewClaim(b, "sites", "").Settle(ctx, pages40)
		if !errors.Is(err, context.DeadlineExceeded) || len(board.Degraded()) != 0 {
			t.Errorf("%v, degraded %v", err, board.Degraded())
		}
	})
}

// TestAnIDThatAnotherReplicaMakesIsTaken although its first objects are there already.
func TestAnIDThatAnotherReplicaMakesIsTaken(t *testing.T) {
	var s store
	b, _ := s.bucket()
	claim := record.NewClaim(b, "sites", "")
	must(t, claim.Settle(quiet(t), func() record.Sightings {
		s.put(record.KeyInstance, "other") // and then it creates them
		return record.Sightings{"other": {Objects: 1}}
	}))
	if claim.Instance() != "other" {
		t.Errorf("id %q", claim.Instance())
	}
}

func TestAConfiguredIDIsKept(t *testing.T) {
	var s store
	b, _ := s.bucket()
	claim := record.NewClaim(b, "sites", "mine")
	must(t, claim.Settle(quiet(t), pages40))
	if held, _ := s.has(record.KeyInstance); held != "mine" || claim.Instance() != "mine" {
		t.Errorf("id %q, %q in the bucket", claim.Instance(), held)
	}
	another := record.NewClaim(b, "sites", "another")
	err := another.Take(quiet(t))
	if err == nil || !strings.Contains(err.Error(), `"mine"`) || !strings.Contains(err.Error(), `"another"`) {
		t.Errorf("got %v", err)
	}
	if id := another.Instance(); id != "" {
		t.Errorf("it took the id %q", id)
	}
}

// TestTheIDOfTheLeaderHolds: a replica that starts while the key is away makes another. The leader puts its own back,
// and the other takes it when it leads.
func TestTheIDOfTheLeaderHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, _ := s.bucket()
		leader := record.NewClaim(b, "sites", "")
		must(t, settle(t, leader))
		id := leader.Instance()
		stop := keeping(t, leader)
		s.remove(record.KeyInstance)
		other := record.NewClaim(b, "sites", "")
		must(t, settle(t, other))
		if other.Instance() == id {
			t.Fatal("it made the same id")
		}
		leader.Put(record.KeyInstance)
		synctest.Wait()
		if held, _ := s.has(record.KeyInstance); held != id || leader.Instance() != id {
			t.Errorf("the bucket has %q, the leader %q; want %q", held, leader.Instance(), id)
		}
		stop()
		must(t, other.BeginTerm(quiet(t), nobody, docs))
		if other.Instance() != id {
			t.Errorf("the next leader has %q, want %q", other.Instance(), id)
		}
	})
}

// TestAClaimThatVanishesUnseenIsMadeAgain: no cache had the key when it went.
func TestAClaimThatVanishesUnseenIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, _ := s.bucket()
		claim := record.NewClaim(b, "sites", "")
		must(t, settle(t, claim))
		id := claim.Instance()
		stop := keeping(t, claim)
		s.remove(record.KeyInstance)
		s.remove(record.KeyController)
		time.Sleep(2 * time.Minute)
		held, _ := s.has(record.KeyInstance)
		holder, _ := s.has(record.KeyController)
		if held != id || holder != "sites" {
			t.Errorf("the bucket has the id %q of %q, want %q of sites", held, holder, id)
		}
		stop()
	})
}

// TestATermWaitsForItsClaim, degraded.
func TestATermWaitsForItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, board := s.bucket()
		claim := record.NewClaim(b, "sites", "")
		must(t, settle(t, claim))
		s.put(record.KeyController, "pages")
		begun := make(chan error, 1)
		go func() { begun <- claim.BeginTerm(quiet(t), nobody, docs) }()
		time.Sleep(time.Minute)
		if len(begun) > 0 || board.Degraded()["claim (bucket sites-status)"] == nil {
			t.Errorf("it began: %d; degraded %v", len(begun), board.Degraded())
		}
		s.remove(record.KeyController)
		time.Sleep(time.Minute)
		must(t, <-begun)
		if len(board.Degraded()) != 0 {
			t.Errorf("degraded %v", board.Degraded())
		}
	})
}
