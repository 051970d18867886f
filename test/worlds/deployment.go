package worlds

import (
	"math/rand/v2"
	"time"

	"github.com/nagi-runtime/nagi/controller"
)

// deployment are the settings that a rolling deploy may change.
type deployment struct {
	workers         int
	resync, compare time.Duration
	given           bool // the id of the installation is
	lease           controller.LeaseTiming
	window          time.Duration // of the brake; 0 is the default
	timeout         time.Duration // of reconciles; 0 is none
}

// settingsOf are those of the first replicas.
func settingsOf(p Plan) deployment {
	return deployment{
		workers: p.Workers, resync: p.Resync, compare: p.Compare, given: true,
		lease: controller.LeaseTiming{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
	}
}

// deploys changes the settings of all processes that start from now on. Those that run keep theirs, and so old and new
// settings take turns. No comparison is rarer than the plan says, for rules wait that long.
func (w *world) deploys(r *rand.Rand) {
	s := deployment{
		workers: 1 + r.IntN(4), resync: pick(r, time.Minute, w.plan.Resync), compare: pick(r, 30*time.Second, w.plan.Compare),
		given: r.IntN(2) == 0 || w.plan.losesInstance(), lease: settingsOf(w.plan).lease, window: pick(r, 0, time.Minute),
		timeout: pick(r, 0, time.Minute),
	}
	if r.IntN(2) == 0 {
		s.lease = controller.LeaseTiming{
			Duration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second,
		}
	}
	w.note("saboteur", "from now on replicas have %+v", s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settings = s
}

// losesInstance reports whether the status bucket may lose the id of the installation: then an operator gives it. Without
// that a new one would be made where nothing tells of the old one, and a later deploy that gives the old one is refused.
func (p Plan) losesInstance() bool { return p.LosesRecords() || p.Has(reserved) }

func (w *world) newProcess(name string) *Process {
	w.mu.Lock()
	s, member := w.settings, w.memberLocked(name)
	w.mu.Unlock()
	p := &Process{Name: name, Plan: w.plan, settings: s, world: w, member: member, done: make(chan struct{})}
	p.Plan.Workers, p.Plan.Resync, p.Plan.Compare = s.workers, s.resync, s.compare
	return p
}

// Options are what a night chooses of a controller.
func (p *Process) Options() []controller.Option {
	s := p.settings
	options := []controller.Option{
		controller.WithWorkers(s.workers), controller.WithResyncInterval(s.resync), controller.WithLeaseTiming(s.lease),
		controller.WithStuckAfter(15 * time.Second),
		controller.WithGracePeriod(5 * time.Second), controller.WithBackoff(5*time.Millisecond, 30*time.Second),
	}
	if p.Plan.Shards > 0 {
		options = append(options, controller.WithShards(p.Plan.Shards), controller.WithMember(p.member, 1))
		if p.Plan.SlotCaches() {
			options = append(options, controller.WithSlotCaches())
		}
	}
	if s.given {
		options = append(options, controller.WithInstance(instance))
	}
	if s.window > 0 {
		options = append(options, controller.WithBrakeWindow(s.window))
	}
	if s.timeout > 0 {
		options = append(options, controller.WithReconcileTimeout(s.timeout))
	}
	return options
}
