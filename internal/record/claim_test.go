package record_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
)

func TestTheIDOfAnInstallationIsMadeOnceAndKept(t *testing.T) {
	var s store
	b, _ := s.bucket()
	first := record.NewClaim(b, "sites")
	if id := first.Instance(); id != "" {
		t.Errorf("id %q before Take", id)
	}
	must(t, first.Take(quiet(t)))
	must(t, first.Take(quiet(t)))
	second := record.NewClaim(b, "sites") // another replica, or the next run
	must(t, second.Take(quiet(t)))
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
	must(t, record.NewClaim(b, "pages").Take(quiet(t)))
	claim := record.NewClaim(b, "sites")
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
				claim := record.NewClaim(b, "sites")
				must(t, claim.Take(quiet(t)))
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
		claim := record.NewClaim(b, "sites")
		must(t, claim.Take(quiet(t)))
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
		claim := record.NewClaim(b, "sites")
		must(t, claim.Take(quiet(t)))
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
