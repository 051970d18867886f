package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// dividing are members whose caches have what belongs to their slots.
func dividing(t *testing.T) (*sharded, []*member) {
	s := newSharded(t)
	s.slotCaches = true
	return s, s.owning()
}

// of are the sites at which a member works.
func (m *member) works() (keys []string) {
	for i := range many {
		if e := m.c.Explain(siteName(i)); e.Leading {
			keys = append(keys, siteName(i))
		}
	}
	return keys
}

// holds are the keys that a client has in its cache.
func holds[T entity.IEntity](client *entity.Client[T]) []string {
	keys := client.Informer().GetStore().ListKeys()
	slices.Sort(keys)
	return keys
}

func (s *sharded) wantDivided(members ...*member) {
	s.t.Helper()
	sites, pages := 0, 0
	for _, m := range members {
		mine := m.works()
		slices.Sort(mine)
		if got := holds(m.sites); !slices.Equal(got, mine) {
			s.t.Errorf("%s works at %v, and has %v", m.name, mine, got)
		}
		for _, key := range mine {
			rec, _ := m.sites.Records().Cached(key)
			owned, err := m.pages.Lister().OwnedBy("Site", key)
			if err != nil || len(owned) != 1 || rec == nil || rec.FirstSeen.IsZero() {
				s.t.Errorf("%s works at %s, has %d pages of it (%v), and the record %v",
					m.name, key, len(owned), err, rec)
			}
		}
		sites, pages = sites+len(mine), pages+len(holds(m.pages))
		if all := len(m.sites.Records().Keys()); all != many {
			s.t.Errorf("%s knows of %d records", m.name, all)
		}
	}
	if sites != many || pages != many {
		s.t.Errorf("together they have %d sites and %d pages", sites, pages)
	}
}

func TestCachesHaveWhatBelongsToTheSlots(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s, members := dividing(t)
		s.wantDivided(members...)
		a, b, c := members[0], members[1], members[2]
		others := b.works()[0]
		if _, err := a.sites.Lister().Get(others); !errors.Is(err, entity.ErrNotCached) {
			t.Errorf("a site of another: %v", err)
		}
		if _, err := a.pages.Lister().OwnedBy("Site", others); !errors.Is(err, entity.ErrNotCached) {
			t.Errorf("pages of another's site: %v", err)
		}
		if _, err := a.sites.Lister().List(nil); !errors.Is(err, entity.ErrNotCached) {
			t.Errorf("all: %v", err)
		}
		if one, err := a.sites.Get(t.Context(), others); err != nil || one.Spec.Title == "" {
			t.Errorf("live: %v", err)
		}
		s.touch(many, a, b, c)
		b.running.halt()
		time.Sleep(time.Second)
		s.touch(many, a, c)
		time.Sleep(20 * time.Second)
		s.wantDivided(a, c)
		c.proxy.Blackhole()
		time.Sleep(20 * time.Second)
		s.touch(many, a)
		s.wantDivided(a)
		s.alone()
	})
}

// TestASiteHearsThatItsPageIsAnothersNow although the cache forgets the page, whose owner is another member's.
func TestASiteHearsThatItsPageIsAnothersNow(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s, members := dividing(t)
		a, b := members[0], members[1]
		from, to := a.works()[0], b.works()[0]
		owned, err := a.pages.Lister().OwnedBy("Site", from)
		must(t, err)
		page := owned[0]
		began := time.Now()
		entity.SetOwner(page, "Site", to, entity.InstanceOf(page))
		must(t, b.pages.Update(t.Context(), page))
		time.Sleep(time.Second)
		for key, of := range map[string]*member{from: a, to: b} {
			calls := s.since(began)[key]
			if len(calls) == 0 || calls[0].member != of.name || calls[0].begin.Sub(began) > 100*time.Millisecond {
				t.Errorf("%s, at which %s works: %v", key, of.name, calls)
			}
		}
	})
}

// TestASourceThatComesLateHasWhatBelongsToTheSlots: nothing waits for it, and it has no more when it comes.
func TestASourceThatComesLateHasWhatBelongsToTheSlots(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		sites := s.sites()
		s.make(sites, many)
		late := func(cfg *entity.Config) { cfg.BindOnly, cfg.OpenLater = true, true }
		var pages []*entity.Client[*page]
		var members []*member
		for _, name := range []string{"a", "b"} {
			m := &member{world: s.away(), name: name}
			m.sites, m.pages = m.world.sites(), m.world.client("Page", "pages", late)
			pages = append(pages, m.pages)
			var err error
			m.c, err = New("sites", m.sites, ReconcilerFunc(func(ctx context.Context, r Request) (Result, error) {
				return Result{}, s.reconcile(ctx, name, r)
			}), usualTiming, WithShards(64), WithMember(name, 1), WithSlotCaches(), Owns(m.pages, WithOptional()))
			must(t, err)
			m.running = m.run(m.c)
			members = append(members, m)
		}
		time.Sleep(30 * time.Second)
		s.touch(many, members...)

		others := s.pages()
		stamp := "1@" + entity.StreamIdentity(members[0].sites.Informer().Status().StreamCreated)
		for i := range many {
			one := s.ownedPage(siteName(i), siteName(i))
			one.Annotations[entity.OwnerRevisionAnnotation] = stamp
			must(t, others.Create(t.Context(), one))
		}
		natstest.Eventually(t, "the pages are there", func() bool {
			return len(holds(pages[0]))+len(holds(pages[1])) == many
		})
		for _, m := range members {
			for _, key := range m.works() {
				if owned, err := m.pages.Lister().OwnedBy("Site", key); err != nil || len(owned) != 1 {
					t.Errorf("%s works at %s, and has %d pages of it: %v", m.name, key, len(owned), err)
				}
			}
		}
	})
}

// TestADividedClientIsOneControllers: another one would miss what others work at.
func TestADividedClientIsOneControllers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		s.slotCaches = true
		a := s.join("a")
		time.Sleep(time.Second)
		other, err := New("others", a.world.client("Shop", "shops"), noReconciler, Watches(a.sites,
			func(context.Context, *site) ([]string, error) { return nil, nil }))
		must(t, err)
		err = other.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "make a client of its own for it") {
			t.Errorf("another controller of the client: %v", err)
		}
		plain := s.join("")
		time.Sleep(time.Second)
		_, err = New("late", plain.sites, noReconciler, WithShards(64), WithMember("late", 1), WithSlotCaches())
		if err == nil || !strings.Contains(err.Error(), "make the controller before anything starts its clients") {
			t.Errorf("a controller of a client that runs: %v", err)
		}
		a.running.halt()
		again, err := New("sites", a.sites, noReconciler, usualTiming)
		must(t, err)
		running := a.world.run(again)
		time.Sleep(5 * time.Second)
		if _, err := a.sites.Lister().List(nil); err != nil {
			t.Errorf("after its end: %v", err)
		}
		running.halt()
	})
}

// TestALostStatusBucketMakesNoNewInstallationWithSlotCaches: what primaries own tells of it, though no cache has it
// yet.
func TestALostStatusBucketMakesNoNewInstallationWithSlotCaches(t *testing.T) {
	onBothCaches(t, func(t *testing.T, s *sharded) {
		members := s.owning()
		was := members[0].c.Instance()
		for _, m := range members {
			m.running.halt()
		}
		must(t, s.js.DeleteKeyValue(t.Context(), "sites-status"))
		a := s.join("a")
		time.Sleep(30 * time.Second)
		if is := a.c.Instance(); is != "" && is != was {
			t.Errorf("the id was %q, and is %q: all %d pages are another installation's now",
				was, is, count(t, a.pages))
		}
		wantDegraded(t, a, "take the id over")
	})
}

// TestAFreedNameResumesWhoWaitsAtAnotherMember than the one whose site owned it.
func TestAFreedNameResumesWhoWaitsAtAnotherMember(t *testing.T) {
	onBothCaches(t, func(t *testing.T, s *sharded) {
		a := s.owning()[0]
		for i := range many { // the page site-NN.t.u is wanted by two sites
			must(t, a.sites.Create(t.Context(), newSite(siteName(i)+".t", "x")))
		}
		time.Sleep(5 * time.Second)
		has, waits := "", ""
		for i := range many {
			if key := siteName(i); a.c.Explain(key).Member != a.c.Explain(key+".t").Member {
				has, waits = key, key+".t"
				break
			}
		}
		must(t, a.sites.Patch(t.Context(), has, []byte(`{"spec":{"title":"t.u"}}`)))
		time.Sleep(5 * time.Second)
		must(t, a.sites.Patch(t.Context(), waits, []byte(`{"spec":{"title":"u"}}`)))
		time.Sleep(10 * time.Minute)
		must(t, a.sites.Delete(t.Context(), has))
		time.Sleep(time.Second)
		page, err := a.pages.Get(t.Context(), has+".t.u")
		must(t, err)
		if _, key, _ := entity.OwnerOf(page); key != waits {
			t.Errorf("a second after it was free %q has it, and not %s", key, waits)
		}
	})
}
