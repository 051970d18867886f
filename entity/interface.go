package entity

import (
	"context"

	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/apimachinery/pkg/labels"
)

// IEntityClient reads and writes the entities of one bucket. Client implements it; whoever wants to change one
// method embeds a client and overrides it. Keys are client-go's: "name", or "namespace/name" where the bucket is
// Namespaced. Errors are apimachinery's. All methods may be called concurrently.
type IEntityClient[T IEntity] interface {
	// Kind is the kind of the entities, as configured.
	Kind() string
	// Get reads document and status live, from the streams' leaders.
	Get(ctx context.Context, key string) (T, error)
	// List reads all documents and statuses live.
	List(ctx context.Context) ([]T, error)
	// Create writes a new document and sets obj's resourceVersion. IsAlreadyExists if the key has a document.
	Create(ctx context.Context, obj T) error
	// Update replaces the document by compare-and-set on obj's resourceVersion and sets the new one. It never touches status.
	Update(ctx context.Context, obj T) error
	// Patch applies an RFC 7386 merge patch to the stored JSON by compare-and-set. Unknown fields survive.
	Patch(ctx context.Context, key string, mergePatch []byte) error
	// UpdateStatus writes obj's status to the record. It conflicts only with another writer of status.
	UpdateStatus(ctx context.Context, obj T) error
	// StatusChange encodes obj's status for who writes the record himself, together with something else.
	StatusChange(obj T) (*StatusChange, error)
	// Delete puts a marker that expires. IsNotFound if there is no document.
	Delete(ctx context.Context, key string, opts ...DeleteOption) error
	// Informer is the shared cache of documents. It runs while somebody holds it, see Start.
	Informer() natsinformer.Informer
	// Lister reads the cache, status joined; it sees this process's own writes.
	Lister() Lister[T]

	// Config is the configuration with its defaults filled in.
	Config() Config
	// Records are the status records of the bucket; nil where StatusBucket is "-".
	Records() *Records
	// Record reads the record of a key live. IsNotFound if it has none.
	Record(ctx context.Context, key string) (*Record, error)
	// CheckKey returns an IsInvalid error for a key that no entity of this client can have. It does not talk to the server.
	CheckKey(key string) error
	// WithStatusOf returns a copy of a cached document with the status of a record as the handlers of Records.Informer get
	// it; nil, or anything else, is no record. It does not talk to the server.
	WithStatusOf(obj T, record any) T
	// Start starts the informers of documents and records with their first user; stop, which may be called more than
	// once, releases them, and stops them with their last.
	Start() (stop func(), err error)
	// Confirm reads a key's presence from the leader, for decisions that delete: it fails while the leader's last
	// sequence is behind the informer's cursor.
	Confirm(ctx context.Context, key string) (Presence, error)
	// DocumentOf encodes an entity as Create and Update would write it; FromDocument decodes such a document into the
	// entity of a key, as if it had been read at that revision. Neither talks to the server.
	DocumentOf(obj T) ([]byte, error)
	FromDocument(key string, revision uint64, document []byte) (T, error)
	// Subscribe registers callbacks for what an event handler is not told; cancel takes them off.
	Subscribe(Hooks) (cancel func())
}

// Lister reads a client's cache. What it returns are copies.
type Lister[T IEntity] interface {
	// Get returns IsNotFound for a key that does not exist and IsInvalid for one that exists but does not decode.
	Get(key string) (T, error)
	// List returns the entities whose labels match; a nil selector matches all.
	List(selector labels.Selector) ([]T, error)
	// OwnedBy returns the entities whose owner annotations name this kind and key.
	OwnedBy(kind, key string) ([]T, error)
}

// Presence is what the leader knows of a key.
type Presence struct {
	Exists   bool
	Revision uint64 // of the document, or of the marker of its delete; 0 if neither is there
}

// Hooks are callbacks about a client's cache. Each may be nil, must return quickly, and is called in order per key.
type Hooks struct {
	// Invalid is told that the key's document does not decode; Resolved that it decodes again or is gone.
	// The key is client-go's where the NATS key has the right shape, else the NATS key; in quotes if that looks like a key
	// of client-go's.
	Invalid  func(key string, revision uint64, err error)
	Resolved func(key string)
	// Error is told that documents or records cannot be watched (bucket says which), and with nil when they can again.
	Error func(bucket string, err error)
	// Reserved is told of each revision of a reserved key (it starts with "_nagi") in the status bucket; value is nil for a delete.
	Reserved func(name string, revision uint64, value []byte)
}
