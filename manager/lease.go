package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nats-io/nuid"
)

// Lease makes the controllers of a process lead together: of several processes with the same lease, one holds it, and
// only there do controllers apply for their own leases. These stay what keeps two replicas of a controller apart, also
// from one that runs without a manager: a lease of the process alone could not prove to a controller that its cache of
// records shows what the last leader wrote, because it lives in another stream.
//
// Runnables that are no controllers, and controllers WithoutTeardown, run in every process.
type Lease struct {
	// Bucket is the KV bucket of leases. It is created if it is missing, unless BindOnly.
	Bucket   string
	BindOnly bool
	Replicas int
	// Key of the lease in the bucket. The zero value means Config.Name, so replicas must have the same.
	Key string
	// Timing of the lease; the zero value means 15 s, 10 s, 2 s, as client-go has it.
	Timing controller.LeaseTiming
}

func (l *Lease) withDefaults(name string) *Lease {
	filled := *l
	filled.Key = cmp.Or(l.Key, name)
	filled.Timing = cmp.Or(l.Timing, controller.LeaseTiming(engine.DefaultOptions().Lease))
	return &filled
}

func (l *Lease) validate() error {
	if l.Bucket == "" {
		return errors.New("Config.Lease.Bucket is empty: name the bucket of leases, which replicas share")
	}
	if err := lease.Timing(l.Timing).Validate(); err != nil {
		return fmt.Errorf("Config.Lease.Timing %+v: %w", l.Timing, err)
	}
	return nil
}

// leaseDocument has the record of package lease as its spec, as a Lease of coordination.k8s.io has its own.
type leaseDocument = entity.Object[leaseRecord, struct{}]

// leaseRecord is lease's record, field by field.
type leaseRecord struct {
	HolderIdentity       *string `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds *int    `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          string  `json:"acquireTime,omitempty"`
	RenewTime            string  `json:"renewTime,omitempty"`
	LeaderTransitions    int     `json:"leaderTransitions,omitempty"`
	Strategy             string  `json:"strategy,omitempty"`
	PreferredHolder      string  `json:"preferredHolder,omitempty"`
}

// leaseStore keeps the lease as a document. It is a lease.Store.
type leaseStore struct {
	client *entity.Client[*leaseDocument]
	key    string
}

// openLease opens the bucket of leases.
func (m *Manager) openLease(ctx context.Context) error {
	cfg := m.cfg.Lease
	client, err := entity.NewClient[*leaseDocument](ctx, m.js, entity.Config{
		Kind: "Lease", Bucket: cfg.Bucket, BindOnly: cfg.BindOnly, Replicas: cfg.Replicas,
		StatusBucket: entity.NoStatusBucket,
	})
	if err != nil {
		return fmt.Errorf("bucket of Config.Lease: %w", err)
	}
	m.lease = &leaseStore{client, cfg.Key}
	return nil
}

// Load implements lease.Store.
func (s *leaseStore) Load(ctx context.Context) (value []byte, revision uint64, err error) {
	found, err := s.client.Get(ctx, s.key)
	if err != nil {
		return nil, 0, err
	}
	if revision, err = strconv.ParseUint(found.ResourceVersion, 10, 64); err != nil {
		return nil, 0, err
	}
	value, err = json.Marshal(found.Spec)
	return value, revision, err
}

// Store implements lease.Store.
func (s *leaseStore) Store(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	document := &leaseDocument{}
	document.Name = s.key
	if err := json.Unmarshal(value, &document.Spec); err != nil {
		return 0, err
	}
	write := s.client.Create
	if revision != 0 {
		document.ResourceVersion, write = strconv.FormatUint(revision, 10), s.client.Update
	}
	if err := write(ctx, document); err != nil {
		return 0, err
	}
	return strconv.ParseUint(document.ResourceVersion, 10, 64)
}

// election tells the controllers of a process whether it may lead.
type election struct {
	mu      sync.Mutex
	term    context.Context // nil or over while this process does not lead
	began   chan struct{}   // closed when the next term begins
	members sync.WaitGroup  // of the term
}

// lead applies for the lease of the process until end is called, which gives it back.
func (m *Manager) lead(ctx context.Context) (
	elect func(context.Context) (context.Context, func(), error), end func(context.Context) error,
) {
	log := logger(ctx)
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	e := &election{began: make(chan struct{})}
	// The lease outlasts the stop: it is given back when the controllers have returned.
	leading, stop := context.WithCancel(context.WithoutCancel(ctx))
	var told string
	ended := make(chan error, 1)
	go func() {
		ended <- lease.Run(leading, lease.Config{
			Store: m.lease, Name: m.cfg.Lease.Bucket + "/" + m.cfg.Lease.Key, Timing: lease.Timing(m.cfg.Lease.Timing),
			Identity: fmt.Sprintf("%s_%d_%s", host, os.Getpid(), nuid.Next()),
			Report: func(_ context.Context, err error) {
				text := ""
				if err != nil {
					text = err.Error()
				}
				if text != told && err != nil {
					log.Error(err, "The lease of the process cannot be read or written", "bucket", m.cfg.Lease.Bucket,
						"key", m.cfg.Lease.Key)
				}
				told = text
			},
		}, func(term context.Context, _ *lease.Term) {
			log.Info("This process leads", "bucket", m.cfg.Lease.Bucket, "key", m.cfg.Lease.Key)
			e.serve(term)
			if leading.Err() == nil {
				log.Info("The lease of the process was lost", "bucket", m.cfg.Lease.Bucket, "key", m.cfg.Lease.Key)
			}
		})
	}()
	return e.elect, func(ctx context.Context) error {
		stop()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// serve is one term: it returns when the term is over and no controller works on in it.
func (e *election) serve(term context.Context) {
	e.mu.Lock()
	e.term = term
	close(e.began)
	e.began = make(chan struct{})
	e.mu.Unlock()
	<-term.Done()
	e.mu.Lock()
	e.term = nil // no member joins any more
	e.mu.Unlock()
	e.members.Wait()
}

// elect waits for a term and joins it.
func (e *election) elect(ctx context.Context) (term context.Context, release func(), err error) {
	for {
		e.mu.Lock()
		began := e.began
		if e.term != nil && e.term.Err() == nil {
			e.members.Add(1)
			// It carries what ctx does, the logger and the host, and ends with either.
			member, cancel := context.WithCancelCause(ctx)
			stop := context.AfterFunc(e.term, func() { cancel(context.Canceled) })
			e.mu.Unlock()
			return member, func() { stop(); cancel(nil); e.members.Done() }, nil
		}
		e.mu.Unlock()
		select {
		case <-began:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}
