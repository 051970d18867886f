package registry

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type spec struct {
	Title string `json:"title,omitempty"`
	Pages int32  `json:"pages,omitempty"`
	Token string `json:"token,omitempty" nagi:"secret"`
}

type status struct {
	Ready bool `json:"ready,omitempty"`
}

type site = entity.Object[spec, status]

// world is a server with what runs on it.
type world struct {
	*testing.T
	srv *natstest.Server
	js  jetstream.JetStream
	// requests are those about the registry that have reached the server.
	requests atomic.Int64
}

func newWorld(t *testing.T, opts ...natstest.Option) *world {
	srv := natstest.Start(t, opts...)
	w := &world{T: t, srv: srv}
	w.js = w.connect()
	_, err := w.js.Conn().Subscribe("$JS.API.STREAM.>", func(msg *nats.Msg) {
		if strings.HasSuffix(msg.Subject, ".KV_"+Bucket) {
			w.requests.Add(1)
		}
	})
	w.must(err)
	return w
}

func (w *world) connect(opts ...nats.Option) jetstream.JetStream {
	w.Helper()
	_, js := natstest.Connect(w.T, w.srv.URL(), opts...)
	return js
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// client makes a client of sites; it is closed with the test.
func client[T entity.IEntity](w *world, js jetstream.JetStream, cfg entity.Config) *entity.Client[T] {
	w.Helper()
	cfg.Storage = jetstream.MemoryStorage
	c, err := entity.NewClient[T](w.Context(), js, cfg)
	w.must(err)
	w.Cleanup(c.Close)
	return c
}

var sitesConfig = entity.Config{Kind: "Site", Bucket: "sites", APIVersion: "example.com/v1"}

// lines are those of a log.
type lines struct {
	mu  sync.Mutex
	all []map[string]any
}

func (l *lines) logger() logr.Logger {
	return funcr.NewJSON(func(line string) {
		values := map[string]any{}
		_ = json.Unmarshal([]byte(line), &values)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, values)
	}, funcr.Options{})
}

// errors are the errors of the lines of this package.
func (l *lines) errors() (errs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if line["bucket"] == Bucket {
			errs = append(errs, line["error"].(string))
		}
	}
	return errs
}

// running is a controller that runs.
type running[T entity.IEntity] struct {
	*controller.Controller[T]
	log  *lines
	stop func()
}

// run runs a controller that does nothing, until stop or the end of the test.
func run[T entity.IEntity](w *world, name string, c *entity.Client[T], opts ...controller.Option) *running[T] {
	w.Helper()
	nothing := controller.ReconcilerFunc(func(context.Context, controller.Request) (controller.Result, error) {
		return controller.Result{}, nil
	})
	made, err := controller.New(name, c, nothing, opts...)
	w.must(err)
	r := &running[T]{Controller: made, log: &lines{}}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), r.log.logger()))
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("%s: %v", name, err)
		}
	})
	w.Cleanup(r.stop)
	return r
}

// published waits until the entry of sites is as it should be.
func (w *world) published(what string, is func(*Entry) bool) *Entry {
	w.Helper()
	var last *Entry
	natstest.Eventually(w, what, func() bool {
		entry, err := Get(w.Context(), w.js, "Site", "example.com/v1")
		last = entry
		return err == nil && is(entry)
	})
	return last
}

func anything(*Entry) bool { return true }

// put writes the entry of sites as somebody else would, and returns its revision.
func (w *world) put(value string) uint64 {
	w.Helper()
	kv, err := w.js.KeyValue(w.Context(), Bucket)
	w.must(err)
	revision, err := kv.PutString(w.Context(), "Site.example.com", value)
	w.must(err)
	return revision
}

func (w *world) value() (string, uint64) {
	w.Helper()
	kv, err := w.js.KeyValue(w.Context(), Bucket)
	w.must(err)
	entry, err := kv.Get(w.Context(), "Site.example.com")
	w.must(err)
	return string(entry.Value()), entry.Revision()
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// looked waits until all controllers have looked at the entry some more times. denied counts what the server denies
// them.
func (w *world) looked(denied func() int64) {
	w.Helper()
	before := w.requests.Load() + denied()
	natstest.Eventually(w, "they look again", func() bool { return w.requests.Load()+denied() >= before+30 })
}

func jetstreamKV(bucket string, metadata map[string]string) jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{Bucket: bucket, Metadata: metadata, Storage: jetstream.MemoryStorage}
}
