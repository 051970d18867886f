package servers

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/shards"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
)

// longLease outlasts the election of a leader, which takes up to ten seconds.
var longLease = controller.LeaseTiming{
	Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
}

// TestTheLeaderOfTheStreamIsKilledWhileSlotsMove, in real time, in a cluster: as a member joins, with leases that outlast
// the election, and as one leaves, with leases that end meanwhile.
func TestTheLeaderOfTheStreamIsKilledWhileSlotsMove(t *testing.T) {
	t.Parallel()
	t.Run("a member joins", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, longLease)
		a, b := m.start("a"), m.start("b")
		m.share(a, b)
		m.fill(60)
		m.busy(a, b)
		c := m.start("c")
		natstest.Eventually(t, "slots move", func() bool { return len(m.keysOf("c", m.keys)) > 0 })
		m.kill(a, b)
		m.goOn(a, b, c)
		if ids := m.ids(); len(ids) != 3 {
			t.Errorf("a lease was lost: %v", ids)
		}
	})
	t.Run("a member leaves", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, shortLease)
		a, b, c := m.start("a"), m.start("b"), m.start("c")
		m.share(a, b, c)
		m.fill(60)
		m.busy(c)
		had := len(m.keysOf("c", m.keys))
		c.do("leave")
		natstest.Eventually(t, "slots move", func() bool { return len(m.keysOf("c", m.keys)) < had })
		m.kill(c)
		m.goOn(a, b)
	})
}

// moving is a fleet at a cluster.
type moving struct {
	*fleet
	w       *world
	cluster [members]*process
	keys    []string
	slots   map[int]bool // in which members are busy, so that they do not move yet
	before  uint64       // the last message that the stream had as its leader was killed
	elected time.Time    // when there was another leader
}

func newMoving(t *testing.T, lease controller.LeaseTiming) *moving {
	t.Helper()
	m := &moving{slots: map[int]bool{}}
	m.w, m.cluster = newCluster(t, version{server.VERSION, "current", true})
	m.fleet = newFleet(t, m.cluster[:], memberConfig{Replicas: members, Lease: lease, Takes: 20 * time.Millisecond})
	return m
}

func (m *moving) fill(many int) {
	m.Helper()
	m.keys = m.fleet.fill(many)
	m.writing()
}

// busyOfEach is how many of its 8 workers a member is busy with.
const busyOfEach = 5

// busy has members be busy until they are told to go on.
func (m *moving) busy(at ...*member) {
	m.Helper()
	for _, one := range at {
		its := m.keysOf(one.name, m.keys)[:busyOfEach]
		for _, key := range its {
			m.slots[shards.SlotOf(key, slots)] = true
		}
		one.do("wait", its...)
		natstest.Eventually(m, one.name+" is busy", func() bool { return len(one.lines("waits ")) == busyOfEach })
	}
}

// kill kills the server that leads the stream of the status bucket, and has members go on that were busy.
func (m *moving) kill(busy ...*member) {
	m.Helper()
	const stream = "KV_shops-status"
	killed := m.w.leader(stream)
	all := m.messages("")
	m.before = all[len(all)-1].sequence
	m.cluster[killed].kill()
	for _, one := range busy {
		one.do("go")
	}
	natstest.Eventually(m, "there is another leader", func() bool { return m.w.leader(stream) != killed })
	m.elected = time.Now()
}

// goOn fails unless all slots are at work at some members in time, and these work at the keys.
func (m *moving) goOn(all ...*member) {
	m.Helper()
	m.share(all...)
	took := time.Since(m.elected)
	if took > m.config.Lease.Duration+2*time.Second {
		m.Errorf("all slots are at work %v after there was a leader", took)
	}
	moved := 0
	for _, s := range m.messages(slotKey) {
		if s.sequence > m.before && m.slots[slotOf(s)] {
			moved++
		}
	}
	if moved == 0 {
		m.Error("no slot was to move when the leader was killed")
	}
	m.Logf("all slots are at work %v after there was a leader, to which came %d writes of the busy slots", took, moved)
	m.text("five", m.keys...)
	m.reconciled(m.keys...)
	for _, key := range m.keys {
		m.texts(key, "five")
	}
	m.judge(m.attempts(none))
}

// ids are those of all lives of members.
func (m *moving) ids() map[string]bool {
	all := map[string]bool{}
	for _, s := range m.messages(memberKey) {
		all[strings.TrimPrefix(s.key, memberKey)] = true
	}
	return all
}

// writing changes shops, one after the other, for as long as the test lasts: but for their texts.
func (m *moving) writing() {
	ctx, cancel := context.WithCancel(m.Context())
	var writes sync.WaitGroup
	writes.Go(func() {
		for ctx.Err() == nil {
			one, cancel := context.WithTimeout(ctx, time.Second)
			patch := `{"metadata":{"annotations":{"at":"` + time.Now().String() + `"}}}`
			_ = m.shops.Patch(one, m.keys[rand.IntN(len(m.keys))], []byte(patch)) // there may be no leader
			cancel()
			time.Sleep(5 * time.Millisecond) // some hundred a second
		}
	})
	m.Cleanup(func() {
		cancel()
		writes.Wait()
	})
}
