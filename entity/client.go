package entity

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

var _ IEntityClient[*Object[struct{}, struct{}]] = (*Client[*Object[struct{}, struct{}]])(nil)

// Client is the IEntityClient of one bucket. Make it with NewClient, and Close it after use.
type Client[T IEntity] struct {
	js        jetstream.JetStream
	cfg       Config
	keys      keyspace
	codec     *codec[T]
	documents *bucket
	async     *asyncWriter
	records   *Records // nil without a status bucket
	hooks     *hookSet // the news of the status bucket

	warnings         []string
	documentWarnings int // so many of them, the first ones, are about the bucket of documents

	shared  *sharing[T]
	started bool // ever; guarded by shared.mu
	current atomic.Pointer[generation[T]]
	closed  atomic.Bool
}

// NewClient opens the buckets of cfg and returns a client of them. It creates missing buckets unless cfg.BindOnly, and
// never changes one that exists. It fails if it cannot serve T or cfg, or if a bucket's settings would lose data; the
// error says what to change. A bucket that takes no writes, as a mirror takes none, is read; see Client.ReadOnly. ctx
// is for the set-up only.
func NewClient[T IEntity](ctx context.Context, js jetstream.JetStream, cfg Config) (*Client[T], error) {
	if js == nil {
		return nil, fmt.Errorf("entity: NewClient for kind %q without a JetStream context: make one with jetstream.New",
			cfg.Kind)
	}
	if err := kvstream.CheckJetStream(js); err != nil {
		return nil, fmt.Errorf("entity: NewClient for kind %q: %w", cfg.Kind, err)
	}
	if cfg.Bucket == "" {
		return nil, fmt.Errorf("entity: Config.Bucket of kind %q is empty: name the bucket of the documents", cfg.Kind)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := checkPointers(reflect.TypeFor[T](), cfg.Kind); err != nil {
		return nil, err
	}
	keys := newKeyspace(cfg)
	codec, err := newCodec[T](cfg, keys)
	if err != nil {
		return nil, err
	}
	indexes, err := newIndexes[T](cfg)
	if err != nil {
		return nil, err
	}
	ids := newWriteIDs()
	async := newAsyncWriter(js.Conn())
	c := &Client[T]{js: js, cfg: cfg, keys: keys, codec: codec,
		documents: newBucket(js, cfg.Bucket, ids, async), async: async, hooks: newHookSet(),
		shared: newSharing(cfg.StatusBucket, indexes)}
	if cfg.OnlyMetadata {
		t, err := onlyMetadata(codec)
		if err != nil {
			return nil, err
		}
		c.shared.transform.Store(t)
	}
	settings, warnings, err := openOrLater(ctx, js, c.documents, cfg)
	if err != nil {
		return nil, fmt.Errorf("entity: %w", err)
	}
	c.warnings, c.documentWarnings = warnings, len(warnings)
	room, err := roomIn(cfg, settings, maxPayload(js, cfg), cfg.Bucket)
	if err != nil {
		return nil, fmt.Errorf("entity: %w", err)
	}
	c.documents.hook = newWriteHook(cfg, keys, cfg.Bucket, room)
	c.documents.shows = &shown{kind: cfg.Kind, keys: keys, secrets: codec.secrets}
	if c.cfg.MaxDocumentBytes, err = documentLimit(cfg, settings, maxPayload(js, cfg), cfg.Bucket); err != nil {
		return nil, fmt.Errorf("entity: %w", err)
	}
	if err := c.openRecords(ctx, ids); err != nil {
		return nil, fmt.Errorf("entity: %w", err)
	}
	logWarnings(ctx, cfg.Kind, c.warnings)
	if err := c.share(); err != nil {
		return nil, fmt.Errorf("entity: %w", err)
	}
	return c, nil
}

func logWarnings(ctx context.Context, kind string, warnings []string) {
	for _, warning := range warnings {
		printable.Logger(klog.FromContext(ctx)).Info("Bucket settings could be better",
			"kind", kind, "warning", warning)
	}
}

func (c *Client[T]) openRecords(ctx context.Context, ids *writeIDs) error {
	if !c.cfg.hasStatus() {
		return nil
	}
	b := newBucket(c.js, c.cfg.StatusBucket, ids, c.async)
	settings, warnings, err := openOrLater(ctx, c.js, b, c.cfg)
	if err != nil {
		return err
	}
	c.warnings = append(c.warnings, warnings...)
	limit, err := roomIn(c.cfg, settings, maxPayload(c.js, c.cfg), b.name)
	if err != nil {
		return err
	}
	keys := c.keys
	keys.bucket = b.name
	b.hook = newWriteHook(c.cfg, keys, b.name, limit)
	b.shows = &shown{kind: c.cfg.Kind, keys: keys, records: true}
	c.records = &Records{
		bucket: b, js: c.js, keys: keys, cfg: c.cfg, limit: limit, status: c.codec, secrets: c.codec.secrets,
		recent: newRecordLRU(), echoes: newEchoes(), division: c.division,
		current: func() *recordCache {
			if g := c.current.Load(); g != nil {
				return g.records
			}
			return nil
		},
		open: func() *recordCache { return c.generation().records },
	}
	return nil
}

// Kind returns the kind of the entities, as configured.
func (c *Client[T]) Kind() string { return c.cfg.Kind }

// JetStream returns the context that the client was made with.
func (c *Client[T]) JetStream() jetstream.JetStream { return c.js }

// Config returns the configuration with its defaults filled in.
func (c *Client[T]) Config() Config { return c.cfg }

// Warnings names settings of the buckets that work, but could be better. Those of a bucket that is opened later
// (Config.OpenLater) are among them once it is open.
func (c *Client[T]) Warnings() []string {
	warnings := slices.Concat(c.warnings, c.documents.lateWarnings())
	if c.records != nil {
		warnings = append(warnings, c.records.bucket.lateWarnings()...)
	}
	return warnings
}

// Records returns the status records; nil if Config.StatusBucket is NoStatusBucket.
func (c *Client[T]) Records() *Records { return c.records }

// Record reads the record of a key live. IsNotFound if it has none.
func (c *Client[T]) Record(ctx context.Context, key string) (*Record, error) {
	if c.records == nil {
		return nil, c.noStatus(key)
	}
	return c.records.Get(ctx, key)
}

func (c *Client[T]) noStatus(key string) error {
	return newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "status",
		"the client has no status bucket (Config.StatusBucket is \"-\")")
}

func (c *Client[T]) decodeEntry(e natsinformer.Entry) (runtime.Object, error) {
	return c.decodeStored(e, c.runningDocuments() != nil)
}

// DocumentOf encodes an entity as Create would write it.
func (c *Client[T]) DocumentOf(obj T) ([]byte, error) {
	return c.codec.encodeOnly(obj, obj.GetName())
}

// FromDocument decodes a document, such as the LastDocument of a record, into the entity of a key.
func (c *Client[T]) FromDocument(key string, revision uint64, document []byte) (T, error) {
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		var none T
		return none, err
	}
	return c.codec.decode(natsKey, revision, document)
}

// Create writes a new document under the key of obj's name and namespace, without status, resourceVersion, generation
// and deletionTimestamp. It sets obj's resourceVersion and generation. IsAlreadyExists if the key has a document,
// IsInvalid if obj is a copy of one of which a transform has left out something (IsTransformed).
func (c *Client[T]) Create(ctx context.Context, obj T) error { return c.CreateWith(ctx, obj) }

// CreateWith is Create with options, such as WithTTL. The document is there with its TTL from the beginning.
func (c *Client[T]) CreateWith(ctx context.Context, obj T, opts ...WriteOption) error {
	d, err := c.prepare(obj)
	if err != nil {
		return err
	}
	o, err := c.writeOptions(d.key, opts)
	if err != nil {
		return err
	}
	if IsTransformed(obj) {
		return newInvalid(c.cfg.Kind, c.cfg.Bucket, d.key, wholeDocument, "it came through a transform of an "+
			"informer (SetTransform, or Config.OnlyMetadata), so it may lack members, which would be lost: create "+
			"what Get, or the LastKnown of a controller, returned")
	}
	if err := c.checkFinalizers(d.key, d.sent.GetFinalizers(), nil); err != nil {
		return err
	}
	if err := c.setLifetime(ctx, &d, o); err != nil {
		return err
	}
	revision, err := c.documents.create(ctx, write{key: d.natsKey, value: d.data, lasts: d.lasts})
	if conflict, ok := errors.AsType[*casError](err); ok {
		return newAlreadyExists(c.cfg.Kind, c.cfg.Bucket, d.key, conflict.actual.live().revision())
	}
	if err != nil {
		return err
	}
	c.wrote(ctx, obj, d, revision)
	if c.shared.transform.Load() != nil {
		setMark(obj, c.cfg.Kind, mark{read: readWhole})
	}
	return nil
}

// Update replaces the document if it is at obj's resourceVersion, and sets the new resourceVersion and generation. It
// never touches the status. Members of objects that T does not know are kept, and so are zeros that the document writes
// out and T leaves out; see the package comment. IsConflict if the document is at another revision, IsNotFound if there
// is none.
//
// If the informer has a transform (SetTransform), what that left out of obj is kept, too, unless obj is one that Get or
// List has read or Create has written, or a copy of such a one. That costs a request. IsInvalid if the transform and
// the caller have both changed one list. An object whose kind was set, or that was made of JSON, does not tell how it
// was read: IsInvalid if it lacks what the transform leaves out.
func (c *Client[T]) Update(ctx context.Context, obj T) error { return c.UpdateWith(ctx, obj) }

// UpdateWith is Update with options: WithTTL and WithoutTTL set, extend, shorten and remove the document's TTL, of
// which Update keeps what is left.
func (c *Client[T]) UpdateWith(ctx context.Context, obj T, opts ...WriteOption) error {
	d, err := c.prepare(obj)
	if err != nil {
		return err
	}
	o, err := c.writeOptions(d.key, opts)
	if err != nil {
		return err
	}
	expected, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil || expected == 0 {
		return newInvalid(c.cfg.Kind, c.cfg.Bucket, d.key, "metadata.resourceVersion",
			fmt.Sprintf("%q is no revision: update what Get or a lister returned, or use Patch or Create",
				obj.GetResourceVersion()))
	}
	if err := c.complete(ctx, obj, &d, expected); err != nil {
		return err
	}
	if err := c.keep(ctx, &d, expected); err != nil {
		return err
	}
	if err := c.setLifetime(ctx, &d, o); err != nil {
		return err
	}
	revision, err := c.documents.put(ctx, write{key: d.natsKey, value: d.data, expected: expected, lasts: d.lasts})
	if conflict, ok := errors.AsType[*casError](err); ok {
		if conflict.actual.live() == nil {
			return newNotFound(c.cfg.Kind, c.cfg.Bucket, d.key)
		}
		return newConflict(c.cfg.Kind, c.cfg.Bucket, d.key,
			fmt.Sprintf("it is at revision %d, not %d", conflict.actual.Revision, expected))
	}
	if err != nil {
		return err
	}
	c.wrote(ctx, obj, d, revision)
	return nil
}
