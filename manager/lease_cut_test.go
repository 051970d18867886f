package manager

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAReplicaThatWasCutOffIsWellAgain when it waits for the lease of the process, which another replica has by then.
func TestAReplicaThatWasCutOffIsWellAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		network := natstest.StartProxy(t, s.URL())
		cut := startReplica(t, network.URL(), quickLease())
		natstest.Eventually(t, "the first one leads", cut.leadsAll)
		other := startReplica(t, s.URL(), longLease())
		network.Refuse()
		natstest.Eventually(t, "the other one leads", other.leadsAll)
		natstest.Eventually(t, "the first one does not", cut.leadsNone)
		network.Resume()
		natstest.Eventually(t, "nothing is degraded any more", func() bool { return len(degraded(cut.m)) == 0 })
		if !other.leadsAll() || !cut.leadsNone() {
			t.Error("it leads again")
		}
		must(t, cut.stop())
		must(t, other.stop())
	})
}

// degraded names what does not work in the controllers of a manager.
func degraded(m *Manager) (names []string) {
	for _, r := range m.runnables {
		if c, ok := r.Runnable.(interface{ Stats() controller.Stats }); ok {
			names = append(names, slices.Sorted(maps.Keys(c.Stats().Degraded))...)
		}
	}
	return names
}

// TestALeaseOfTheProcessThatIsCutOffIsToldOnce, as the lost connection that it is. The renewal and the look after it
// took turns.
func TestALeaseOfTheProcessThatIsCutOffIsToldOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		network := natstest.StartProxy(t, s.URL())
		ctx, log := withLog(context.Background())
		cut := startReplicaIn(t, ctx, network.URL(), longLease())
		natstest.Eventually(t, "it leads", cut.leadsAll)
		network.Refuse()
		time.Sleep(time.Minute) // the lease is lost meanwhile
		network.Resume()
		natstest.Eventually(t, "nothing is degraded any more", func() bool { return len(degraded(cut.m)) == 0 })
		for line, want := range map[string]int{
			"The lease of the process was lost": 1, "The connection to NATS": 0, // which the log of New has
			"The lease of the process cannot be read or written":     0,
			"The lease of the process can be read and written again": 0,
		} {
			if n := strings.Count(log.text(), line); n != want {
				t.Errorf("%q is told %d times, want %d", line, n, want)
			}
		}
		must(t, cut.stop())
	})
}
