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

// TestALeaseOfTheProcessThatIsCutOffIsToldOnce, and once that it can be had again. The renewal and the look after it
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
		for _, line := range []string{
			"The lease of the process cannot be read or written", "The lease of the process can be read and written again",
		} {
			if n := strings.Count(log.text(), line); n != 1 {
				t.Errorf("%q is told %d times", line, n)
			}
		}
		must(t, cut.stop())
	})
}
