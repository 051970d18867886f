package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/deletes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rewrite takes its time, too. What a test has taken away is gone.
func (s *slowSource) Rewrite(ctx context.Context, obj metav1.Object, change func(metav1.Object) error) error {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.read != nil {
		s.read()
	}
	for _, now := range s.family {
		if now.Name != obj.GetName() {
			continue
		}
		copied := now.DeepCopy()
		if err := change(copied); err != nil {
			return err
		}
		*now = *copied
		s.written++
		if s.silent {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		if s.rewritten != nil {
			s.rewritten(now)
		}
		return nil
	}
	return nil
}

// familyOf is a Teardown whose last sweep found n orphans of the site shop/young. The site shop/home is there.
func familyOf(n int, takes time.Duration) (*Teardown, *slowSource) {
	td, s := teardownOf(0, takes)
	s.g.there, s.g.known = map[string]bool{"shop/home": true}, map[string]bool{"shop/home": true}
	var all []Orphan
	for i := range n {
		obj := &metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("page%d", i), ResourceVersion: fmt.Sprint(i + 1)}
		entity.SetOwner(obj, "Site", "shop/young", "here")
		s.family = append(s.family, obj)
		all = append(all, Orphan{
			Source: s.String(), Object: "shop/" + obj.Name, OwnerKey: "shop/young", Why: OrphanNeverWas,
			version: writtenAs(obj), in: s, deletes: true,
		})
	}
	td.keepOrphans(all)
	return td, s
}

// adoption is the order for all of them.
func adoption(t *testing.T, td *Teardown) AdoptOrder {
	t.Helper()
	list, err := td.Orphans(OrphanFilter{Owner: "shop/young"})
	if err != nil {
		t.Fatal(err)
	}
	return AdoptOrder{From: "shop/young", To: "shop/home", List: list.ID, Expect: len(list.Adoptable())}
}

// TestToAdoptOrphansTakesFourSecondsAtMost, and goes on where it ended, with the list that the answer names.
func TestToAdoptOrphansTakesFourSecondsAtMost(t *testing.T) {
	for takes, want := range map[time.Duration][]int{
		700 * time.Millisecond: {5, 2}, // the last begins at 2.8 s
		time.Minute:            {0},    // what is not over at the end may be done, or not
	} {
		synctest.Test(t, func(t *testing.T) {
			td, s := familyOf(7, takes)
			order, left := adoption(t, td), 7
			for _, n := range want {
				began := time.Now()
				done, err := td.AdoptOrphans(t.Context(), order)
				if left -= n; err != nil || done.Adopted != n || done.Left != left || time.Since(began) > 4*time.Second {
					t.Fatalf("each takes %v: %+v after %v, error %v", takes, done, time.Since(began), err)
				}
				if n > 0 && done.List == order.List {
					t.Errorf("it is still the list %s", done.List)
				}
				order.List, order.Expect = done.List, left
			}
			if of := owners(s); of["shop/home"] != 7-left {
				t.Errorf("the owners are %v", of)
			}
		})
	}
}

func owners(s *slowSource) map[string]int {
	all := map[string]int{}
	for _, obj := range s.family {
		_, key, _ := entity.OwnerOf(obj)
		all[key]++
	}
	return all
}

// TestWhatIsNoOrphanWhenItsTurnComesIsSkipped, and the others are adopted: it was removed, is being deleted, or is
// another's. So is what names the new owner already.
func TestWhatIsNoOrphanWhenItsTurnComesIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		td, s := familyOf(5, time.Millisecond)
		order := adoption(t, td)
		s.rewritten = func(first *metav1.ObjectMeta) {
			s.rewritten = nil
			now := metav1.Now()
			entity.SetOwner(s.family[1], "Site", "shop/other", "here")
			s.family[2].DeletionTimestamp = &now
			entity.SetOwner(s.family[3], "Site", "shop/young", "there")
			s.family[4] = first // page4 is gone
		}
		done, err := td.AdoptOrphans(t.Context(), order)
		if err != nil || done.Adopted != 1 || done.Skipped != 4 || done.Left != 0 || s.written != 1 {
			t.Errorf("%+v, error %v, %d written", done, err, s.written)
		}
	})
}

// TestNothingMoreIsAdoptedOnceAnOwnerIsNotWhatItWas: the former one has its document back, also if the cache shows it
// first, or the new one is gone; and so if the replica does not lead any more, or the leader does not answer.
func TestNothingMoreIsAdoptedOnceAnOwnerIsNotWhatItWas(t *testing.T) {
	away := errors.New("the leader is away")
	for name, test := range map[string]struct {
		comes func(td *Teardown, g *guarded)
		want  error
	}{
		"the former owner is back":       {func(_ *Teardown, g *guarded) { g.there["shop/young"] = true }, deletes.ErrDocumentReturned},
		"the cache shows it":             {func(_ *Teardown, g *guarded) { g.shown = "shop/young" }, deletes.ErrDocumentReturned},
		"the former owner has a record":  {func(_ *Teardown, g *guarded) { g.owed = true }, deletes.ErrDocumentReturned},
		"the new owner goes":             {func(_ *Teardown, g *guarded) { delete(g.there, "shop/home") }, ErrNewOwnerGoes},
		"the new owner is gone":          {func(_ *Teardown, g *guarded) { g.there, g.known = map[string]bool{}, nil }, ErrNoNewOwner},
		"another replica leads":          {func(_ *Teardown, g *guarded) { g.leads = away }, away},
		"the leader does not answer now": {func(_ *Teardown, g *guarded) { g.leader = away }, away},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				td, s := familyOf(5, deletes.LeaderTrusted)
				order := adoption(t, td)
				s.rewritten = func(*metav1.ObjectMeta) {
					if s.written == 2 {
						test.comes(td, s.g)
					}
				}
				done, err := td.AdoptOrphans(t.Context(), order)
				if done.Adopted != 2 || s.written != 2 || !errors.Is(err, test.want) {
					t.Errorf("%+v, %d written, error %v", done, s.written, err)
				}
			})
		})
	}
}

// TestNothingIsWrittenThatAnOwnerWouldNotHaveByThen: the object is read first, which takes a while, and meanwhile the
// former owner comes back, the new one goes, or the term ends.
func TestNothingIsWrittenThatAnOwnerWouldNotHaveByThen(t *testing.T) {
	lost := errors.New("another replica leads")
	for name, test := range map[string]struct {
		comes func(g *guarded)
		want  error
	}{
		"the former owner is back": {func(g *guarded) { g.there["shop/young"] = true }, deletes.ErrDocumentReturned},
		"the new owner goes":       {func(g *guarded) { delete(g.there, "shop/home") }, ErrNewOwnerGoes},
		"another replica leads":    {func(g *guarded) { g.leads = lost }, lost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				td, s := familyOf(1, 2*time.Second)
				order := adoption(t, td)
				s.read = func() { test.comes(s.g) }
				done, err := td.AdoptOrphans(t.Context(), order)
				if done.Adopted != 0 || s.written != 0 || !errors.Is(err, test.want) {
					t.Errorf("%+v, %d written, error %v", done, s.written, err)
				}
			})
		})
	}
}

// TestAWriteThatIsNotAnsweredIsTold: it may have been done. Asked for again, it is found to be.
func TestAWriteThatIsNotAnsweredIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		td, s := familyOf(2, time.Millisecond)
		order := adoption(t, td)
		s.silent = true
		done, err := td.AdoptOrphans(t.Context(), order)
		if err != nil || done.Adopted != 0 || done.Unanswered != 1 || done.Tried != 1 || done.Left != 2 {
			t.Fatalf("%+v, error %v", done, err)
		}
		s.silent = false
		done, err = td.AdoptOrphans(t.Context(), order)
		if err != nil || done.Adopted != 1 || done.Skipped != 1 || done.Unanswered != 0 || done.Tried != 2 {
			t.Errorf("%+v, error %v", done, err)
		}
	})
}

// leftAll are records that say that all was left on purpose.
type leftAll struct{ leftNothing }

func (leftAll) GetReserved(context.Context, string) (data []byte, revision uint64, err error) {
	return []byte("shop/young"), 1, nil
}

// TestNothingIsAdoptedThatWasLeftOnPurpose by now: its owner came back after the sweep, and went again.
func TestNothingIsAdoptedThatWasLeftOnPurpose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		td, s := familyOf(2, 0)
		order := adoption(t, td)
		td.Records = leftAll{}
		done, err := td.AdoptOrphans(t.Context(), order)
		if done != (OrphansAdopted{}) || s.written != 0 || !errors.Is(err, ErrNotAdoptable) {
			t.Errorf("%+v, %d written, error %v", done, s.written, err)
		}
	})
}

// TestWhatWasAdoptedIsNoOrphanAnyMore, though the cache of a source may have it still as it was when the next sweep
// looks.
func TestWhatWasAdoptedIsNoOrphanAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		td, _ := familyOf(2, 0)
		all := td.orphans.Load().all
		order := adoption(t, td)
		done, err := td.AdoptOrphans(t.Context(), order)
		if err != nil || done != (OrphansAdopted{Adopted: 2, Tried: 2}) {
			t.Fatalf("%+v, error %v", done, err)
		}
		if _, err := td.AdoptOrphans(t.Context(), order); !errors.As(err, new(*OrphansDiffer)) {
			t.Errorf("once more: %v", err)
		}
		for range 2 {
			td.keepOrphans(append([]Orphan(nil), all...))
			if list, err := td.Orphans(OrphanFilter{}); len(list.Orphans) != 0 || list.ID != "" || err != nil {
				t.Errorf("%+v, error %v", list, err)
			}
		}
	})
}

// TestWhatIsHeldOrNotDeletedHereMayBeAdopted: nothing is lost by that. It takes no other list if such an object is
// written, for what is adopted is looked at anew.
func TestWhatIsHeldOrNotDeletedHereMayBeAdopted(t *testing.T) {
	for name, change := range map[string]func(g *guarded, o *Orphan){
		"held":             func(g *guarded, o *Orphan) { g.holds, o.Why = true, OrphanHeld },
		"deletes are held": func(g *guarded, _ *Orphan) { g.holds = true },
		"no cascade":       func(_ *guarded, o *Orphan) { o.deletes = false },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				td, s := familyOf(2, 0)
				all := td.orphans.Load().all
				for i := range all {
					change(s.g, &all[i])
				}
				order := adoption(t, td)
				if list, err := td.Orphans(OrphanFilter{}); len(list.Deletable()) != 0 || err != nil {
					t.Errorf("%+v, %v", list, err)
				}
				if done, err := td.AdoptOrphans(t.Context(), order); done.Adopted != 2 || err != nil {
					t.Errorf("%+v, %v", done, err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		td, _ := familyOf(2, 0)
		for _, why := range []OrphanReason{OrphanUnproven, OrphanContradicting, OrphanUnanswered, OrphanHashed} {
			for i := range td.orphans.Load().all {
				td.orphans.Load().all[i].Why = why
			}
			if order := adoption(t, td); order.Expect != 0 || order.List != "" {
				t.Errorf("%s: %+v", why, order)
			}
		}
	})
}
