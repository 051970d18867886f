package recorder

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// The defaults of Config.
const (
	DefaultStream        = "NAGI_EVENTS"
	DefaultSubjectPrefix = "nagi.events"
	DefaultMaxAge        = time.Hour // the API server's --event-ttl
	DefaultMaxBytes      = 64 << 20
	DefaultQueueSize     = 2048
)

// Config says where events go. The zero value is valid: a recorder that counts events and drops them.
type Config struct {
	// JetStream is where events about NATS entities go. If nil, they are dropped and counted.
	// The recorder never closes its connection.
	JetStream jetstream.JetStream
	// Kubernetes is where events about Kubernetes objects go: kuberecorder.New(clientset). If nil, they are dropped and
	// counted.
	Kubernetes KubernetesSink

	// Component and Host are the source of the events: the name of the controller, and where it runs.
	Component string
	Host      string

	// Stream is the name of the stream. Default NAGI_EVENTS.
	Stream string
	// SubjectPrefix is what the subjects of events start with. Default nagi.events.
	SubjectPrefix string
	// BindOnly says that the stream is created elsewhere. The recorder does not look at it and needs no right to.
	BindOnly bool
	// MaxAge is how long an event is kept after its last repeat: in the stream, and in memory while the server is away.
	// Default one hour. At least 100 ms, the server's limit.
	MaxAge time.Duration
	// MaxBytes bounds the stream; the oldest events go first. Default 64 MiB. An account may allow a stream less, or
	// have less left: the server reserves it for each replica.
	MaxBytes int64
	// Replicas of the stream, default 1. Storage of the stream, default file. Placement, default any servers of the
	// cluster, and Compression, default none. A stream that exists keeps its own.
	Replicas    int
	Storage     jetstream.StorageType
	Placement   *jetstream.Placement
	Compression jetstream.StoreCompression

	// QueueSize bounds the events that wait to be looked at, and the different ones that wait to be sent. Default 2048
	// of each. An event takes about 1 KiB, and 6 KiB if its message and annotations are as long as they may be.
	QueueSize int
	// Correlator changes how repeats and similar events are aggregated and throttled, for both kinds of objects.
	// Zero fields have client-go's defaults. LRUCacheSize (4096) bounds how many objects and events are remembered.
	Correlator record.CorrelatorOptions

	// IsNATS replaces the rule that tells NATS entities from Kubernetes objects; see RegisterKind. It must be quick.
	IsNATS func(runtime.Object) bool
	// Scheme names the kinds of typed objects without TypeMeta, and tells which kinds are Kubernetes'. Default that of
	// Kubernetes, which is client-go's; without Kubernetes an empty one.
	Scheme *runtime.Scheme
	// Logger is for what goes wrong. Default klog.Background().
	Logger *klog.Logger
}

func (c Config) withDefaults() Config {
	if c.Stream == "" {
		c.Stream = DefaultStream
	}
	if c.SubjectPrefix == "" {
		c.SubjectPrefix = DefaultSubjectPrefix
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultMaxAge
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.QueueSize == 0 {
		c.QueueSize = DefaultQueueSize
	}
	if c.Scheme == nil && c.Kubernetes != nil {
		c.Scheme = c.Kubernetes.Scheme()
	}
	if c.Scheme == nil {
		c.Scheme = runtime.NewScheme()
	}
	if c.Logger == nil {
		logger := klog.Background()
		c.Logger = &logger
	}
	logger := printable.Logger(*c.Logger)
	c.Logger = &logger
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.JetStream != nil {
		errs = append(errs, kvstream.CheckJetStream(c.JetStream))
	}
	if strings.ContainsAny(c.Stream, " \t\r\n.*>/\\") {
		errs = append(errs, fmt.Errorf("stream name %q must not contain spaces, dots, slashes, * or >", c.Stream))
	}
	if c.SubjectPrefix != encodeKey(c.SubjectPrefix) {
		errs = append(errs, fmt.Errorf("subject prefix %q must be tokens of letters, digits and -/_= "+
			"with dots between them", c.SubjectPrefix))
	}
	if c.MaxAge < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("MaxAge is %v and must be at least 100ms", c.MaxAge))
	}
	if c.MaxBytes < 0 || c.QueueSize < 0 || c.Replicas < 0 {
		errs = append(errs, fmt.Errorf("MaxBytes (%d), QueueSize (%d) and Replicas (%d) must not be negative",
			c.MaxBytes, c.QueueSize, c.Replicas))
	}
	return errors.Join(errs...)
}
