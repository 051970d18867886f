package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

type siteSpec struct {
	Title string `json:"title,omitempty"`
}

type siteStatus struct {
	Note string `json:"note,omitempty"`
}

type site = entity.Object[siteSpec, siteStatus]

func newSite(name, title string) *site {
	return &site{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: siteSpec{Title: title}}
}

func sites() entity.Config {
	return entity.Config{Kind: "Site", Bucket: "sites", Storage: jetstream.MemoryStorage}
}

// isolated makes a test independent of the environment: no variables and no contexts of the nats command line but those
// that it writes to the directory that is returned.
func isolated(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv(urlVariable, "")
	t.Setenv(contextVariable, "")
	return filepath.Join(dir, "nats")
}

// writeContext writes a context of the nats command line, and selects it if select is not empty.
func writeContext(t *testing.T, dir, name string, settings map[string]any, selected bool) {
	t.Helper()
	text, err := json.Marshal(settings)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "context"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "context", name+".json"), text, 0o600))
	if selected {
		must(t, os.WriteFile(filepath.Join(dir, "context.txt"), []byte(name+"\n"), 0o600))
	}
}

// logged collects the lines of a log.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// withLog returns a context whose logger writes to what is returned.
func withLog(ctx context.Context) (context.Context, *logged) {
	l := &logged{}
	log := funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines.WriteString(prefix + " " + args + "\n")
	}, funcr.Options{Verbosity: 2})
	return klog.NewContext(ctx, log), l
}

func silent(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// newManager is New for tests: in virtual time it finds the servers there.
func newManager(ctx context.Context, cfg Config) (*Manager, error) {
	if cfg.Conn == nil {
		cfg.Options = append(cfg.Options, natstest.Dialer())
	}
	return New(ctx, cfg)
}

// open makes a manager that is closed at the end of the test.
func open(t *testing.T, cfg Config) *Manager {
	t.Helper()
	m, err := newManager(silent(t.Context()), cfg)
	must(t, err)
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

func startServer(t *testing.T) *natstest.Server {
	t.Helper()
	return natstest.Start(t)
}

func client(t *testing.T, m *Manager, cfg entity.Config, opts ...ClientOption) *entity.Client[*site] {
	t.Helper()
	c, err := Client[*site](t.Context(), m, cfg, opts...)
	must(t, err)
	return c
}

// run is a call of Manager.Run.
type run struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func start(t *testing.T, m *Manager) *run {
	t.Helper()
	return startIn(t, silent(context.Background()), m)
}

func startIn(t *testing.T, ctx context.Context, m *Manager) *run {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r := &run{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = m.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// wait waits until Run has returned.
func (r *run) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(time.Minute):
		r.t.Fatal("Run has not returned")
		return nil
	}
}

func (r *run) stop() error {
	r.t.Helper()
	r.cancel()
	return r.wait()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustSay fails unless the error has all of the texts.
func mustSay(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not say %q: %v", text, err)
		}
	}
}

// blocking runs until its context ends, and tells when it runs.
func blocking(name string) (Runnable, <-chan struct{}) {
	started := make(chan struct{})
	return Func(name, func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}), started
}

var errBroken = errors.New("broken")

func (m *Manager) isRunning() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state == running
}
