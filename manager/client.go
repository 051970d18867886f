package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	Start() (stop func(), err error)
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

	mu      turn.Turn // held while a client is made, so that two for one bucket cannot be made apart
	closed  bool
	clients []*registered
}

// registered is a client with what it was asked for: the server changes a limit in its own Config.
type registered struct {
	cached
	asked        entity.Config
	withoutCache bool
}

func clientOf[T entity.IEntity](
	ctx context.Context, r *registry, cfg entity.Config, o clientOptions,
) (*entity.Client[T], error) {
	if err := r.mu.Take(ctx); err != nil {
		return nil, err
	}
	defer r.mu.Give()
	if r.closed {
		return nil, errors.New("the manager has stopped")
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
	r.clients = slices.DeleteFunc(r.clients, func(c *registered) bool { return c.Closed() })
	first := r.find(cfg.Bucket)
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
	for _, other := range r.clients {
		same, ok := other.cached.(*entity.Client[T])
		if ok && other.asked.Bucket == cfg.Bucket && same.Config().StatusBucket == status {
			other.withoutCache = other.withoutCache && o.withoutCache
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
	r.clients = append(r.clients, &registered{client, cfg, o.withoutCache})
	return client, nil
}

// find returns a client of a bucket.
func (r *registry) find(bucket string) *registered {
	for _, c := range r.clients {
		if c.Config().Bucket == bucket {
			return c
		}
	}
	return nil
}

// caches are the clients whose caches Run is to fill.
func (r *registry) caches() (of []*registered) {
	_ = r.mu.Take(context.Background())
	defer r.mu.Give()
	for _, c := range r.clients {
		if !c.withoutCache && !c.Closed() {
			of = append(of, c)
		}
	}
	return of
}

// close closes all clients.
func (r *registry) close() {
	_ = r.mu.Take(context.Background())
	defer r.mu.Give()
	r.closed = true
	for _, c := range slices.Backward(r.clients) {
		c.Close()
	}
}
