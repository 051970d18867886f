package recorder_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Website is an entity as a user would write it.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (w *Website) DeepCopyObject() runtime.Object {
	return &Website{TypeMeta: w.TypeMeta, ObjectMeta: *w.DeepCopy()}
}

var metaTime metav1.Time

func website(namespace, name string) *Website {
	return &Website{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "7"}}
}

// start runs a server and a recorder on it that is closed when the test ends.
func start(
	t *testing.T, cfg recorder.Config, opts ...natstest.Option,
) (*recorder.Recorder, *natstest.Server, jetstream.JetStream) {
	t.Helper()
	server := natstest.Start(t, opts...)
	_, js := natstest.Connect(t, server.URL())
	cfg.JetStream = js
	return newRecorder(t, cfg), server, js
}

// streamReady waits for the stream. A nats-server that is shut down while it creates one leaves goroutines of its file
// store.
func streamReady(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	wantNow(t, "the stream is there", func() bool {
		_, err := js.Stream(context.Background(), recorder.DefaultStream)
		return err == nil
	})
}

func newRecorder(t *testing.T, cfg recorder.Config) *recorder.Recorder {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = (&errorLog{}).logger()
	}
	rec, err := recorder.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rec.RegisterKind("Website", &Website{})
	t.Cleanup(func() { closeWithin(rec, 10*time.Second) })
	return rec
}

func closeWithin(rec *recorder.Recorder, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return rec.Close(ctx)
}

// flush closes the recorder, because Close returns when everything is sent.
func flush(t *testing.T, rec *recorder.Recorder) {
	t.Helper()
	if err := closeWithin(rec, 20*time.Second); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, rec *recorder.Recorder, kind, key string) []corev1.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	events, err := rec.List(ctx, kind, key)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// wantNow fails the test unless the condition holds when all has happened that can happen now.
func wantNow(t *testing.T, what string, condition func() bool) {
	t.Helper()
	synctest.Wait()
	if !condition() {
		t.Fatalf("it is not so: %s", what)
	}
}

// accounted fails the test if an event has no outcome, or two.
func accounted(t *testing.T, c recorder.Counts) {
	t.Helper()
	if sum := c.Published + c.Merged + c.Filtered + c.Dropped + c.Failed; sum != c.Recorded || c.Pending != 0 {
		t.Errorf("%d events were recorded and %d are accounted for: %+v", c.Recorded, sum, c)
	}
}

// errorLog collects what is logged as an error.
type errorLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *errorLog) logger() *klog.Logger {
	logger := funcr.New(func(_, args string) {
		if strings.Contains(args, `"error"=`) || strings.Contains(args, `"logger"="error"`) {
			l.mu.Lock()
			l.lines = append(l.lines, args)
			l.mu.Unlock()
		}
	}, funcr.Options{Verbosity: 9})
	return &logger
}

func (l *errorLog) with(text string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}
