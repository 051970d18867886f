package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

func quickLease() *Lease {
	return &Lease{Bucket: "leases", Key: "fleet", Timing: controller.LeaseTiming{
		Duration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond,
	}}
}

// longLease is for tests in which each holder gives its lease back. One that is only slow keeps it.
func longLease() *Lease {
	return &Lease{Bucket: "leases", Key: "fleet", Timing: controller.LeaseTiming{
		Duration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 100 * time.Millisecond,
	}}
}

// replica is a process with two controllers.
type replica struct {
	*run
	m      *Manager
	leads  [2]func() bool
	stats  [2]func() controller.Stats
	why    func() controller.Explanation // of a key of the first
	begins atomic.Int64                  // reconciles
}

func startReplica(t *testing.T, url string, lease *Lease) *replica {
	t.Helper()
	return startReplicaIn(t, silent(context.Background()), url, lease)
}

// startReplicaIn starts a replica whose logger is that of ctx. Its controllers have leases like that of the process;
// they have long ones if there is none.
func startReplicaIn(t *testing.T, ctx context.Context, url string, lease *Lease) *replica {
	t.Helper()
	m := open(t, Config{URL: url, Lease: lease, GracePeriod: 5 * time.Second})
	p := &replica{m: m}
	timing := longLease().Timing
	if lease != nil {
		timing = lease.Timing
	}
	for i, cfg := range []entity.Config{{Kind: "Site", Bucket: "sites"}, {Kind: "Page", Bucket: "pages"}} {
		c, err := controller.New(fmt.Sprint("c", i), client(t, m, cfg), controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) {
				p.begins.Add(1)
				return controller.Result{}, nil
			}), controller.WithLeaseTiming(timing))
		must(t, err)
		p.leads[i], p.stats[i] = func() bool { return c.Stats().Leading }, c.Stats
		must(t, m.Add(c))
		if i == 0 {
			p.why = func() controller.Explanation { return c.Explain("home") }
		}
	}
	p.run = startIn(t, ctx, m)
	return p
}

func (p *replica) leadsAll() bool  { return p.leads[0]() && p.leads[1]() }
func (p *replica) leader() string  { return p.why().Leader }
func (p *replica) terms() uint64   { return p.stats[0]().Terms + p.stats[1]().Terms }
func (p *replica) leadsNone() bool { return !p.leads[0]() && !p.leads[1]() }

func TestWithALeaseOfTheProcessAllControllersLeadTogether(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		first := startReplica(t, s.URL(), longLease())
		natstest.Eventually(t, "the first leads", first.leadsAll)
		second := startReplica(t, s.URL(), longLease())
		natstest.Eventually(t, "the second stands by", func() bool { return second.m.isRunning() && first.leadsAll() })
		if !second.leadsNone() {
			t.Error("the second leads something")
		}
		must(t, first.stop())
		natstest.Eventually(t, "the second leads", second.leadsAll)

		// One that is lost: another process holds it from now on.
		third := startReplica(t, s.URL(), longLease())
		kv, err := second.m.JetStream().KeyValue(t.Context(), "leases")
		must(t, err)
		_, err = kv.PutString(t.Context(), "fleet", `{"holderIdentity":"somebody","leaseDurationSeconds":3600}`)
		must(t, err)
		natstest.Eventually(t, "nobody leads", func() bool { return second.leadsNone() && third.leadsNone() })
		must(t, kv.Delete(t.Context(), "fleet"))
		natstest.Eventually(t, "one leads again, with both", func() bool {
			return second.leadsAll() && third.leadsNone() || third.leadsAll() && second.leadsNone()
		})
		must(t, second.stop())
		must(t, third.stop())
	})
}

// TestAReplicaWithoutAManagerIsKeptApart: the controllers' own leases stay, so that old and new replicas take turns.
func TestAReplicaWithoutAManagerIsKeptApart(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		old := startReplica(t, s.URL(), nil)
		natstest.Eventually(t, "the old one leads", old.leadsAll)
		renewed := startReplica(t, s.URL(), longLease())
		natstest.Eventually(t, "the new one holds the lease of the process", func() bool {
			kv, err := old.m.JetStream().KeyValue(t.Context(), "leases")
			if err != nil {
				return false
			}
			_, err = kv.Get(t.Context(), "fleet")
			return err == nil
		})
		if !renewed.leadsNone() {
			t.Error("two replicas of one controller lead")
		}
		must(t, old.stop())
		natstest.Eventually(t, "the new one leads", renewed.leadsAll)
		must(t, renewed.stop())
	})
}

// leases is the bucket of leases, made as the first replica makes it, and a function that puts a value there.
func leases(t *testing.T, url string) (kv jetstream.KeyValue, put func(value string)) {
	t.Helper()
	m := open(t, Config{URL: url, Lease: quickLease()})
	kv, err := m.JetStream().KeyValue(t.Context(), "leases")
	must(t, err)
	return kv, func(value string) {
		t.Helper()
		_, err := kv.PutString(t.Context(), "fleet", value)
		must(t, err)
	}
}

// garbled are values that are no lease.
var garbled = map[string]string{
	"text": "mine", "nothing": "", "a list": "[1]", "answer": `{"stream":"KV_leases","seq":12}`,
	"a document": `{"metadata":{"name":"fleet"},"spec":{}}`, "null": "null",
}

func TestGarbageInTheLeaseOfTheProcessIsToldAndTakenOver(t *testing.T) {
	for name, value := range garbled {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				isolated(t)
				s := startServer(t)
				kv, put := leases(t, s.URL())
				put(value)
				began := time.Now()
				ctx, log := withLog(context.Background())
				p := startReplicaIn(t, ctx, s.URL(), quickLease())
				natstest.Eventually(t, "it is told", func() bool { return strings.Contains(log.text(), "holds no lease") })
				natstest.Eventually(t, "it shows in health", func() bool {
					err := p.stats[1]().Degraded["lease (bucket leases)"]
					return err != nil && strings.Contains(err.Error(), "holds no lease") || p.leadsAll()
				})
				natstest.Eventually(t, "it is taken over", p.leadsAll)
				if took := time.Since(began); took < quickLease().Timing.Duration {
					t.Errorf("it was taken over after %v, before the holder could write it again", took)
				}
				must(t, p.stop())

				// A holder writes over what comes later, and goes on.
				p = startReplica(t, s.URL(), longLease())
				natstest.Eventually(t, "it leads", p.leadsAll)
				terms := p.terms()
				put(value)
				natstest.Eventually(t, "the lease is written again", func() bool {
					entry, err := kv.Get(t.Context(), "fleet")
					return err == nil && strings.Contains(string(entry.Value()), "holderIdentity")
				})
				must(t, p.stop())
				if got := p.terms(); got != terms {
					t.Errorf("%d terms after %d", got, terms)
				}
			})
		})
	}
}

// TestADeletedLeaseOfTheProcessIsFreeAtOnce, for who comes then, and for who has waited.
func TestADeletedLeaseOfTheProcessIsFreeAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		kv, put := leases(t, s.URL())
		slow := quickLease()
		slow.Timing = controller.LeaseTiming{
			Duration: time.Hour, RenewDeadline: 30 * time.Minute, RetryPeriod: 100 * time.Millisecond,
		}
		held := `{"holderIdentity":"somebody who is gone","leaseDurationSeconds":3600}`
		put(held)
		must(t, kv.Delete(t.Context(), "fleet"))
		p := startReplica(t, s.URL(), slow)
		natstest.Eventually(t, "who comes then leads", p.leadsAll)
		must(t, p.stop())

		put(held)
		waiting := startReplica(t, s.URL(), slow)
		natstest.Eventually(t, "it has seen who leads", func() bool { return waiting.leader() == "somebody who is gone" })
		must(t, kv.Delete(t.Context(), "fleet"))
		natstest.Eventually(t, "who has waited leads", waiting.leadsAll)
		must(t, waiting.stop())
	})
}

// holderOf is who holds the lease of the process, as its key says.
func holderOf(t *testing.T, kv jetstream.KeyValue) string {
	t.Helper()
	entry, err := kv.Get(t.Context(), "fleet")
	must(t, err)
	var record struct{ HolderIdentity string }
	must(t, json.Unmarshal(entry.Value(), &record))
	return record.HolderIdentity
}

func TestAStandbyTellsWhichProcessLeads(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		first := startReplica(t, s.URL(), longLease())
		natstest.Eventually(t, "the first leads", first.leadsAll)
		kv, err := first.m.JetStream().KeyValue(t.Context(), "leases")
		must(t, err)
		must(t, client(t, first.m, entity.Config{Kind: "Site", Bucket: "sites"}).Create(t.Context(), newSite("home", "Home")))
		holder := holderOf(t, kv)
		second := startReplica(t, s.URL(), longLease())
		natstest.Eventually(t, "the second knows", func() bool {
			why := second.why()
			return why.State == controller.StateStandby && why.Leader == holder && strings.Contains(why.Says, holder)
		})
		must(t, first.stop())
		natstest.Eventually(t, "the second leads, by its own lease", func() bool {
			return second.leadsAll() && second.leader() != holder
		})
		must(t, second.stop())
	})
}

// TestALeaseOfTheProcessThatCannotBeHadShows in each controller, and in what probes and metrics make of that.
func TestALeaseOfTheProcessThatCannotBeHadShows(t *testing.T) {
	const problem = "lease (bucket leases)"
	for name, denied := range map[string]string{
		"written": "$KV.leases.>", "read": "$JS.API.STREAM.MSG.GET.KV_leases",
	} {
		t.Run("not "+name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				isolated(t)
				var granted atomic.Bool
				s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
					rights := &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}}}
					if !granted.Load() {
						rights.Publish.Deny = []string{denied}
					}
					o.Users = []*server.User{{Username: "fleet", Password: "x", Permissions: rights}}
				}))
				ctx, log := withLog(context.Background())
				p := startReplicaIn(t, ctx, strings.Replace(s.URL(), "//", "//fleet:x@", 1), longLease())
				probe := probes.New()
				for i, stats := range p.stats {
					probe.Add(fmt.Sprint("c", i), controllerOf(stats))
					natstest.Eventually(t, "it shows", func() bool { return stats().Degraded[problem] != nil })
				}
				natstest.Eventually(t, "each is not ready because of that", func() bool {
					problems := probe.Ready().Problems
					return len(problems) == 2 && problems[0].What == problem && strings.Contains(problems[0].Reason, "leases")
				})
				// A request that had no answer in time is told, too, and then the denial again.
				denials, others := 0, 0
				for line := range strings.Lines(log.text()) {
					if strings.Contains(line, "The lease of the process cannot be read or written") {
						if strings.Contains(line, "grant the user") {
							denials++
						} else {
							others++
						}
					}
				}
				if denials == 0 || denials > 1+others {
					t.Errorf("the log tells of the denial %d times, and of others %d times:\n%s", denials, others, log.text())
				}
				granted.Store(true)
				must(t, s.Restart())
				natstest.Eventually(t, "it leads", p.leadsAll)
				natstest.Eventually(t, "all is well", func() bool { return probe.Ready().OK })
				must(t, p.stop())
			})
		})
	}
}

type controllerOf func() controller.Stats

func (c controllerOf) Stats() controller.Stats { return c() }

func TestAKeyThatTheBucketOfLeasesCannotHaveIsAnError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for _, key := range []string{
			"my fleet", "*", ">", "a.*", "a/b", ".a", "a..b", "flöte", "_nagi.lease", strings.Repeat("x", 2000),
		} {
			_, err := newManager(silent(t.Context()),
				Config{URL: "nats://127.0.0.1:1", Lease: &Lease{Bucket: "leases", Key: key}})
			mustSay(t, err, "Config.Lease.Key")
		}
		for _, bucket := range []string{"a b", "a.b", "*"} {
			_, err := newManager(silent(t.Context()), Config{URL: "nats://127.0.0.1:1", Lease: &Lease{Bucket: bucket}})
			mustSay(t, err, "Config.Lease", "Config.Bucket")
		}
	})
}

// TestTheDefaultKeyOfTheLeaseIsLegalWhateverTheProgramIsCalled, and two names have two keys.
func TestTheDefaultKeyOfTheLeaseIsLegalWhateverTheProgramIsCalled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		names := []string{
			"sites", "sites.v2", "a=b", "my fleet", "my=20fleet", "my_fleet", "*", ">", "a.>", ".hidden", "a..b", "a.", "flöte",
			"_nagi", "a/b", `a\b`, "\x00", "\xff", "sites.exe", strings.Repeat("x", 3000), strings.Repeat("x", 3001),
		}
		of := map[string]string{}
		for _, name := range names {
			cfg := Config{Name: name, Lease: &Lease{Bucket: "leases"}}.withDefaults()
			key := cfg.Lease.Key
			if err := cfg.validate(); err != nil {
				t.Errorf("%q has the key %q: %v", name, key, err)
			}
			if other, taken := of[key]; taken {
				t.Errorf("%q and %q have the same key %q", name, other, key)
			}
			of[key] = name
		}
		for key, name := range map[string]string{"sites": "sites", "sites.v2": "sites.v2", "my=20fleet": "my fleet"} {
			if got := (Config{Name: name, Lease: &Lease{Bucket: "leases"}}).withDefaults().Lease.Key; got != key {
				t.Errorf("%q has the key %q, want %q", name, got, key)
			}
		}
	})
}

// TestABucketOfLeasesHasTheSizeThatAnAccountWants: and says which field to set.
func TestABucketOfLeasesHasTheSizeThatAnAccountWants(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, natstest.WithConfigText(`accounts: { A: { jetstream: { max_bytes_required: true },
			users: [ { user: a, password: a } ] } }, no_auth_user: a`))
		_, err := newManager(silent(t.Context()), Config{URL: srv.URL(), Lease: quickLease()})
		mustSay(t, err, "Config.Lease", "set Config.MaxBytes", `bucket "leases"`)
		lease := quickLease()
		lease.MaxBytes = 1 << 20
		m := open(t, Config{URL: srv.URL(), Lease: lease})
		stream, err := m.JetStream().Stream(t.Context(), "KV_leases")
		must(t, err)
		if got := stream.CachedInfo().Config.MaxBytes; got != 1<<20 {
			t.Errorf("the bucket has %d bytes", got)
		}
	})
}
