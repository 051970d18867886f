package entity

import (
	"context"
	"iter"

	"github.com/nagi-runtime/nagi/internal/parts"
	"github.com/nats-io/nats.go/jetstream"
)

// EnginePort is what the engine of controllers needs of a client beside the methods that users call. A client of the
// user's that embeds another one inherits its port. It may gain methods with each version. All methods may be called
// concurrently.
type EnginePort[T IEntity] interface {
	// JetStream returns the context that the client was made with; nil if a user's own client hides it.
	JetStream() jetstream.JetStream
	// Cache identifies the cache of documents: clients with an equal one share it. See Client.WithStatusBucket.
	Cache() any
	// ReadOnly returns why the bucket of documents takes no writes, as a mirror takes none, and where to write instead;
	// nil if it takes them. It does not talk to the server.
	ReadOnly() error
	// CheckKey returns IsInvalid for a key that no entity of this client can have. It does not talk to the server.
	CheckKey(key string) error
	// Start adds a user of the caches; the first one starts the informers of documents and records. stop removes the
	// user, and the last one stops them. stop may be called more than once.
	Start() (stop func(), err error)
	// Warm is Start by a user who keeps the caches for others: for those that are yet to come, and between two of them.
	// retire removes that user where no other is left, if there was one since Warm, or if unused is true, and says
	// whether it did; if not, it may be called again. Then the client is as one that was never started: a lister that
	// is read all the same starts it again.
	Warm() (retire func(unused bool) (retired bool), err error)
	// Subscribe registers callbacks for news that event handlers do not get; cancel removes them.
	Subscribe(Hooks) (cancel func())
	// Confirm asks the leader whether a key exists, for decisions that delete. It fails while the leader's last
	// sequence is behind the informer's cursor.
	Confirm(ctx context.Context, key string) (Presence, error)
	// CheckIndex returns an error if the client has no index of that name. It does not talk to the server.
	CheckIndex(name string) error
	// KeysByIndex returns the keys of the documents that the cache has under a value of an index, own writes included.
	// It does not wait for the cache. It does not talk to the server.
	KeysByIndex(name, value string) ([]string, error)
	// CachedDocuments iterates over the documents that the cache has when it begins, without own writes, in no order.
	// They are shared. It does not wait for the cache. It does not talk to the server.
	CachedDocuments() iter.Seq[T]
	// StreamState asks the leader of the documents' stream.
	StreamState(ctx context.Context) (StreamState, error)

	// Divide has the caches keep the documents of the parts that are wanted, and know of the others no more than their
	// keys, revisions and owners. Nil has them keep all. It is an error while they run. Divided returns the parts.
	Divide(of *Division) error
	Divided() *parts.Parts
	// Fetch brings what has become wanted into the caches, and returns when it is there. PutApart takes out what is
	// wanted no more; handlers are not told of that. Both wait for caches that do not watch; the error is that of ctx.
	Fetch(ctx context.Context) error
	PutApart(ctx context.Context) error
	// ApartOwned are the documents that are apart because of their owner.
	ApartOwned() iter.Seq[ApartDocument]
	// OwnerHash stands in this process for the key of an owner.
	OwnerHash(key string) uint64

	// Records are the status records of the bucket; nil if StatusBucket is "-".
	Records() *Records
	// StatusChange encodes obj's status for a caller that writes it into the record together with something else. It
	// does not talk to the server. IsRequestEntityTooLarge if the status alone is larger than a record may be.
	StatusChange(obj T) (*StatusChange, error)
	// WithStatusOf returns a copy of a cached document with the status of a record, as handlers of Records.Informer get
	// it. Nil, and any other type, means no record. It does not talk to the server.
	WithStatusOf(obj T, record any) T

	// DocumentWarnings returns what there is to warn about in a revision of a document that this client has read; nil
	// if there is nothing, or Config.Strict is not StrictWarn. It does not talk to the server.
	DocumentWarnings(key string, revision uint64) *DocumentWarnings
	// DocumentExpires returns when a revision of a document that this client has read expires by the TTL that its
	// writer has set, as Record.DocumentExpires has it; "" if it has none. It does not talk to the server.
	DocumentExpires(key string, revision uint64) string
	// DocumentOf encodes an entity as Create would write it. FromDocument decodes such a document into the
	// entity of a key, as if it had been read at that revision. Neither talks to the server.
	DocumentOf(obj T) ([]byte, error)
	FromDocument(key string, revision uint64, document []byte) (T, error)
	// WholeDocument is DocumentOf with the members that T does not know, also for an entity of which a transform of the
	// informer has left out something (IsTransformed). Of those that the cache has read last, the client has the
	// documents; for the others it asks the leader. IsConflict if the document is at another revision by now,
	// IsNotFound if there is none any more.
	WholeDocument(ctx context.Context, obj T) ([]byte, error)
	// PrepareRestore looks whether the last document of a record may be put back where it vanished, and returns what
	// does that. It is not put back over anything: neither over a document, nor over the marker of a delete.
	PrepareRestore(ctx context.Context, key string, from *Record, aged uint64) (
		restore func(ctx context.Context) (revision uint64, err error), err error)
}

// EnginePort is what controllers need of the client beside the methods that users call.
func (c *Client[T]) EnginePort() EnginePort[T] { return enginePort[T]{c} }

// enginePort adds to the methods of a client those that are of no use to its users.
type enginePort[T IEntity] struct{ *Client[T] }

// CachedDocuments implements EnginePort.
func (p enginePort[T]) CachedDocuments() iter.Seq[T] { return p.generation().documents.each() }

// Cache implements EnginePort.
func (p enginePort[T]) Cache() any { return p.shared }
