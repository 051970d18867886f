package entity

import (
	"context"

	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/apimachinery/pkg/labels"
)

// IEntityClient reads and writes the entities of one bucket. Client implements it; to change one method, embed a client
// and override it. Keys are client-go's: "name", or "namespace/name" where the bucket is Namespaced. Errors are
// apimachinery's. All methods may be called concurrently.
type IEntityClient[T IEntity] interface {
	// Kind is the kind of the entities, as configured.
	Kind() string
	// Get reads document and status live, from the streams' leaders.
	Get(ctx context.Context, key string) (T, error)
	// List reads all documents and statuses live.
	List(ctx context.Context) ([]T, error)
	// Create writes a new document and sets obj's resourceVersion. IsAlreadyExists if the key has a document.
	Create(ctx context.Context, obj T) error
	// Update replaces the document if it is at obj's resourceVersion, and sets the new one. It never touches status,
	// and keeps the members of objects that T does not know.
	Update(ctx context.Context, obj T) error
	// Patch applies an RFC 7386 merge patch to the stored JSON by compare-and-set. Unknown fields survive.
	Patch(ctx context.Context, key string, mergePatch []byte) error
	// UpdateStatus writes obj's status to the record. It conflicts only with another writer of status.
	UpdateStatus(ctx context.Context, obj T) error
	// StatusChange encodes obj's status for a caller that writes it into the record together with something else.
	StatusChange(obj T) (*StatusChange, error)
	// Delete puts a marker that expires. IsNotFound if there is no document.
	Delete(ctx context.Context, key string, opts ...DeleteOption) error
	// Informer is the shared cache of documents. It runs while the client has users; see Start.
	Informer() natsinformer.Informer
	// Lister reads the cache, with statuses joined. It sees what was written through this client, or through one that
	// shares its cache, at once.
	Lister() Lister[T]

	// Config is the configuration with its defaults filled in.
	Config() Config
	// ReadOnly returns why the bucket of documents takes no writes, as a mirror takes none, and where to write instead;
	// nil if it takes them. It does not talk to the server.
	ReadOnly() error
	// Records are the status records of the bucket; nil if StatusBucket is "-".
	Records() *Records
	// Record reads the record of a key live. IsNotFound if it has none.
	Record(ctx context.Context, key string) (*Record, error)
	// DocumentWarnings returns what there is to warn about in a revision of a document that this client has read; nil
	// if there is nothing, or Config.Strict is not StrictWarn. It does not talk to the server.
	DocumentWarnings(key string, revision uint64) *DocumentWarnings
	// CheckKey returns IsInvalid for a key that no entity of this client can have. It does not talk to the server.
	CheckKey(key string) error
	// WithStatusOf returns a copy of a cached document with the status of a record, as handlers of Records.Informer get
	// it. Nil, and any other type, means no record. It does not talk to the server.
	WithStatusOf(obj T, record any) T
	// Start adds a user of the caches; the first one starts the informers of documents and records. stop removes the
	// user, and the last one stops them. stop may be called more than once.
	Start() (stop func(), err error)
	// Confirm asks the leader whether a key exists, for decisions that delete. It fails while the leader's last
	// sequence is behind the informer's cursor.
	Confirm(ctx context.Context, key string) (Presence, error)
	// DocumentOf encodes an entity as Create would write it. FromDocument decodes such a document into the
	// entity of a key, as if it had been read at that revision. Neither talks to the server.
	DocumentOf(obj T) ([]byte, error)
	FromDocument(key string, revision uint64, document []byte) (T, error)
	// WholeDocumentOf is DocumentOf with the members that T does not know, of an entity that the cache has. It does not
	// talk to the server.
	WholeDocumentOf(obj T) ([]byte, error)
	// WholeDocument is WholeDocumentOf, also for an entity of which a transform of the informer has left out something.
	// It may ask the leader. IsConflict or IsNotFound if that has another revision by now.
	WholeDocument(ctx context.Context, obj T) ([]byte, error)
	// CreateDocument writes a document as it is under a key that has none, and returns its revision. IsAlreadyExists if
	// the key has a document, IsInvalid if the document does not decode.
	CreateDocument(ctx context.Context, key string, document []byte) (revision uint64, err error)
	// DocumentExpires returns when a revision of a document that this client has read expires by the TTL that its
	// writer has set, as Record.DocumentExpires has it. It does not talk to the server.
	DocumentExpires(key string, revision uint64) string
	// PrepareRestore looks whether the last document of a record may be put back where it vanished, and returns what
	// does that. It is not put back over anything: neither over a document, nor over the marker of a delete.
	PrepareRestore(ctx context.Context, key string, from *Record, aged uint64) (
		restore func(ctx context.Context) (revision uint64, err error), err error)
	// Subscribe registers callbacks for news that event handlers do not get; cancel removes them.
	Subscribe(Hooks) (cancel func())
}

// Lister reads a client's cache and returns copies.
type Lister[T IEntity] interface {
	// Get returns IsNotFound for a key that does not exist and IsInvalid for one that exists but does not decode.
	Get(key string) (T, error)
	// List returns the entities whose labels match; a nil selector matches all.
	List(selector labels.Selector) ([]T, error)
	// OwnedBy returns the entities that name this kind and key as their owner, in annotations or else in labels.
	OwnedBy(kind, key string) ([]T, error)
}

// Presence says whether a key has a document, as its leader knows.
type Presence struct {
	Exists   bool
	Revision uint64 // of the document, or of the marker of its delete; 0 if there is neither
	// Expired says that nobody is known to have deleted the document: it may have outgrown the age limit of its bucket,
	// and Config.DocumentsExpire does not say that this is meant. The marker is one of an expiry, or there is none,
	// because such a bucket leaves none. Whoever deletes what it owned should ask people first. It is false of a
	// document that exists.
	Expired bool
}

// Hooks are callbacks about a client's cache. Each may be nil and must return quickly. Calls for one key are in order;
// those about documents and those about the status bucket may come at the same time.
type Hooks struct {
	// Invalid is called when the key's document does not decode, Resolved when it decodes again or is gone. The key is
	// client-go's if the NATS key has the right shape. Else it is the NATS key, quoted if it looks like one of
	// client-go's.
	Invalid  func(key string, revision uint64, err error)
	Resolved func(key string)
	// Readable is called when the key's record was unreadable, see UnreadableRecordError, and is so no more: it is a
	// record again, which the cache is about to have, or gone.
	Readable func(key string)
	// Error is called when documents or records cannot be watched or a record is unreadable; bucket says which. It is
	// called with nil when that is over.
	Error func(bucket string, err error)
	// Arrived is called for each message of the documents' and the status bucket that comes in while they are watched,
	// markers of deletes too, before the handlers hear of it. It is for what objects do not keep, as headers. The key
	// of the entry is as in NATS. It comes in the order of revisions of each bucket.
	Arrived func(bucket string, entry natsinformer.Entry)
	// Reserved is called for each revision of a reserved key (it starts with "_nagi") in the status bucket. value is
	// nil for a delete.
	Reserved func(name string, revision uint64, value []byte)
}
