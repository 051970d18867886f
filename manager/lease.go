package manager

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/connection"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"k8s.io/klog/v2"
)

// Lease makes the controllers of a process lead together: of several processes with the same lease, one holds it, and
// only there do controllers apply for their own leases. These stay what keeps two replicas of a controller apart, also
// from one that runs without a manager: a lease of the process alone could not prove to a controller that its cache of
// records shows what the last leader wrote, because it lives in another stream.
//
// Runnables that are no controllers, and controllers WithoutTeardown, run in every process.
type Lease struct {
	// Bucket is the KV bucket of leases, which has no documents and no records: [Client] refuses a client of it. It is
	// created if it is missing, unless BindOnly. What the process needs to read and write its key is in
	// Manager.Permissions and Config.LeasePermissions.
	Bucket   string
	BindOnly bool
	// MaxBytes, Replicas and Placement are those of a bucket that is created. The zero values mean no limit of size,
	// 1, and any servers of the cluster. A mebibyte has room for thousands of leases; in a full bucket no lease can be
	// taken.
	MaxBytes  int64
	Replicas  int
	Placement *jetstream.Placement
	// Key of the lease in the bucket, of letters, digits, '-', '_', '=' and dots between them. The zero value means
	// Config.Name, so replicas must have the same; bytes that no key has are then written as '=' and two hexadecimal
	// digits, and a name of more than 200 bytes is cut, with a hash of the whole. Two programs need different keys: the
	// lease names the controllers of its holder, and a process that waits for it and runs others says so, in
	// Stats.Degraded, its log and /readyz.
	Key string
	// Timing of the lease; the zero value means 15 s, 10 s, 2 s, as client-go has it.
	Timing controller.LeaseTiming
}

func (l *Lease) withDefaults(name string) *Lease {
	filled := *l
	filled.Key = cmp.Or(l.Key, keyOf(name))
	filled.Timing = cmp.Or(l.Timing, controller.LeaseTiming(engine.DefaultOptions().Lease))
	return &filled
}

func (l *Lease) validate() error {
	if l.Bucket == "" {
		return errors.New("Config.Lease.Bucket is empty: name the bucket of leases, which replicas share")
	}
	if err := l.bucket().CheckKey("any"); err != nil {
		return fmt.Errorf("Config.Lease: %w", err)
	}
	if err := l.bucket().CheckKey(l.Key); err != nil {
		return fmt.Errorf("Config.Lease.Key, which is Config.Name unless it is set: %w", err)
	}
	if err := lease.Timing(l.Timing).Validate(); err != nil {
		return fmt.Errorf("Config.Lease.Timing %+v: %w", l.Timing, err)
	}
	return nil
}

// bucket is the bucket of leases, as package entity knows it.
func (l *Lease) bucket() entity.Config {
	return entity.Config{
		Kind: "Lease", Bucket: l.Bucket, BindOnly: l.BindOnly, Replicas: l.Replicas,
		MaxBytes: l.MaxBytes, Placement: l.Placement, StatusBucket: entity.NoStatusBucket,
	}
}

// keyOf is the default key of a process: its name, or what stands for it where a key cannot have it.
func keyOf(name string) string {
	rest := ""
	if len(name) > mostOfName {
		rest = fmt.Sprintf("=-%x", sha256.Sum256([]byte(name)))
		name = name[:mostOfName]
	}
	var key strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_' && i > 0,
			c == '.' && i > 0 && i < len(name)-1 && name[i-1] != '.':
			key.WriteByte(c)
		default:
			fmt.Fprintf(&key, "=%02X", c)
		}
	}
	return key.String() + rest
}

// mostOfName is how many bytes of a name are in a default key.
const mostOfName = 200

// leaseDocument is what the client of the bucket of leases would decode, which it never does.
type leaseDocument = entity.Object[struct{}, struct{}]

// leaseStore keeps the lease in a key, in the form that controllers' own leases have. It is a lease.Store.
type leaseStore struct {
	client *entity.Client[*leaseDocument]
	key    string
}

// openLease opens the bucket of leases.
func (m *Manager) openLease(ctx context.Context) error {
	client, err := entity.NewClient[*leaseDocument](ctx, m.js, m.cfg.Lease.bucket())
	if err != nil {
		return fmt.Errorf("bucket of Config.Lease, which has the fields of the entity.Config that this names: %w", err)
	}
	if err := client.ReadOnly(); err != nil {
		return fmt.Errorf("bucket of Config.Lease: a lease is written: %w", err)
	}
	m.lease = &leaseStore{client, m.cfg.Lease.Key}
	return nil
}

// Load implements lease.Store.
func (s *leaseStore) Load(ctx context.Context) (value []byte, revision uint64, err error) {
	return s.client.GetRaw(ctx, s.key)
}

// Store implements lease.Store.
func (s *leaseStore) Store(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	return s.client.PutRaw(ctx, s.key, value, revision)
}

// lead applies for the lease of the process until end is called. That gives the lease back, unless a controller which
// leads was left behind: then the lease runs out, so that the next process starts later.
func (m *Manager) lead(ctx context.Context, host *lease.Host) (end func(context.Context) error) {
	name := m.cfg.Lease.Bucket + "/" + m.cfg.Lease.Key
	log := logger(ctx).WithValues("bucket", m.cfg.Lease.Bucket, "key", m.cfg.Lease.Key)
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	e := lease.NewElection()
	known := lease.NewLease("lease (bucket " + m.cfg.Lease.Bucket + ")")
	host.Elect, host.Lease = e.Elect, known
	// The lease outlasts the stop: it is given back when the controllers have returned.
	leading, stop := context.WithCancel(context.WithoutCancel(ctx))
	cfg := lease.Config{
		Store: m.lease, Name: name, Timing: lease.Timing(m.cfg.Lease.Timing),
		Controllers:  m.controllers,
		Identity:     fmt.Sprintf("%s_%d_%s", machine, os.Getpid(), nuid.Next()),
		AbsentIsFree: true, // the controllers' own leases keep replicas apart
		Holder:       known.Held,
		Report:       m.reportLease(leading, log, known),
	}
	ended := make(chan error, 1)
	go func() {
		ended <- lease.Run(leading, cfg, func(term context.Context, _ *lease.Term) {
			log.Info("This process leads")
			e.Serve(term)
			if leading.Err() == nil {
				log.Info("The lease of the process was lost")
			}
		})
	}()
	return func(ctx context.Context) error {
		stop()
		if !e.Idle() {
			log.Info("The lease of the process runs out and is not given back: a controller was left behind",
				"after", m.cfg.Lease.Timing.Duration)
			return nil
		}
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reportLease tells each change of why the lease cannot be read or written: the log, and the controllers that wait. The
// log of the connection tells that it is down.
func (m *Manager) reportLease(
	applying context.Context, log klog.Logger, known *lease.Lease,
) func(context.Context, error) {
	var told notify.Fact
	mended := ""
	return func(_ context.Context, err error) {
		known.Report(err)
		switch {
		case err != nil && connection.Of(m.conn).Look().Disturbed():
		case err != nil && told.Tell(notify.Reason(err)):
			mended = "The lease of the process is held as it should be again"
			switch {
			case errors.Is(err, lease.ErrOtherControllers):
				log.Info("The lease of the process is held by one with other controllers", "why", err.Error())
			case errors.Is(err, lease.ErrNotRenewed):
				log.Error(err, "The lease of the process is held by one that does not renew it")
			default:
				log.Error(err, "The lease of the process cannot be read or written")
				mended = "The lease of the process can be read and written again"
			}
		case err == nil && told.Over() && applying.Err() == nil: // else it is over without being mended
			log.Info(mended)
		}
	}
}

// controllers names the controllers of this process as of now, in order.
func (m *Manager) controllers() (names []string) {
	for _, r := range m.present() {
		if _, ok := r.Runnable.(interface{ Stats() controller.Stats }); ok && hasName(r.Runnable) {
			names = append(names, r.name)
		}
	}
	slices.Sort(names)
	return names
}
