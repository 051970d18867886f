package entity

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NoStatusBucket as Config.StatusBucket means that the entities have no status.
const NoStatusBucket = "-"

// Defaults of Config.
const (
	DefaultMaxKeyLength      = 1024
	DefaultTombstoneTTL      = 24 * time.Hour
	DefaultLastDocumentLimit = 64 << 10
	// DefaultMaxDocumentBytes is the default max_payload of a NATS server.
	DefaultMaxDocumentBytes = 1 << 20
)

const (
	// maxKeyLengthLimit keeps subject, reply subject and protocol words below the server's max_control_line (4,096).
	// Beyond that the server closes the connection for good.
	maxKeyLengthLimit = 3000
	// headroom is the room in a message for more than its document: our headers, below 300 bytes.
	headroom = 512
)

// Config says where entities live and how they are written.
type Config struct {
	// Kind of the entities ("Website"), for owner references, events and logs. Required.
	Kind string
	// APIVersion is the apiVersion of entities whose documents have none. Optional.
	APIVersion string
	// Bucket is the KV bucket of the documents. Unless BindOnly, it is created with safe settings if missing. Required.
	Bucket string
	// Filter is a subject filter below the bucket ("shop.>"). The client neither sees nor writes keys outside of it.
	// The zero value means all keys.
	Filter string
	// Namespaced says that keys are "namespace/name", in NATS "<namespace>.<name>".
	Namespaced bool
	// Replicas and Storage of a bucket that is created. The zero values mean 1 and file.
	Replicas int
	Storage  jetstream.StorageType
	// MaxBytes is the size in bytes of the bucket of documents, if it is created, and StatusMaxBytes that of the status
	// bucket. Each key counts with its name, headers and document, and markers of deletes count too. A full bucket
	// refuses writes, deletes included (ErrFull), and loses nothing; while the status bucket is full, nothing is
	// reconciled for which there is no room in it. The server reserves the size for each replica, so that the account
	// has used it from the start. The zero value of MaxBytes means no limit, that of StatusMaxBytes the same as
	// MaxBytes, because a record may hold a copy of its document. Accounts, such as hosted ones, may want a size of
	// every stream, and have a limit for it: then NewClient says which field to set.
	MaxBytes, StatusMaxBytes int64
	// Placement, Compression, Description and Metadata are those of both buckets, if they are created. The zero values
	// mean any server of the cluster, none, none, and what Nagi itself says there (MetadataHolds). Keys of Metadata
	// that begin with "nagi." or "_nats." are refused.
	//
	// A bucket that exists keeps its settings, these and Replicas, Storage, MaxBytes: NewClient never changes it. What
	// was asked for and differs is among the client's Warnings, description and metadata apart.
	Placement   *jetstream.Placement
	Compression jetstream.StoreCompression
	Description string
	Metadata    map[string]string
	// AllowRollup makes a bucket of documents that is created one that allows rollups, for those who purge keys with
	// other clients (nats kv purge). Who may write one key of such a bucket, as of one namespace, can remove all
	// others with one message. The server then also puts a marker when a document expires, and age limits (max_age) can
	// be used. The zero value denies rollups. A bucket that exists is not changed; AllowRollup says that its rollups
	// are meant, so that there is no warning. Delete with Purge works either way.
	AllowRollup bool
	// BindOnly never creates a bucket.
	BindOnly bool
	// OpenLater has NewClient succeed though a bucket cannot be reached, or with BindOnly is not there: its server, its
	// domain or the way to it is away. Its caches fill once it is there, which is looked for each second. Until then a
	// lister's reads, live reads and writes fail with IsServiceUnavailable. It is for what a controller can do without:
	// see WithOptional of package controller. What NewClient refuses otherwise, such as settings that lose data, it
	// still refuses where it can see them; later the caches stay empty, and the error hook of Subscribe is told why.
	// The zero value has NewClient fail.
	OpenLater bool
	// StatusBucket holds the records. The zero value means Bucket+"-status", NoStatusBucket means none.
	StatusBucket string

	// MaxDocumentBytes is the size above which documents are refused before anything reaches the wire, and above which
	// a document that another writer wrote is invalid. The zero value means DefaultMaxDocumentBytes, or the limit of
	// server and bucket if that is lower. That limit alone holds for records.
	//
	// It also bounds memory. The worst documents, lists of tiny objects, take up to 64 times their size in the cache
	// (measured: 44 MiB of 1 MiB), and for a moment up to 256 times (191 MiB) while they are decoded. A type of the
	// user with a list of large structs may take more: {} is three bytes of a document.
	MaxDocumentBytes int
	// MaxKeyLength is the length above which a NATS key is refused. The zero value means DefaultMaxKeyLength.
	MaxKeyLength int
	// TombstoneTTL is how long the marker of a delete stays, in whole seconds. A process that was away for longer
	// learns of the delete because the key is missing. The zero value means DefaultTombstoneTTL.
	TombstoneTTL time.Duration
	// DocumentsExpire says that the age limit (max_age) of the bucket is meant: what it removes counts as deleted by
	// somebody. The zero value means that it may be a mistake: the brake holds the teardown of what it removes.
	// Documents whose own writer set a TTL may always expire.
	DocumentsExpire bool
	// LastDocumentLimit is the size in bytes up to which a record keeps the last document. The zero value means
	// DefaultLastDocumentLimit; a negative value keeps none.
	LastDocumentLimit int
	// SecretFields are paths of members that no record keeps, as in "spec.password", "spec.users[].token" for each
	// element of an array, and "spec.backends.*.key" for each member of an object. Fields of T with the tag
	// `nagi:"secret"` are such members, too; the paths are for types that cannot have tags. Names match in any case.
	//
	// The last document in a record comes without them, and so does what LastKnown gives after a restart. What is wrong
	// with an invalid document is told in general terms only. The document itself stays as it is: who reads the
	// bucket reads all of it. A record that was written before the field was marked keeps it until the next revision of
	// its document is reconciled. Members of metadata cannot be secret, and those of the status, which is in the record
	// for others to read, neither.
	SecretFields []string
	// Strict says what becomes of documents with members that T does not define, and of other mistakes that a document
	// can have and still decode; see Strictness. The zero value is StrictWarn.
	Strict Strictness
	// Indexes find the entities in the cache by what they have in common; WithIndex makes one.
	Indexes []Index
	// OnlyMetadata has the cache keep of each document no more than its metadata, and a hash of the rest
	// (DocumentHashAnnotation). It is for secondaries, of which the runtime reads nothing else: a controller refuses
	// such a client for its primaries. Lister, handlers, predicates and Indexes get objects whose other members are
	// zero. Get and List read the whole live, and so does CreateOrUpdate, with one request, before it changes anything;
	// Update keeps what the cache has left out. It takes the place of SetTransform. The zero value keeps all.
	OnlyMetadata bool
	// OnWrite is called before each message that the client sends for a document or a record, with the context of the
	// call that writes it, and adds headers to the message, such as traceparent; package traces has one. It returns nil
	// for none. done, if not nil, is called once, with what came of the message; a conflict that the client settles
	// with another message is an error of the first.
	//
	// At most 4 headers are added, each with one value of at most 512 printable characters; names are those of letters,
	// digits and dashes, and not those that begin with Nats-, KV- or Nagi-. A callback that returns others, or panics,
	// is logged once, and the message is written without; so is one that would not fit with them. It must return
	// quickly, and so must done: the Stats of a controller that stands still in one say so (controller.WithStuckAfter).
	OnWrite func(ctx context.Context, w Write) (header nats.Header, done func(err error))
	// CompareInterval is natsinformer.Config.CompareInterval of the client's informers.
	CompareInterval time.Duration
}

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
var filterToken = regexp.MustCompile(`^(\*|[-_=a-zA-Z0-9]+)$`)

// WithDefaults returns the configuration with the defaults filled in that need no server, as NewClient does it.
func (c Config) WithDefaults() Config { return c.withDefaults() }

func (c Config) withDefaults() Config {
	if c.StatusBucket == "" {
		c.StatusBucket = c.Bucket + "-status"
	}
	if c.Filter == "" {
		c.Filter = ">"
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.StatusMaxBytes == 0 {
		c.StatusMaxBytes = c.MaxBytes
	}
	if c.MaxKeyLength == 0 {
		c.MaxKeyLength = DefaultMaxKeyLength
	}
	if c.TombstoneTTL == 0 {
		c.TombstoneTTL = DefaultTombstoneTTL
	}
	if c.LastDocumentLimit == 0 {
		c.LastDocumentLimit = DefaultLastDocumentLimit
	}
	return c
}

// validate checks a Config whose defaults are filled in. The error says what to do.
func (c Config) validate() error {
	switch {
	case c.Kind == "":
		return fmt.Errorf("entity: Config.Kind is empty: name the kind of the entities, as in \"Website\"")
	case strings.ContainsAny(c.Kind, "/ \t\n"):
		return fmt.Errorf("entity: Config.Kind %q: "+
			"a kind holds neither slash nor space, since owners are named as kind/key", c.Kind)
	case !bucketName.MatchString(c.Bucket):
		return fmt.Errorf("entity: Config.Bucket %q of kind %s: "+
			"a bucket's name consists of letters, digits, '-' and '_'", c.Bucket, c.Kind)
	case c.StatusBucket != NoStatusBucket && !bucketName.MatchString(c.StatusBucket):
		return fmt.Errorf("entity: Config.StatusBucket %q of kind %s: "+
			"a bucket's name consists of letters, digits, '-' and '_'; %q means none",
			c.StatusBucket, c.Kind, NoStatusBucket)
	case c.StatusBucket == c.Bucket:
		return fmt.Errorf("entity: Config.StatusBucket of kind %s is the bucket %q itself: "+
			"a plain put of a document would wipe its status; name another bucket, or leave it empty", c.Kind, c.Bucket)
	case c.MaxDocumentBytes < 0:
		return fmt.Errorf("entity: Config.MaxDocumentBytes of kind %s is negative: "+
			"leave it 0 for what the server takes", c.Kind)
	case c.MaxKeyLength < 1 || c.MaxKeyLength > maxKeyLengthLimit:
		return fmt.Errorf("entity: Config.MaxKeyLength of kind %s is %d: set 1 to %d; "+
			"a longer subject makes the server close the connection", c.Kind, c.MaxKeyLength, maxKeyLengthLimit)
	case c.TombstoneTTL < time.Second || c.TombstoneTTL%time.Second != 0:
		return fmt.Errorf("entity: Config.TombstoneTTL of kind %s is %v: NATS counts in whole seconds, at least one",
			c.Kind, c.TombstoneTTL)
	case c.Strict > StrictRefuse:
		return fmt.Errorf("entity: Config.Strict of kind %s is %v: it is StrictWarn, StrictOff or StrictRefuse",
			c.Kind, c.Strict)
	case c.CompareInterval < 0:
		return fmt.Errorf("entity: Config.CompareInterval of kind %s is negative", c.Kind)
	}
	if err := c.validateBuckets(); err != nil {
		return err
	}
	return c.validateFilter()
}

func (c Config) validateFilter() error {
	tokens := strings.Split(c.Filter, ".")
	for i, token := range tokens {
		if token == ">" && i == len(tokens)-1 {
			break
		}
		if !filterToken.MatchString(token) {
			return fmt.Errorf("entity: Config.Filter %q of kind %s: "+
				"token %q is not valid in a subject filter; write one as \"shop.>\" or \"*.front\"",
				c.Filter, c.Kind, token)
		}
	}
	if c.Namespaced && len(tokens) == 1 && c.Filter != ">" {
		return fmt.Errorf("entity: Config.Filter %q of kind %s matches no key of a namespaced bucket: "+
			"those have two tokens or more, as \"shop.>\"", c.Filter, c.Kind)
	}
	return nil
}

// hasStatus reports whether there is a status bucket.
func (c Config) hasStatus() bool { return c.StatusBucket != NoStatusBucket }
