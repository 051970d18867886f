package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// sharded are replicas that share the keys of one bucket, and what they do.
type sharded struct {
	*world
	takes time.Duration                  // a reconcile
	owns  bool                           // each site owns the pages that its title names
	hangs func(member string, r Request) // called in each reconcile; may be nil

	slotCaches bool // WithSlotCaches

	mu      sync.Mutex
	at      map[string]string   // by key: which replica reconciles it now
	calls   map[string][]called // by key
	overlap []string
}

type called struct {
	member     string
	op         string
	begin, end time.Time
}

// member is one of them.
type member struct {
	*world
	name    string
	sites   *entity.Client[*site]
	pages   *entity.Client[*page]
	c       *Controller[*site]
	running *running
	proxy   *natstest.Proxy
}

func newSharded(t *testing.T) *sharded {
	return &sharded{world: newWorld(t), at: map[string]string{}, calls: map[string][]called{}}
}

// onBothCaches is a test whose replicas have all in their caches, or what belongs to their slots.
func onBothCaches(t *testing.T, f func(t *testing.T, s *sharded)) {
	for name, slotCaches := range map[string]bool{"all": false, "of slots": true} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				s := newSharded(t)
				s.slotCaches = slotCaches
				f(t, s)
			})
		})
	}
}

// withOne is one member at work, on 40 sites.
func withOne(t *testing.T) (*sharded, *member) {
	t.Helper()
	s := newSharded(t)
	a := s.join("a")
	natstest.Eventually(t, "it works", func() bool { return a.c.Stats().Leading })
	s.make(a.sites, 40)
	return s, a
}

// join starts a replica, with shards if its name is not "".
func (s *sharded) join(name string, opts ...Option) *member {
	s.t.Helper()
	proxy := natstest.StartProxy(s.t, s.server.URL())
	_, js := natstest.Connect(s.t, proxy.URL())
	m := &member{world: &world{t: s.t, server: s.server, js: js}, name: name, proxy: proxy}
	m.sites = m.world.sites()
	if name != "" {
		opts = append([]Option{WithShards(64), WithMember(name, 1)}, opts...)
		if s.slotCaches {
			opts = append(opts, WithSlotCaches())
		}
	}
	if s.owns {
		m.sites = m.world.client("Site", "sites", quickCompare)
		m.pages = m.world.client("Page", "pages", quickCompare)
		opts = append(opts, Owns(m.pages, WithPrune()))
	}
	var err error
	m.c, err = New("sites", m.sites, ReconcilerFunc(func(ctx context.Context, r Request) (Result, error) {
		return Result{}, errors.Join(s.reconcile(ctx, name, r), m.writePages(ctx, r))
	}), append([]Option{usualTiming, WithWorkers(8), WithResyncInterval(0)}, opts...)...)
	must(s.t, err)
	m.running = m.run(m.c)
	return m
}

func (s *sharded) reconcile(ctx context.Context, name string, r Request) error {
	began := time.Now()
	s.mu.Lock()
	if other, ok := s.at[r.Key]; ok {
		s.overlap = append(s.overlap, fmt.Sprintf("%s and %s at %s", other, name, r.Key))
	}
	s.at[r.Key] = name
	takes, hangs := s.takes, s.hangs
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	if hangs != nil {
		hangs(name, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, r.Key)
	s.calls[r.Key] = append(s.calls[r.Key], called{name, r.Operations.String(), began, time.Now()})
	return ctx.Err()
}

// writePages writes the pages that a site's title names, such as "a,b".
func (m *member) writePages(ctx context.Context, r Request) error {
	now, err := m.sites.Lister().Get(r.Key)
	if err != nil || m.pages == nil {
		return nil
	}
	for _, title := range strings.Split(now.Spec.Title, ",") {
		wanted := newSite(r.Key+"."+title, "")
		if _, err := CreateOrUpdate(ctx, m.pages, wanted, func(*page) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// take has reconciles take so long from now on.
func (s *sharded) take(takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = takes
}

// last is who reconciled each key last.
func (s *sharded) last() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for _, calls := range s.calls {
		n[calls[len(calls)-1].member]++
	}
	return n
}

// since are the calls that began after a time, by key.
func (s *sharded) since(t time.Time) map[string][]called {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]called{}
	for key, calls := range s.calls {
		if later := slices.DeleteFunc(slices.Clone(calls), func(c called) bool { return c.begin.Before(t) }); len(later) > 0 {
			all[key] = later
		}
	}
	return all
}

// alone fails if two replicas reconciled a key at once.
func (s *sharded) alone() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.overlap) > 0 {
		s.t.Errorf("two at once: %q", s.overlap)
	}
}

// touch changes all sites, and fails unless each is reconciled once, by one of the members.
func (s *sharded) touch(n int, by ...*member) map[string]int {
	s.t.Helper()
	began := time.Now()
	for i := range n {
		must(s.t, by[0].sites.Patch(s.t.Context(), siteName(i),
			fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, began.String())))
	}
	time.Sleep(time.Second + s.takes)
	calls, members := s.since(began), map[string]int{}
	for i := range n {
		key := siteName(i)
		if len(calls[key]) != 1 {
			s.t.Errorf("%s was reconciled %d times: %v", key, len(calls[key]), calls[key])
			continue
		}
		members[calls[key][0].member]++
	}
	for _, m := range by {
		if members[m.name] == 0 {
			s.t.Errorf("%s reconciled none: %v", m.name, members)
		}
	}
	return members
}

// TestMembersShareTheKeys, and each change is reconciled by one of them, whoever comes and goes.
func TestMembersShareTheKeys(t *testing.T) {
	onBothCaches(t, func(t *testing.T, s *sharded) {
		a := s.join("a")
		natstest.Eventually(t, "it works", func() bool { return a.c.Stats().Leading })
		time.Sleep(time.Second)
		s.make(a.sites, 40)
		time.Sleep(time.Second)
		if got := s.last(); got["a"] != 40 {
			t.Fatalf("one alone: %v", got)
		}
		b := s.join("b")
		time.Sleep(5 * time.Second)
		s.touch(40, a, b)
		c := s.join("c")
		time.Sleep(5 * time.Second)
		t.Log(s.touch(40, a, b, c))
		a.running.halt()
		time.Sleep(time.Second)
		s.touch(40, b, c)
		b.running.halt()
		time.Sleep(time.Second)
		if got := s.touch(40, c); got["c"] != 40 {
			t.Errorf("the last: %v", got)
		}
		s.alone()
	})
}

// TestAMemberThatDiesLeavesItsKeysToTheOthers within the lease and two seconds, whether it is gone, or merely cut off.
func TestAMemberThatDiesLeavesItsKeysToTheOthers(t *testing.T) {
	onBothCaches(t, func(t *testing.T, s *sharded) {
		a := s.join("a")
		natstest.Eventually(t, "it works", func() bool { return a.c.Stats().Leading })
		s.make(a.sites, 40)
		b, c := s.join("b"), s.join("c")
		time.Sleep(5 * time.Second)
		s.touch(40, a, b, c)
		for _, dies := range []*member{a, b} { // the first leads
			dies.proxy.Blackhole()
			died := time.Now()
			time.Sleep(time.Second)
			rest := c
			for i := range 40 {
				must(t, rest.sites.Patch(t.Context(), siteName(i), fmt.Appendf(nil, `{"spec":{"title":%q}}`, died.String())))
			}
			time.Sleep(17 * time.Second)
			for i := range 40 {
				calls := s.since(died)[siteName(i)]
				if len(calls) == 0 || calls[0].begin.Sub(died) > 17*time.Second || calls[len(calls)-1].member == dies.name {
					t.Errorf("%s after %s died at %v: %v", siteName(i), dies.name, died, calls)
				}
			}
		}
		time.Sleep(20 * time.Second)
		if !c.c.Stats().Leading {
			t.Error("the last does not lead")
		}
		a.proxy.Resume()
		b.proxy.Resume()
		time.Sleep(30 * time.Second)
		s.touch(40, a, b, c)
		s.alone()
	})
}

// TestAReplicaWithoutShardsAndMembersNeverWorkTogether, and a rolling update leads from one to the other, and back.
func TestAReplicaWithoutShardsAndMembersNeverWorkTogether(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		plain := s.join("")
		natstest.Eventually(t, "it works", func() bool { return plain.c.Stats().Leading })
		standby := s.join("")
		s.make(plain.sites, 20)
		time.Sleep(time.Second)
		standby.running.halt()
		a := s.join("a")
		time.Sleep(time.Second)
		wantDegraded(t, a, "another replica works alone")
		time.Sleep(20 * time.Second)
		if got := s.touch(20, plain); got[""] != 20 {
			t.Errorf("beside one that works alone: %v", got)
		}
		plain.running.halt()
		time.Sleep(5 * time.Second)
		b := s.join("b")
		time.Sleep(5 * time.Second)
		s.touch(20, a, b)

		back := s.join("")
		time.Sleep(time.Minute)
		s.touch(20, a, b)
		wantDegraded(t, back, "works with WithShards(64)")
		a.running.halt()
		time.Sleep(20 * time.Second)
		if got := s.touch(20, b); got["b"] != 20 || back.c.Stats().Leading {
			t.Errorf("beside one member: %v", got)
		}
		b.proxy.Blackhole() // it dies
		time.Sleep(40 * time.Second)
		if degraded := back.c.Stats().Degraded; len(degraded) > 0 {
			t.Errorf("degraded by %v", degraded)
		}
		if got := s.touch(20, back); got[""] != 20 || !back.c.Stats().Leading {
			t.Errorf("after the last member: %v", got)
		}
		s.alone()
	})
}

// TestMembersEndWhereAReplicaOfAnEarlierVersionTakesTheLease: it does not look for members.
func TestMembersEndWhereAReplicaOfAnEarlierVersionTakesTheLease(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		a := s.join("a")
		natstest.Eventually(t, "it works", func() bool { return a.c.Stats().Leading })
		s.make(a.sites, 20)
		b := s.join("b")
		time.Sleep(10 * time.Second)
		s.touch(20, a, b)
		s.leaseTo("an earlier version", 20*time.Second)
		time.Sleep(time.Second)
		taken := time.Now()
		must(t, a.sites.Patch(t.Context(), siteName(0), []byte(`{"spec":{"title":"x"}}`)))
		time.Sleep(15 * time.Second)
		if calls := s.since(taken); len(calls) > 0 {
			t.Errorf("beside it were reconciled %v", calls)
		}
		wantDegraded(t, b, "another replica works alone")
		time.Sleep(20 * time.Second)
		s.touch(20, a, b)
		s.alone()
	})
}

// TestAnotherNumberOfSlotsIsRefused, with what to do: keys would fall into other slots.
func TestAnotherNumberOfSlotsIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		a := s.join("a")
		natstest.Eventually(t, "it works", func() bool { return a.c.Stats().Leading })
		c, err := New("sites", s.away().sites(), ReconcilerFunc(func(context.Context, Request) (Result, error) {
			return Result{}, nil
		}), WithShards(32), WithMember("b", 1))
		must(t, err)
		err = c.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "another number of slots: into 64") ||
			!strings.Contains(err.Error(), "WithShards(64)") {
			t.Errorf("got %v", err)
		}
	})
}

func wantDegraded(t *testing.T, m *member, what string) {
	t.Helper()
	for _, err := range m.c.Stats().Degraded {
		if strings.Contains(err.Error(), what) {
			return
		}
	}
	t.Errorf("nothing says %q: %v", what, m.c.Stats().Degraded)
}

// owning are three members at work, whose sites own a page each.
func (s *sharded) owning(opts ...Option) (members []*member) {
	s.t.Helper()
	s.owns = true
	members = append(members, s.join("a", opts...))
	natstest.Eventually(s.t, "it works", func() bool { return members[0].c.Stats().Leading })
	s.make(members[0].sites, many)
	s.settled(members[0].c, members[0].sites, many)
	members = append(members, s.join("b", opts...), s.join("c", opts...))
	time.Sleep(30 * time.Second) // also for caches to forget what another has
	return members
}

// engaged waits until all members say that the brake is engaged, or that it is not.
func engaged(t *testing.T, members []*member, want bool) {
	t.Helper()
	defer func() {
		for _, m := range members {
			if t.Failed() {
				t.Logf("%s: %+v, leads: %v", m.name, m.c.Stats().Brake, m.c.Stats().Leading)
			}
		}
	}()
	natstest.Eventually(t, fmt.Sprintf("the brake is engaged: %v", want), func() bool {
		for _, m := range members {
			if m.c.Stats().Brake.Engaged != want {
				return false
			}
		}
		return true
	})
}

func (s *sharded) pagesAre(m *member, n int) {
	s.t.Helper()
	natstest.Eventually(s.t, fmt.Sprintf("there are %d pages", n), func() bool { return count(s.t, m.pages) == n })
}

// TestMembersHaveOneBrake, which counts what all of them see vanish, and holds it for all. A release lets it go, whoever
// is asked for that.
func TestMembersHaveOneBrake(t *testing.T) {
	for name, vanish := range map[string]func(*sharded, []*member){
		"while they run":  func(s *sharded, _ []*member) { s.emptied("sites") },
		"the leader ends": func(s *sharded, m []*member) { s.emptied("sites"); time.Sleep(time.Second); m[0].running.halt() },
		"while none runs": func(s *sharded, m []*member) {
			for _, one := range m {
				one.running.halt()
			}
			s.emptied("sites")
			for i, one := range m {
				m[i] = s.join(one.name)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBothCaches(t, func(t *testing.T, s *sharded) {
				members := s.owning()
				vanish(s, members)
				if name == "the leader ends" {
					members = members[1:]
				}
				engaged(t, members, true)
				time.Sleep(time.Minute)
				s.pagesAre(members[0], many)
				must(t, members[len(members)-1].c.ReleaseBrake(t.Context()))
				s.pagesAre(members[0], 0)
				engaged(t, members, false)
				natstest.Eventually(t, "nothing is left", func() bool {
					for _, m := range members {
						if len(m.sites.Records().Keys()) > 0 || m.c.Stats().Remembered > 0 {
							return false
						}
					}
					return true
				})
				s.alone()
			})
		})
	}
}

// TestMembersTearDownWhatIsDeleted, by a writer, and what vanished where that is little.
func TestMembersTearDownWhatIsDeleted(t *testing.T) {
	onBothCaches(t, func(t *testing.T, s *sharded) {
		members := s.owning()
		for i := range many / 2 {
			must(t, members[0].sites.Delete(t.Context(), siteName(i)))
		}
		s.pagesAre(members[0], many/2)
		s.vanishing(many/2, many/2+3)
		s.pagesAre(members[0], many/2-3)
		for _, m := range members {
			if state := m.c.Stats().Brake; state.Engaged {
				t.Errorf("%s: %+v", m.name, state)
			}
		}
		s.alone()
	})
}

// TestMembersPruneWhatIsNotWanted, and the brake holds that of many.
func TestMembersPruneWhatIsNotWanted(t *testing.T) {
	onBothCaches(t, func(t *testing.T, s *sharded) {
		members := s.owning()
		title := func(i int, title string) {
			must(t, members[0].sites.Patch(t.Context(), siteName(i), fmt.Appendf(nil, `{"spec":{"title":%q}}`, title)))
		}
		for i := range many {
			title(i, "t,u")
		}
		s.pagesAre(members[0], 2*many)
		for i := range 4 {
			title(i, "t")
		}
		s.pagesAre(members[0], 2*many-4)
		for i := range many {
			title(i, "t")
		}
		engaged(t, members, true)
		time.Sleep(time.Minute)
		s.pagesAre(members[0], 2*many-4)
		must(t, members[1].c.ReleaseBrake(t.Context()))
		s.pagesAre(members[0], many)
		engaged(t, members, false)
		s.alone()
	})
}

// TestMembersSweepWhatHasNoOwner, and the brake holds much of it.
func TestMembersSweepWhatHasNoOwner(t *testing.T) {
	for orphans, held := range map[int]bool{5: false, 3 * many: true} {
		t.Run(fmt.Sprint(orphans), func(t *testing.T) {
			onBothCaches(t, func(t *testing.T, s *sharded) {
				members := s.owning(WithResyncInterval(20 * time.Second))
				for i := many; i < many+orphans; i++ {
					were(t, members[0].sites, siteName(i))
				}
				time.Sleep(5 * time.Second) // they are torn down
				for i := many; i < many+orphans; i++ {
					must(t, members[0].pages.Create(t.Context(), s.ownedPage(siteName(i), siteName(i))))
				}
				if held {
					engaged(t, members, true)
					time.Sleep(time.Minute)
					s.pagesAre(members[0], many+orphans)
					must(t, members[2].c.ReleaseBrake(t.Context()))
				}
				s.pagesAre(members[0], many)
				engaged(t, members, false)
			})
		})
	}
}

// TestIdleMembersSayLittle: 16 members write at most 10 messages a second together, and reconcile nothing.
func TestIdleMembersSayLittle(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newSharded(t)
		first := s.join("m0")
		natstest.Eventually(t, "it works", func() bool { return first.c.Stats().Leading })
		s.make(first.sites, 40)
		for i := range 15 {
			s.join(fmt.Sprint("m", i+1))
		}
		time.Sleep(30 * time.Second)
		before := s.lastSequence("sites-status")
		time.Sleep(time.Minute)
		if n := s.lastSequence("sites-status") - before; n > 10*60 {
			t.Errorf("%d writes in a minute", n)
		}
	})
}
