package entity

import (
	"context"

	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// IEntityClient reads and writes the entities of one bucket. Client implements it. To change one method, embed a client
// and override it: controllers and helpers call yours, but for records: what SetStatus sets is written with the outcome
// of the reconcile. What they need of a client beside these methods they take from EnginePort, so override it there.
// Keys are client-go's: "name", or "namespace/name" where the bucket is Namespaced. Errors are apimachinery's. All
// methods may be called concurrently.
type IEntityClient[T IEntity] interface {
	// Kind is the kind of the entities, as configured.
	Kind() string
	// Config is the configuration with its defaults filled in.
	Config() Config
	// Get reads document and status live, from the streams' leaders.
	Get(ctx context.Context, key string) (T, error)
	// List reads all documents and statuses live.
	List(ctx context.Context) ([]T, error)
	// ListMatching is List of the entities that the options choose.
	ListMatching(ctx context.Context, o ListOptions) ([]T, error)
	// Record reads the record of a key live. IsNotFound if it has none.
	Record(ctx context.Context, key string) (*Record, error)
	// Create writes a new document and sets obj's resourceVersion. IsAlreadyExists if the key has a document.
	Create(ctx context.Context, obj T) error
	// CreateWith is Create with options, such as WithTTL. Helpers call it where they have any, else Create; so it is
	// with UpdateWith and PatchWith.
	CreateWith(ctx context.Context, obj T, opts ...WriteOption) error
	// Update replaces the document if it is at obj's resourceVersion, and sets the new one. It never touches status,
	// and keeps the members of objects that T does not know.
	Update(ctx context.Context, obj T) error
	// UpdateWith is Update with options.
	UpdateWith(ctx context.Context, obj T, opts ...WriteOption) error
	// Patch applies an RFC 7386 merge patch to the stored JSON by compare-and-set. Unknown fields survive.
	Patch(ctx context.Context, key string, mergePatch []byte) error
	// PatchWith is Patch with options.
	PatchWith(ctx context.Context, key string, mergePatch []byte, opts ...WriteOption) error
	// UpdateStatus writes obj's status to the record. It conflicts only with another writer of status.
	UpdateStatus(ctx context.Context, obj T) error
	// Delete puts a marker that expires. IsNotFound if there is no document.
	Delete(ctx context.Context, key string, opts ...DeleteOption) error
	// Informer is the shared cache of documents. It runs while the client has users; see Client.Start.
	Informer() natsinformer.Informer
	// Lister reads the cache, with statuses joined. It sees what was written through this client, or through one that
	// shares its cache, at once.
	Lister() Lister[T]
	// EnginePort is what controllers and the helpers of this package need beside these methods. It is not for users.
	EnginePort() EnginePort[T]
}

// Lister reads a client's cache and returns copies.
type Lister[T IEntity] interface {
	// Get returns IsNotFound for a key that does not exist and IsInvalid for one that exists but does not decode.
	Get(key string) (T, error)
	// List returns the entities whose labels match; a nil selector matches all.
	List(selector labels.Selector) ([]T, error)
	// OwnedBy returns the entities that name this kind and key as their owner, in annotations or else in labels.
	OwnedBy(kind, key string) ([]T, error)
	// ByIndex returns the entities that have a value in one of the client's Config.Indexes.
	ByIndex(index, value string) ([]T, error)
	// ListMatching returns the entities that the options choose.
	ListMatching(o ListOptions) ([]T, error)
}

// Presence says whether a key has a document, as its leader knows.
type Presence struct {
	Exists   bool
	Revision uint64 // of the document, or of the marker of its delete; 0 if there is neither
	// Expired says that no delete of the document is known: it may have outgrown the age limit of its bucket,
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
	// Settings is called when the settings of a bucket, which an operator has changed or made anew since it was opened,
	// are not safe any more; the error says how to mend them. It is called with nil when they are safe again.
	Settings func(bucket string, err error)
	// Arrived is called for each message of the documents' and the status bucket that comes in while they are watched,
	// markers of deletes too, before the handlers hear of it. It is for what objects do not keep, as headers. The key
	// of the entry is as in NATS. It comes in the order of revisions of each bucket.
	Arrived func(bucket string, entry natsinformer.Entry)
	// Reserved is called for each revision of a reserved key (it starts with "_nagi") in the status bucket. value is
	// nil for a delete.
	Reserved func(name string, revision uint64, value []byte)
	// Apart is called for a document that came or was written and that the cache keeps apart, see EnginePort.Divide.
	// ApartGone is called when the key of one is gone. ApartRecord is called for a record likewise: it has no more than
	// what is kept, and was deleted if gone is true.
	Apart       func(key string, change ApartChange)
	ApartGone   func(key string, how natsinformer.Deletion)
	ApartRecord func(record *RecordObject, gone bool)
}

// ApartChange is what a change of a document that is apart, or is so now, was.
type ApartChange struct {
	Before       metav1.Object // what the cache had of it; nil: nothing
	OwnerChanged bool
}
