package entity

import (
	"context"
	"fmt"
	"reflect"
	"slices"
)

// Differences names the fields in which two configurations say different things, their defaults filled in. StatusBucket
// is not among them: all other settings are the same for clients of which one was derived from the other. Of functions
// it can only tell whether both are set.
func (c Config) Differences(other Config) (fields []string) {
	a, b := reflect.ValueOf(c.withDefaults()), reflect.ValueOf(other.WithDefaults())
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		if name == "StatusBucket" || a.Field(i).Kind() == reflect.Slice && a.Field(i).Len()+b.Field(i).Len() == 0 {
			continue
		}
		if a.Field(i).Kind() == reflect.Func {
			if a.Field(i).IsNil() != b.Field(i).IsNil() {
				fields = append(fields, name)
			}
			continue
		}
		if name == "Indexes" && !slices.EqualFunc(c.Indexes, other.Indexes, Index.looksLike) {
			fields = append(fields, name)
		}
		if name != "Indexes" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			fields = append(fields, name)
		}
	}
	return fields
}

// SharesCacheWith reports whether one of the clients was derived from the other, or both from a third one, by
// WithStatusBucket: then the listers of both read at once what was written through either. Clients that NewClient made
// share nothing.
func (c *Client[T]) SharesCacheWith(other *Client[T]) bool { return c.shared == other.shared }

// WithStatusBucket returns another client of the same documents, with a status bucket of its own: for a second
// controller over one bucket. Both share one cache of documents, so a process holds them once, and what is written
// through one of them the listers of both have at once. Records, statuses, Lister reads of a status, UpdateStatus and
// WaitReconciled are those of each client's own status bucket. All other settings are the same; the status bucket is
// opened or created as NewClient does, and NoStatusBucket means none.
//
// Each of the clients has its own users and hooks and its own Informer, and is closed on its own, in any order. The
// cache of documents runs while one of them has users. Indexers, and other settings of the informer itself, are those
// of all.
//
// A status bucket has one client among those that share a cache. ctx is for the set-up only.
func (c *Client[T]) WithStatusBucket(ctx context.Context, bucket string) (*Client[T], error) {
	cfg := c.cfg
	cfg.StatusBucket = bucket
	if bucket == "" {
		return nil, fmt.Errorf("entity: WithStatusBucket of kind %s: name the status bucket; %q means none",
			cfg.Kind, NoStatusBucket)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if c.closed.Load() {
		return nil, fmt.Errorf("entity: WithStatusBucket of kind %s: the client is closed", cfg.Kind)
	}
	if err := c.shared.claim(cfg); err != nil {
		return nil, fmt.Errorf("entity: WithStatusBucket: %w", err)
	}
	derived, err := c.derive(ctx, cfg)
	if err != nil {
		c.shared.disclaim(cfg)
		return nil, fmt.Errorf("entity: WithStatusBucket: %w", err)
	}
	return derived, nil
}

func (c *Client[T]) derive(ctx context.Context, cfg Config) (*Client[T], error) {
	if err := c.documents.ensureOpen(ctx); err != nil {
		return nil, err
	}
	async := newAsyncWriter(c.js.Conn()) // its own: it ends with the client
	documents := *c.documents
	documents.async = async
	derived := &Client[T]{
		js: c.js, cfg: cfg, keys: c.keys, codec: c.codec, documents: &documents, async: async, hooks: newHookSet(),
		warnings: slices.Clone(c.warnings[:c.documentWarnings]), documentWarnings: c.documentWarnings, shared: c.shared,
	}
	if err := derived.openRecords(ctx, documents.ids); err != nil {
		return nil, err
	}
	logWarnings(ctx, cfg.Kind, derived.warnings[c.documentWarnings:])
	return derived, derived.share()
}
