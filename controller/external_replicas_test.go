package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// replica is another controller of the same sites and disks, as another process would have it.
func (w *cloudWorld) replica(opts ...Option) (*Controller[*site], *calls) {
	w.t.Helper()
	seen, sites := &calls{}, w.world.sites()
	c, err := New("sites", sites, seen.reconciler(disksOf(sites, w.driver, quickly...)),
		append([]Option{OwnsExternal(external.Configure(cloudtest.Client{Driver: w.driver}, w.config)),
			WithLeaseTiming(quickLease)}, opts...)...)
	must(w.t, err)
	return c, seen
}

func TestALeaseLostWithKeysInTheBreakerLosesNone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), nil, slowRenewal)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("old", 1)))
		natstest.Eventually(t, "the disk is there", func() bool { return w.reconciled("old") })
		w.cloud.GoAway(false)
		must(t, w.sites.Create(t.Context(), sized("new", 1)))
		must(t, w.sites.Delete(t.Context(), "old"))
		natstest.Eventually(t, "both wait", func() bool { return w.c.Stats().External["Disk"].Waiting == 2 })
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "it does not lead", func() bool { return !w.c.Stats().Leading })
		calls := w.seen.count("new") + w.seen.count("old")
		w.cloud.ComeBack()
		natstest.Eventually(t, "the API is back", func() bool { return !w.away() })
		if n := w.seen.count("new") + w.seen.count("old"); n != calls {
			t.Errorf("%d reconciles without the lease", n-calls)
		}
		w.leaseTo("", time.Second)
		natstest.Eventually(t, "in the next term what waited is done", func() bool {
			return w.cloud.Of("new") == "=1" && w.cloud.Of("old") == "" && w.reconciled("new") && w.gone("old")
		})
		if n := w.cloud.CreatedFor("new"); n != 1 {
			t.Errorf("created %d times", n)
		}
	})
}

func TestALeaseLostWithAnOpenIntentIsTakenUpByTheNextReplica(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, nil, WithLeaseTiming(longLease))
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		r := w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		must(t, w.sites.Create(t.Context(), sized("ghost", 1)))
		natstest.Eventually(t, "operations go on", func() bool {
			return strings.Contains(w.intents("home"), "op-") && strings.Contains(w.intents("ghost"), "op-")
		})
		next, seen := w.replica(WithLeaseTiming(longLease))
		w.run(next)
		natstest.Eventually(t, "the standby lists", func() bool { return w.cloud.Called("GET disks") > 5 })
		if n := seen.count("home"); n != 0 {
			t.Errorf("%d reconciles in a replica that does not lead", n)
		}
		must(t, w.sites.Delete(t.Context(), "ghost"))
		r.halt()
		natstest.Eventually(t, "the other replica asks for the operations", func() bool {
			return seen.count("home") > 0 && seen.count("ghost") > 0
		})
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = false })
		w.finish("")
		natstest.Eventually(t, "all is as wished", func() bool {
			return w.cloud.Of("home") == "=1" && w.cloud.Of("ghost") == "" && w.reconciled("home") && w.gone("ghost")
		})
		if h, g := w.cloud.CreatedFor("home"), w.cloud.CreatedFor("ghost"); h != 1 || g > 1 {
			t.Errorf("created %d and %d times", h, g)
		}
	})
}

func TestTwoReplicasThatTakeTurnsNeitherCreateTwiceNorForget(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, nil, WithLeaseTiming(quickLease))
		w.run(w.c)
		other, _ := w.replica()
		w.run(other)
		const sites = 20
		terms := func() uint64 { return w.c.Stats().Terms + other.Stats().Terms }
		for round := range 3 {
			var before uint64
			for i := range sites {
				key := fmt.Sprintf("s%d", i)
				switch {
				case round == 0:
					must(t, w.sites.Create(t.Context(), sized(key, 1)))
				case round == 1:
					w.resize(key, 2)
				case i < 4:
					must(t, w.sites.Delete(t.Context(), key))
				}
				if i == sites/2 {
					natstest.Eventually(t, "one leads", func() bool {
						return w.c.Stats().Leading || other.Stats().Leading
					})
					before = terms()
					loseLease(t, w.sites)
				}
			}
			natstest.Eventually(t, "the lease is lost, and somebody has it again", func() bool {
				return terms() > before
			})
			natstest.Eventually(t, fmt.Sprintf("round %d is done", round), func() bool {
				for i := range sites {
					key, want := fmt.Sprintf("s%d", i), fmt.Sprintf("=%d", min(round+1, 2))
					if round == 2 && i < 4 {
						if w.cloud.Of(key) != "" || !w.gone(key) {
							return false
						}
					} else if w.cloud.Of(key) != want || !w.reconciled(key) {
						return false
					}
				}
				return true
			})
		}
		for i := range sites {
			if n := w.cloud.CreatedFor(fmt.Sprintf("s%d", i)); n != 1 {
				t.Errorf("s%d: created %d times", i, n)
			}
		}
	})
}
