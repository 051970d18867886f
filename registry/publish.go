package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

// DefaultInterval is Options.Interval where it is 0.
const DefaultInterval = 10 * time.Minute

// DefaultMaxBytes is Options.MaxBytes where it is 0 and the primary's bucket has a size: room for hundreds of kinds.
const DefaultMaxBytes = 16 << 20

// Options say how a controller publishes its kind. The zero value is fine.
type Options struct {
	// Version is that of the program. The default is that of the main module, as the binary has it.
	Version string
	// Columns are those of a list of the documents. The default are those of the markers +kubebuilder:printcolumn in
	// Source, and DefaultColumns.
	Columns []Column
	// Source are the Go files of the package with the type of the documents, and of others whose types are in it. They
	// have what is not in a binary otherwise: comments, and markers of kubebuilder (+kubebuilder:validation:Minimum=1).
	//
	//	//go:embed *.go
	//	var Source embed.FS
	//
	// Without it the schema has what the types have themselves: the tags of github.com/invopop/jsonschema, and
	// SwaggerDoc methods.
	Source fs.FS
	// MaxBytes is the size in bytes of the registry's bucket, if this controller makes it. The zero value means
	// DefaultMaxBytes, or less if the primary's Config has a smaller MaxBytes, and no limit if it has none. Replicas,
	// Storage, Placement and Compression are those of the primary's Config. A bucket that exists keeps its own.
	MaxBytes int64
	// BindOnly never makes the registry's bucket. Nor does a controller whose primary is BindOnly.
	BindOnly bool
	// Interval is how often the leader looks whether the entry is as it should be, as it may have been deleted, and
	// how rarely at most it tries again where that fails: give or take a half. The default is DefaultInterval.
	Interval time.Duration
	// JetStream is what to publish with. The default is that of the primary's client.
	JetStream jetstream.JetStream
}

// Publish makes a controller publish its kind in the registry, while it leads: what is there is written only if that
// changes it, by compare-and-set, and what others wrote there stays. Where that cannot be done there is one warning in
// the log, and nothing else happens: it is tried again with more and more time between, and no reconcile waits for it.
//
// New fails if the controller's client does not tell its connection and Options.JetStream does not either, and if a
// column is invalid. A type of which no schema can be derived is published without, and warned about.
//
// Replicas that share the keys (controller.WithShards) are one controller of the entry: the one that leads publishes,
// with the names of all, and writes again when these have been others for half a minute.
//
// Replicas of a controller without a lease (controller.WithoutTeardown) all work, and all publish. Each says once what
// it is, when it starts, so who started last is heard; after that it writes only if its controller is not in the entry.
//
// If the entry says that another controller describes the kind, the server is asked whether that is there: the key
// "_nagi.controller" of its status bucket holds its name. If not, this controller describes the kind, and says so once,
// in the log and in a warning event (ReasonDescriberNotThere). Where that cannot be told the entry stays, which is said
// once too. With an Options.JetStream that is not that of the primary it cannot be told, as the status bucket may be in
// another account. Nor is a controller displaced twice: that it describes the kind again shows that it lives. The right
// to ask, to publish to $JS.API.STREAM.MSG.GET.KV_<that bucket>, is in no permissions: it reads all records of that
// bucket.
//
// [controller.Controller.Permissions] then includes what publishing needs, but not to make the bucket: see
// [Permissions].
func Publish(o Options) controller.Option {
	return func(opts *engine.Options) error {
		if o.Interval < 0 {
			return fmt.Errorf("registry.Publish: Options.Interval is negative (%v)", o.Interval)
		}
		if o.MaxBytes < 0 {
			return fmt.Errorf("registry.Publish: Options.MaxBytes is negative (%d)", o.MaxBytes)
		}
		for _, column := range o.Columns {
			if err := column.check(); err != nil {
				return fmt.Errorf("registry.Publish: %w", err)
			}
		}
		if o.Interval == 0 {
			o.Interval = DefaultInterval
		}
		opts.Beside = append(opts.Beside, &publisher{Options: o})
		return nil
	}
}

// publisher publishes for one controller. It implements engine.Beside.
type publisher struct {
	Options
	engine    *engine.Engine
	primary   entity.Config
	described Entry // all but what is known when it runs
	schemaErr error

	mu      sync.Mutex // of terms, of which one ends before the next begins
	opened  bool
	said    bool // it has published since it was made
	warned  notify.Fact
	doubted notify.Fact // of the controller that describes the kind

	members membership // of this term

	elsewhere bool       // JetStream is not that of the primary
	displaced []identity // by this publisher, as they were not there
}

// identity tells a controller from others.
type identity struct{ name, statusBucket string }

// Join implements engine.Beside.
func (p *publisher) Join(e *engine.Engine) error {
	p.engine = e
	primary, ok := e.Sources()[0].(natsSource)
	if !ok {
		return fmt.Errorf("registry.Publish: the primary (%v) is not in NATS", e.Sources()[0])
	}
	p.primary = primary.Config()
	own := primary.JetStream()
	if p.JetStream == nil {
		p.JetStream = own
	}
	if p.JetStream == nil {
		return errors.New("registry.Publish: the primary's client does not tell its connection, as one does whose " +
			"EnginePort hides it: give it as Options.JetStream")
	}
	p.elsewhere = own == nil || own.Conn() != p.JetStream.Conn() || bucketOf(own).api != bucketOf(p.JetStream).api
	p.primary.BindOnly = p.primary.BindOnly || p.BindOnly
	p.primary.MaxBytes = cmp.Or(p.MaxBytes, min(p.primary.MaxBytes, DefaultMaxBytes))
	p.described, p.schemaErr = p.describe(primary)
	if key := Key(p.described.Kind, p.described.APIVersion); len(key) > longestKey {
		return fmt.Errorf("registry.Publish: kind and group are too long for a key: %d bytes", len(key))
	}
	return nil
}

const longestKey = 1000

// Rights are what publishing needs in NATS, if the bucket exists.
func (p *publisher) Rights(opts ...entity.PermissionOption) (entity.PermissionSet, error) {
	cfg := configOf(p.primary)
	var set entity.PermissionSet
	for _, kind := range append([]string{p.described.Kind}, p.engine.FormerKinds()...) {
		cfg.Filter = Key(kind, p.described.APIVersion)
		one, err := entity.Permissions(cfg, entity.RoleOperator, opts...)
		if err != nil {
			return set, err
		}
		set = set.Join(one)
	}
	return set, nil
}

// RightsOf are those of who reads the registry, or makes its bucket.
func (p *publisher) RightsOf(role entity.Role, opts ...entity.PermissionOption) (entity.PermissionSet, error) {
	switch role {
	case entity.RoleBootstrap:
		return Permissions(role, opts...)
	case entity.RoleReader, entity.RoleOperator: // with lists: nats kv ls nagi-kinds
		return entity.Permissions(configOf(p.primary), entity.RoleReader, opts...)
	}
	return entity.PermissionSet{}, nil
}

// SetUp makes the bucket if it is missing, also for a controller that only binds.
func (p *publisher) SetUp(ctx context.Context) error {
	settings := p.primary
	settings.BindOnly = false
	return bucketOf(p.JetStream).open(ctx, settings)
}

var _ source.Prepared = (*publisher)(nil)

// isPut tells the lines of a permission set that are about values.
func isPut(subject string) bool { return strings.Contains(subject, "$KV.") }

const (
	firstRetry = 2 * time.Second
	mostWrites = 10 // attempts in a row, while others write the key
)

// Run implements engine.Beside: it looks, again and again, whether the entry is as it should be.
func (p *publisher) Run(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened, p.doubted, p.members = false, notify.Fact{}, membership{}
	logger := klog.FromContext(ctx)
	if p.schemaErr != nil {
		logger.Error(p.schemaErr, "The kind is published without a schema")
		p.schemaErr = nil
	}
	for retry := min(firstRetry, p.Interval); ; {
		err := guard.Call(func() error { return p.publish(ctx) })
		if err == nil {
			err = p.leaveFormer(ctx, bucketOf(p.JetStream))
		}
		if ctx.Err() != nil {
			return
		}
		wait := p.Interval
		if err != nil {
			wait, retry = retry, min(2*retry, p.Interval)
			p.warn(logger, err)
		} else {
			retry, p.warned = min(firstRetry, p.Interval), notify.Fact{}
		}
		if !p.pause(ctx, wait) {
			return
		}
	}
}

// pause waits about that long, and returns false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// warn tells of what goes wrong, once as long as it is the same.
func (p *publisher) warn(logger klog.Logger, err error) {
	if !p.warned.Tell(notify.ButNumbers(err.Error())) { // a sequence, a number of bytes
		return
	}
	logger.Error(err, "The kind could not be published in the registry: tools do not find it there, and nothing else "+
		"is amiss. It is tried again, and not told again", "bucket", Bucket,
		"key", Key(p.described.Kind, p.described.APIVersion))
}

// publish makes the entry what it should be.
func (p *publisher) publish(ctx context.Context) error {
	b := bucketOf(p.JetStream)
	if !p.opened {
		if err := b.open(ctx, p.primary); err != nil {
			return err
		}
		p.opened = true
	}
	entry := p.described
	entry.Controllers = slices.Clone(entry.Controllers)
	entry.Controllers[0].Instance = p.engine.InstanceID()
	entry.Controllers[0].Owns, entry.Controllers[0].Watches = resources(p.engine) // some come and go
	entry.Controllers[0].Shards = p.sharing()
	key := Key(entry.Kind, entry.APIVersion)
	for attempt := 1; ; attempt++ {
		now, err := b.get(ctx, key)
		if err == nil {
			var value []byte
			invented := p.doubt(ctx, b, now.value)
			if value, err = merged(entry, now.value, invented, time.Now()); err != nil || value == nil {
				p.said = p.said || err == nil
				return err
			}
			if p.said && p.engine.Brake() == nil && contains(now.value, entry.Controllers[0]) {
				return nil // another replica says otherwise: who started last is heard
			}
			if err = b.put(ctx, key, value, now.revision); err == nil {
				p.said = true
				if invented != nil {
					p.displace(*invented)
				}
			}
		}
		switch {
		case hasCode(err, codeStreamNotFound), errors.Is(err, jetstream.ErrNoStreamResponse):
			p.opened = false // and made the next time, if it may be
		case errors.Is(err, errChanged) && attempt < mostWrites &&
			pause(ctx, time.Duration(attempt)*10*time.Millisecond):
			continue
		}
		return err
	}
}
