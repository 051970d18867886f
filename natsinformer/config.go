package natsinformer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

const defaultCompareInterval = 5 * time.Minute

// Entry is one revision of a key, as the server stores it.
type Entry struct {
	Key      string // as in NATS, below the bucket
	Revision uint64 // stream sequence
	Created  time.Time
	Header   nats.Header
	Value    []byte
}

// Expires returns when the server drops the revision by the TTL that its own writer has set (Nats-TTL); the zero time
// if there is none, one that the server does not accept, or one of more than ninety years. never says that the writer
// has set that the revision outlives the age limit of the bucket.
func (e Entry) Expires() (at time.Time, never bool) {
	if nanoseconds := expiryOf(e.Header, e.Created.UnixNano()); nanoseconds != 0 {
		return time.Unix(0, nanoseconds).UTC(), false
	}
	return time.Time{}, strings.EqualFold(e.Header.Get(ttlHeader), "never")
}

// Config says what an Informer watches and how it turns entries into objects.
type Config struct {
	// Bucket is the name of the key-value bucket. Required.
	Bucket string
	// Filter is a subject filter below the bucket. The zero value means all keys (">").
	Filter string
	// Decode turns an entry into an object and sets its name and namespace; the informer sets the
	// resourceVersion. It is called from several goroutines at once and must not keep Entry.Value. A panic counts as
	// an error. Required.
	Decode func(Entry) (runtime.Object, error)
	// OnInvalid gets each revision that Decode refuses, OnResolved each such key that decodes again or is gone.
	// Both are called in order per key, must return quickly, and may be nil. While many large entries that do not
	// decode are listed, only the first 16 MiB of them have their Value and Header.
	OnInvalid  func(Entry, error)
	OnResolved func(key string)
	// Unseen is asked of each delete that is watched of a key that the store does not have. If it returns an object,
	// such as one that this process wrote and a writer deleted before the informer could read it, the handlers are told
	// that it was added and deleted. A transform gets a copy of it. It must return quickly, and may be nil.
	Unseen func(key string, deleted uint64) runtime.Object
	// Arrived is told of each entry that is watched, markers of deletes too, before its event; not of those that were
	// there when the informer began. It is for what an object does not keep, such as headers. It is called in the order
	// of revisions, must return quickly, and may be nil.
	Arrived func(Entry)
	// ApartChanged is told of each entry that is watched and is apart, with what was known of the key before: the
	// object that was in the store, another Apart, or nil. ApartGone is told when a key is gone of which an entry was
	// apart, and how it went. Both are called in order per key, but what handlers hear of it may come before or after.
	// They must return quickly, and may be nil.
	ApartChanged func(key string, before runtime.Object, now Apart)
	ApartGone    func(key string, was Apart, how Deletion)
	// OnError is called when the informer cannot list or watch (the error names the subject or bucket and what to
	// grant or create), and with nil when it works again. It must return quickly, and may be nil.
	OnError func(error)
	// Reported reports whether what OnError is told gets into the log of the one who is told. While it does, the
	// informer does not log it. It must return quickly. The informer logs if it is nil.
	Reported func() bool
	// OnSettings is told of the settings of the bucket's stream when they are first known and, within seconds, when
	// they have changed: an operator may change them, or make the bucket anew. It must return quickly, and may be nil.
	OnSettings func(jetstream.StreamConfig)
	// DocumentsExpire says that the bucket's age limit (max_age) is meant: a key that it removes counts as deleted by
	// somebody, if the stream leaves a marker (subject_delete_marker_ttl). The zero value means that such a delete is
	// inferred, see Deletion.
	DocumentsExpire bool
	// Indexers are added to the store before the informer starts.
	Indexers cache.Indexers
	// CompareInterval is how often, at least, the informer compares the store with the server's key set, jittered by a
	// tenth. Where a comparison costs the server little, it does so every few seconds.
	// Within it the informer also lists the stream once more after the server was restarted, or was out of reach for
	// so long (30 s) that it has dropped the informer's consumer.
	// The zero value means 5 minutes.
	CompareInterval time.Duration
}

var (
	validBucket = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	validFilter = regexp.MustCompile(`^[-/_=a-zA-Z0-9*]+(\.[-/_=a-zA-Z0-9*]+)*(\.>)?$`)
)

// complete checks the configuration and fills in its defaults.
func (c *Config) complete() error {
	if !validBucket.MatchString(c.Bucket) {
		return fmt.Errorf("natsinformer: %q is not a bucket name: use letters, digits, dash and underscore", c.Bucket)
	}
	if c.Filter == "" {
		c.Filter = ">"
	}
	if c.Filter != ">" && !validFilter.MatchString(c.Filter) {
		return fmt.Errorf("natsinformer: bucket %q: %q is not a filter: "+
			"use a key, or tokens of it with * and > as wildcards", c.Bucket, c.Filter)
	}
	if c.Decode == nil {
		return errors.New("natsinformer: Config.Decode is required")
	}
	if c.CompareInterval < 0 {
		return fmt.Errorf("natsinformer: bucket %q: CompareInterval must not be negative", c.Bucket)
	}
	if c.CompareInterval == 0 {
		c.CompareInterval = defaultCompareInterval
	}
	return nil
}

func (c *Config) stream() string { return "KV_" + c.Bucket }

// filtered reports whether the informer sees only some of the stream's messages. Then the stream's own counters say
// nothing about it.
func (c *Config) filtered() bool { return c.Filter != ">" }
