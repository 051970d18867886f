package rolling

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// busy makes a replica reconcile all the time, so that reconciles overlap if two replicas lead at once.
var busy = []string{"-work", "5ms", "-again", "10ms"}

// busySites is how many sites a busy replica reconciles.
const busySites = 4

// turn is a handover: the first replica leads, the second waits.
type turn struct {
	*world
	first, second *process
	renewals      *renewals
}

// newTurn starts both, and waits while the first renews. A second that ignored the renewals would lead by then.
func newTurn(t *testing.T, first, second side, url string, w *world, timing ...string) *turn {
	t.Helper()
	args := append(append([]string{}, busy...), timing...)
	turn := &turn{world: w, first: w.start(first, append(args, "-url", url)...)}
	w.made(0, busySites, `{"spec":{"title":"first"}}`)
	turn.renewals = w.watchLease()
	turn.second = w.start(second, args...)
	natstest.Eventually(t, "the second runs", func() bool { return len(turn.second.said()) > 0 })
	from := turn.renewals.count()
	natstest.Eventually(t, "the first renews the lease", func() bool { return turn.renewals.count() >= from+15 })
	if turn.second.ever(state.leads) {
		t.Fatal("the second leads while the first does")
	}
	return turn
}

func (s state) leads() bool { return s.Leading }

// takenOver writes to the sites while no replica or already the second leads, and waits until the second has reconciled
// them.
func (u *turn) takenOver(since time.Time) {
	u.t.Helper()
	u.made(0, busySites, `{"spec":{"title":"second"}}`)
	for i := range busySites {
		if by := u.record(siteName(i)).Status.By; by != string(u.second.side) {
			u.t.Errorf("the status of %s is by %q, want %q", siteName(i), by, u.second.side)
		}
	}
	for _, e := range u.second.said() {
		if e.State != nil && e.State.Leading && e.Time.Before(since) {
			u.t.Errorf("the second leads at %v, the first lost the lease at %v", e.Time, since)
		}
	}
	u.apart()
}

// apart checks that no reconcile of one replica overlaps one of the other.
func (u *turn) apart() {
	u.t.Helper()
	ones, others := u.first.spans(), u.second.spans()
	if len(ones) < 10 || len(others) < busySites {
		u.t.Errorf("%d reconciles of the first and %d of the second say little", len(ones), len(others))
	}
	for _, one := range ones {
		for _, other := range others {
			if one.from.Before(other.to) && other.from.Before(one.to) {
				u.t.Fatalf("both work at once: %v; %v", one, other)
			}
		}
	}
}

// short is a lease that runs out in a test. The old code compares times in whole seconds, so it misses renewals within
// one second and may take the lease a second early. By then the term of the first is over, after lease-renew and
// lease-retry.
var short = []string{"-lease-duration", "4s", "-lease-renew", "2s", "-lease-retry", "300ms"}

const (
	shortDuration = 4 * time.Second
	early         = time.Second
)

// long is a lease that does not run out within a test.
var long = []string{"-lease-duration", "2m", "-lease-renew", "1m", "-lease-retry", "200ms"}

func TestTheOtherCodeTakesOverFromAReplicaThatWasKilled(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		w := newWorld(t)
		u := newTurn(t, first, second, w.server.URL(), w, short...)
		killed := time.Now()
		u.first.kill()
		u.takenOver(killed)
		u.renewals.ranOut(t)
	})
}

func TestTheOtherCodeTakesOverAtOnceFromAReplicaThatStops(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		w := newWorld(t)
		u := newTurn(t, first, second, w.server.URL(), w, long...)
		stopped := time.Now()
		u.first.stop()
		u.takenOver(stopped)
	})
}

func TestTheOtherCodeTakesOverFromAReplicaThatIsCutOff(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		w := newWorld(t)
		proxy := natstest.StartProxy(t, w.server.URL())
		u := newTurn(t, first, second, proxy.URL(), w, short...)
		cut := time.Now()
		proxy.Blackhole()
		u.takenOver(cut)
		u.renewals.ranOut(t)
		proxy.Cut()
		proxy.Resume()
		// The first is back, and waits its turn.
		u.made(0, busySites, `{"spec":{"title":"third"}}`)
		u.second.stop()
		u.made(0, busySites, `{"spec":{"title":"fourth"}}`)
		if by := u.record(siteName(0)).Status.By; by != string(first) {
			t.Errorf("the status is by %q, want %q", by, first)
		}
		u.apart()
	})
}

// renewals returns the writes of the lease.
type renewals struct {
	mu   sync.Mutex
	list []renewal
}

type renewal struct {
	holder string
	at     time.Time // by the server
}

func (w *world) watchLease() *renewals {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	watcher, err := w.kv(status).Watch(ctx, leaseKey)
	must(w.t, err)
	all, done := &renewals{}, make(chan struct{})
	go func() {
		defer close(done)
		for entry := range watcher.Updates() {
			if entry != nil {
				all.add(w.t, entry)
			}
		}
	}()
	w.t.Cleanup(func() {
		_ = watcher.Stop()
		cancel()
		<-done
	})
	return all
}

func (r *renewals) add(t *testing.T, entry jetstream.KeyValueEntry) {
	var lease struct {
		Holder string `json:"holderIdentity"`
	}
	if err := json.Unmarshal(entry.Value(), &lease); err != nil {
		t.Errorf("the lease is %q: %v", entry.Value(), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, renewal{lease.Holder, entry.Created()})
}

func (r *renewals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.list)
}

// ranOut checks that the lease changed hands once, after it had run out.
func (r *renewals) ranOut(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := 0
	for i := 1; i < len(r.list); i++ {
		before, after := r.list[i-1], r.list[i]
		if before.holder == after.holder {
			continue
		}
		taken++
		if age := after.at.Sub(before.at); age < shortDuration-early {
			t.Errorf("%q took the lease %v after %q had renewed it", after.holder, age, before.holder)
		}
	}
	if taken != 1 {
		t.Errorf("the lease was taken %d times, want once", taken)
	}
}
