package manager

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
)

func quickLease() *Lease {
	return &Lease{Bucket: "leases", Key: "fleet", Timing: controller.LeaseTiming{
		Duration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond,
	}}
}

// replica is a process with two controllers.
type replica struct {
	*run
	m      *Manager
	leads  [2]func() bool
	begins atomic.Int64 // reconciles
}

func startReplica(t *testing.T, url string, lease *Lease) *replica {
	t.Helper()
	m := open(t, Config{URL: url, Lease: lease, GracePeriod: 5 * time.Second})
	p := &replica{m: m}
	for i, cfg := range []entity.Config{sites(), {Kind: "Page", Bucket: "pages"}} {
		c, err := controller.New(fmt.Sprint("c", i), client(t, m, cfg), controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) {
				p.begins.Add(1)
				return controller.Result{}, nil
			}), controller.WithLeaseTiming(quickLease().Timing))
		must(t, err)
		p.leads[i] = func() bool { return c.Stats().Leading }
		must(t, m.Add(c))
	}
	p.run = start(t, m)
	return p
}

func (p *replica) leadsAll() bool  { return p.leads[0]() && p.leads[1]() }
func (p *replica) leadsNone() bool { return !p.leads[0]() && !p.leads[1]() }

func TestWithALeaseOfTheProcessAllControllersLeadTogether(t *testing.T) {
	isolated(t)
	s := startServer(t)
	first := startReplica(t, s.URL(), quickLease())
	eventually(t, "the first leads", first.leadsAll)
	second := startReplica(t, s.URL(), quickLease())
	eventually(t, "the second stands by", func() bool { return second.m.isRunning() && first.leadsAll() })
	if !second.leadsNone() {
		t.Error("the second leads something")
	}
	must(t, first.stop())
	eventually(t, "the second leads", second.leadsAll)

	// One that is lost: another process holds it from now on.
	third := startReplica(t, s.URL(), quickLease())
	kv, err := second.m.JetStream().KeyValue(t.Context(), "leases")
	must(t, err)
	_, err = kv.PutString(t.Context(), "fleet", `{"spec":{"holderIdentity":"somebody","leaseDurationSeconds":2}}`)
	must(t, err)
	eventually(t, "nobody leads", func() bool { return second.leadsNone() && third.leadsNone() })
	eventually(t, "one leads again, with both", func() bool {
		return second.leadsAll() && third.leadsNone() || third.leadsAll() && second.leadsNone()
	})
	must(t, second.stop())
	must(t, third.stop())
}

// TestAReplicaWithoutAManagerIsKeptApart: the controllers' own leases stay, so that old and new replicas take turns.
func TestAReplicaWithoutAManagerIsKeptApart(t *testing.T) {
	isolated(t)
	s := startServer(t)
	old := startReplica(t, s.URL(), nil)
	eventually(t, "the old one leads", old.leadsAll)
	renewed := startReplica(t, s.URL(), quickLease())
	eventually(t, "the new one holds the lease of the process", func() bool {
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
	eventually(t, "the new one leads", renewed.leadsAll)
	must(t, renewed.stop())
}
