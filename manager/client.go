package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/turn"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go/jetstream"
)

// ClientOption changes what a manager does with a client.
type ClientOption func(*clientOptions)

type clientOptions struct{ withoutCache bool }

// WithoutCache says that Run does not fill the client's cache before it starts the rest: for a client that only writes,
// or reads live. A controller that has the client as a source starts the cache all the same, and so does the first read
// of its lister.
func WithoutCache() ClientOption { return func(o *clientOptions) { o.withoutCache = true } }

// Client makes a client that the manager closes, on the manager's connection. Run fills its cache before it starts what
// was added, unless WithoutCache is given.
//
// The clients of one bucket share one cache of its documents, and each reads at once what another wrote. The first one
// for a bucket is made by entity.NewClient. A later one with another StatusBucket is derived from it: so each of
// several controllers over one bucket has records of its own. One with the same StatusBucket is the same client: a
// source of one controller that is the primary of another.
//
// So what a later call says of a bucket must be what the first said, StatusBucket apart. If it is not, or if T is
// another type, the error names the difference. To have a second cache after all, make the client with entity.NewClient
// and Manager.JetStream, and close it.
//
// ctx is for the set-up only. After the manager has stopped Client fails. A client that the caller closes is forgotten.
func Client[T entity.IEntity](
	ctx context.Context, m *Manager, cfg entity.Config, opts ...ClientOption,
) (*entity.Client[T], error) {
	var o clientOptions
	for _, opt := range opts {
		opt(&o)
	}
	client, err := clientOf[T](ctx, &m.clients, cfg, o)
	if err != nil {
		return nil, fmt.Errorf("manager: client of bucket %q: %w", cfg.Bucket, err)
	}
	return client, nil
}

// cached is an entity.Client of any type.
type cached interface {
	Kind() string
	Config() entity.Config
	Informer() natsinformer.Informer
	Records() *entity.Records
	Closed() bool
	Close()
}

// registry has the clients that were made.
type registry struct {
	js     jetstream.JetStream
	only   string // Config.Only
	leases string // Config.Lease.Bucket; "" without a lease

	making turn.Turn // held while a client is made, so that two for one bucket cannot be made apart

	mu      sync.Mutex
	closed  bool
	clients []*registered
}

// registered is a client with what it was asked for: the server changes a limit in its own Config.
type registered struct {
	cached
	asked        entity.Config
	withoutCache bool
	warm         func() (retire func(unused bool) bool, err error)

	filling bool // Run fills it, or did; guarded by registry.mu
	// mu guards what follows.
	mu          sync.Mutex
	retire      func(unused bool) bool // nil before it is filled
	retired     bool                   // it is not kept any more, since its users were removed
	beingFilled bool
}

func clientOf[T entity.IEntity](
	ctx context.Context, r *registry, cfg entity.Config, o clientOptions,
) (*entity.Client[T], error) {
	if err := r.making.Take(ctx); err != nil {
		return nil, err
	}
	defer r.making.Give()
	clients, err := r.open()
	if err != nil {
		return nil, err
	}
	switch r.only {
	case OnlyPermissions:
		cfg.OpenLater = true // which it never is
	case OnlyBuckets:
		cfg.BindOnly, cfg.OpenLater = false, false
	}
	if err := r.checkLeases(cfg.WithDefaults()); err != nil {
		return nil, err
	}
	first := find(clients, cfg.Bucket)
	if first == nil {
		client, err := entity.NewClient[T](ctx, r.js, cfg)
		return keep(r, client, cfg, o, err)
	}
	base, ok := first.cached.(*entity.Client[T])
	if !ok {
		return nil, fmt.Errorf("it has a client of type %T, and this one would be %T: clients of different types "+
			"cannot share a cache; use one type, or make this client with entity.NewClient", first.cached, base)
	}
	if differ := cfg.Differences(first.asked); len(differ) > 0 {
		return nil, fmt.Errorf("it has a client of which %s is not the same, and clients of one bucket share a cache: "+
			"configure both alike, StatusBucket apart, or make this client with entity.NewClient",
			"Config."+strings.Join(differ, ", Config."))
	}
	status := cfg.WithDefaults().StatusBucket
	for _, other := range clients {
		same, ok := other.cached.(*entity.Client[T])
		if ok && other.asked.Bucket == cfg.Bucket && same.Config().StatusBucket == status {
			r.askedAgain(other, o)
			return same, nil
		}
	}
	client, err := base.WithStatusBucket(ctx, status)
	return keep(r, client, cfg, o, err)
}

// checkLeases refuses a client that would take the lease of the process for a document or a record.
func (r *registry) checkLeases(cfg entity.Config) error {
	for field, bucket := range map[string]string{"Bucket": cfg.Bucket, "StatusBucket": cfg.StatusBucket} {
		if r.leases != "" && bucket == r.leases {
			return fmt.Errorf("the client's Config.%s and the manager's Config.Lease.Bucket are both %q: "+
				"give the leases a bucket of their own", field, bucket)
		}
	}
	return nil
}

func keep[T entity.IEntity](
	r *registry, client *entity.Client[T], cfg entity.Config, o clientOptions, err error,
) (*entity.Client[T], error) {
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = append(r.clients, &registered{
		cached: client, asked: cfg, withoutCache: o.withoutCache, warm: client.EnginePort().Warm,
	})
	return client, nil
}

// open returns the clients that there are, without those that were closed. It fails after the end.
func (r *registry) open() ([]*registered, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("the manager has stopped")
	}
	r.clients = slices.DeleteFunc(r.clients, func(c *registered) bool { return c.Closed() })
	return slices.Clone(r.clients), nil
}

// askedAgain is for a client that is there already. One that was retired is filled again with what is added next.
func (r *registry) askedAgain(c *registered, o clientOptions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.withoutCache = c.withoutCache && o.withoutCache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		c.retired, c.retire, c.filling = false, nil, false
	}
}

// find returns a client of a bucket.
func find(clients []*registered, bucket string) *registered {
	for _, c := range clients {
		if c.Config().Bucket == bucket {
			return c
		}
	}
	return nil
}

// unfilled are the clients whose caches Run is to fill and has not begun to fill. They count as begun from now on.
func (r *registry) unfilled() (of []*registered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clients {
		if !c.withoutCache && !c.filling && !c.Closed() {
			c.filling = true
			of = append(of, c)
		}
	}
	return of
}

// retire ends the caches that had users and have none any more, and those of unused that have none.
func (r *registry) retire(unused []*registered) {
	r.mu.Lock()
	clients := slices.Clone(r.clients)
	r.mu.Unlock()
	for _, c := range clients {
		c.end(slices.Contains(unused, c))
	}
}

// close closes all clients.
func (r *registry) close() {
	_ = r.making.Take(context.Background())
	defer r.making.Give()
	r.mu.Lock()
	r.closed = true
	clients := slices.Clone(r.clients)
	r.mu.Unlock()
	for _, c := range slices.Backward(clients) {
		c.Close()
	}
}
