package controllerruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// term is a time in which this replica works. Its context is cancelled when the lease is lost, or when the grace period
// of a stop is over.
type term struct {
	ctx    context.Context
	stop   context.Context // Run's; when it ends what runs goes on, but nothing new starts
	logger klog.Logger
}

// over tells whether no new reconcile may start.
func (t *term) over() bool { return t.ctx.Err() != nil || t.stop.Err() != nil }

// terms lets the workers wait for a term.
type terms struct {
	mu      sync.Mutex
	changed *sync.Cond
	current *term
	closed  bool
}

func (ts *terms) init() { ts.changed = sync.NewCond(&ts.mu) }

// await returns the current term, and waits for one if there is none; nil once the controller stops.
func (ts *terms) await() *term {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for ts.current == nil && !ts.closed {
		ts.changed.Wait()
	}
	if ts.closed {
		return nil
	}
	return ts.current
}

func (ts *terms) begin(t *term) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.current = t
	ts.changed.Broadcast()
}

func (ts *terms) end() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.current = nil
}

// over tells whether the controller stops.
func (ts *terms) over() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.closed
}

func (ts *terms) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	ts.changed.Broadcast()
}

func (ts *terms) leading() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.current != nil
}

// elect leads whenever this replica holds the lease, until ctx ends. client-go's leader election decides, over a lock in
// the status bucket. lead returns when its context has ended and nothing runs any more; only then is the lease given
// back, or applied for again, so that two replicas never work at once.
func (e *engine) elect(ctx context.Context, lead func(context.Context)) error {
	if e.records == nil {
		lead(ctx) // without a status bucket there is nothing to hold a lease in
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	lock := &leaseLock{engine: e, identity: fmt.Sprintf("%s_%d_%s", host, os.Getpid(), nuid.Next())}
	for ctx.Err() == nil {
		// Run returns without leading only when ctx ends, or else starts to lead in a goroutine of its own, maybe late.
		var leading sync.WaitGroup
		lock.onHeld = sync.OnceFunc(func() {
			leading.Add(1)
			e.acquired.Store(lock.revision)
		})
		attempt, giveUp := context.WithCancel(ctx)
		lock.begin(giveUp)
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:          lock,
			LeaseDuration: e.opts.lease.Duration,
			RenewDeadline: e.opts.lease.RenewDeadline,
			RetryPeriod:   e.opts.lease.RetryPeriod,
			Name:          e.name,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					lock.onHeld()
					defer leading.Done()
					lead(ctx)
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			giveUp()
			return fmt.Errorf("controller %q: set up the lease: %w", e.name, err)
		}
		elector.Run(attempt)
		lock.end()
		giveUp()
		leading.Wait()
	}
	lock.giveBack(context.WithoutCancel(ctx))
	return nil
}

// leaseLock is client-go's lock over a reserved key of the status bucket. It is called from one goroutine at a time.
type leaseLock struct {
	engine   *engine
	identity string
	revision uint64 // the last one seen
	onHeld   func() // called when it became ours

	giveUp context.CancelFunc // ends the term
	holds  bool
	expiry *time.Timer
}

// begin is before each try to become the leader, end after it.
func (l *leaseLock) begin(giveUp context.CancelFunc) { l.giveUp, l.holds = giveUp, false }

func (l *leaseLock) end() {
	if l.expiry != nil {
		l.expiry.Stop()
	}
}

// renewed ends the term when the lease is not renewed again in time, counted from before the request was sent: others
// count from when the server has it, and client-go from when the answer is here, which may be late.
func (l *leaseLock) renewed(sent time.Time) {
	l.end()
	timing := l.engine.opts.lease
	l.holds = true
	l.expiry = time.AfterFunc(time.Until(sent.Add(min(timing.Duration, timing.RenewDeadline+timing.RetryPeriod))), l.giveUp)
}

// bounded limits one request: what a broken connection swallowed is never answered, and the next try goes over the new one.
func (l *leaseLock) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	timing := l.engine.opts.lease
	return context.WithTimeout(ctx, max(timing.RetryPeriod, min(timing.RenewDeadline, leaseRequest)))
}

// leaseRequest is how long a request about the lease may take.
const leaseRequest = 2 * time.Second

// report tells whether the lease can be read and written; that another holds it is no fault.
func (l *leaseLock) report(ctx context.Context, err error) {
	if errors.Is(err, context.Canceled) {
		return // we stop
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = nil
	}
	l.engine.leaseHealth.Report(ctx, err)
}

// Get implements resourcelock.Interface.
func (l *leaseLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	data, revision, err := l.engine.records.GetReserved(ctx, reservedLease)
	if err != nil {
		l.report(ctx, err)
		l.revision = 0
		return nil, nil, err
	}
	l.revision = revision
	var record resourcelock.LeaderElectionRecord
	if err := json.Unmarshal(data, &record); err != nil {
		err = fmt.Errorf("the lease %s does not decode; delete the key: %w", l.Describe(), err)
		l.report(ctx, err)
		return nil, nil, err
	}
	l.report(ctx, nil)
	if l.holds && record.HolderIdentity != l.identity {
		l.giveUp() // somebody removed the key while it was ours, and another replica was faster
	}
	return &record, data, nil
}

// Create implements resourcelock.Interface.
func (l *leaseLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.revision = 0
	return l.Update(ctx, record)
}

// Update implements resourcelock.Interface.
func (l *leaseLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	sent := time.Now()
	revision, err := l.engine.records.PutReserved(ctx, reservedLease, data, l.revision)
	l.report(ctx, err)
	if err != nil {
		return err
	}
	l.revision = revision
	if record.HolderIdentity == l.identity {
		l.renewed(sent)
	}
	return nil
}

// RecordEvent implements resourcelock.Interface. client-go tells here, in the goroutine of the election, that the lease
// was acquired; its callback comes later and in another.
func (l *leaseLock) RecordEvent(event string) {
	if event == becameLeader {
		l.onHeld()
	}
}

// becameLeader is what client-go's leader election says when it has the lease.
const becameLeader = "became leader"

// Identity implements resourcelock.Interface.
func (l *leaseLock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (l *leaseLock) Describe() string { return l.engine.statusBucket + "/" + reservedLease }

// giveBack lets another replica take over at once instead of after the lease's duration.
func (l *leaseLock) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	record, _, err := l.Get(ctx)
	if err != nil || record.HolderIdentity != l.identity {
		return
	}
	record.HolderIdentity = ""
	record.LeaseDurationSeconds = 1
	if err := l.Update(ctx, *record); err != nil {
		klog.FromContext(ctx).V(2).Info("Lease not given back, it runs out by itself", "lock", l.Describe(), "err", err)
	}
}

// awaitRecords waits until the cache of records shows what the holder of the lease before us wrote: it wrote to the same
// stream, and before we wrote the lease.
func (e *engine) awaitRecords(ctx context.Context) error {
	informer, acquired := e.records.Informer(), e.acquired.Load()
	changes := informer.Status().StreamChanges
	for informer.Status().StreamChanges == changes && informer.Cursor() < acquired {
		slice, cancel := context.WithTimeout(ctx, time.Second)
		err := informer.WaitCursor(slice, acquired)
		cancel()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
