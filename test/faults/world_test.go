package faults

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// world is a server, two replicas that live, and users whom nobody disturbs.
type world struct {
	t        *testing.T
	server   *natstest.Server
	js       jetstream.JetStream
	sites    *entity.Client[*site]
	pages    *entity.Client[*page]
	history  *history
	director *director
	log      *log

	crashes  chan string
	watching sync.WaitGroup // for crashes, and what is degraded
	endWatch context.CancelFunc

	mu       sync.Mutex
	replicas []*replica // in the order of their starts, also those that ended
	started  int
	failed   []error
}

// log keeps the lines of the replicas for a test that fails.
type log struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *log) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprintf(&l.lines, "%s %s %s\n", time.Now().Format("05.000"), prefix, args)
	}, funcr.Options{Verbosity: 2})
}

// newWorld has no replica yet. The plan happens to those that are started.
func newWorld(t *testing.T, plan ...cell) *world {
	t.Helper()
	server := natstest.Start(t)
	_, js := natstest.Connect(t, server.URL())
	w := &world{t: t, server: server, js: js, log: &log{}, crashes: make(chan string, 16)}
	var err error
	w.sites, err = entity.NewClient[*site](t.Context(), js, sitesConfig())
	must(t, err)
	w.pages, err = entity.NewClient[*page](t.Context(), js, pagesConfig())
	must(t, err)
	w.history = newHistory(t, server.URL())
	w.director = newDirector(w.history, plan)
	w.director.crashed = func(name string) { w.crashes <- name }
	w.director.purge = func(bucket, key string) error {
		stream, err := js.Stream(context.Background(), "KV_"+bucket)
		if err != nil {
			return err
		}
		return stream.Purge(context.Background(), jetstream.WithPurgeSubject("$KV."+bucket+"."+key))
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.endWatch = cancel
	w.watching.Go(func() { w.watchCrashes(ctx) })
	w.watching.Go(func() { w.watchHealth(ctx) })
	t.Cleanup(w.close)
	return w
}

// start starts one more replica. It fails only where that replica crashed before it ran.
func (w *world) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	r, err := startReplica(context.Background(), fmt.Sprint("r", w.started), w.server.URL(), w.director, w.log.logger())
	if err != nil {
		w.failed = append(w.failed, err)
		return
	}
	w.replicas = append(w.replicas, r)
}

// watchCrashes puts a new replica in the place of each that crashes.
func (w *world) watchCrashes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-w.crashes:
			for _, r := range w.living() {
				if r.name == name {
					r.abandon()
				}
			}
			w.start()
		}
	}
}

// watchHealth asks the replicas that live what is degraded. It asks the server something first, as they do, so that a
// sample comes late where the server's answers do.
func (w *world) watchHealth(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = w.js.Conn().FlushTimeout(patience) // it fails on a closed connection only
			w.history.sample(w.degraded())
		}
	}
}

func (w *world) degraded() (all []string) {
	for _, r := range w.living() {
		for name := range r.controller.Stats().Degraded {
			all = append(all, r.name+" "+name)
		}
	}
	slices.Sort(all)
	return all
}

// living are the replicas that run.
func (w *world) living() (living []*replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.replicas {
		select {
		case <-r.done:
		default:
			if !r.abandoned.Load() {
				living = append(living, r)
			}
		}
	}
	return living
}

func (w *world) leader() *replica {
	for _, r := range w.living() {
		if r.controller.Stats().Leading {
			return r
		}
	}
	return nil
}

// stopLeader stops the replica that leads, as an update of the program does, and starts another.
func (w *world) stopLeader() {
	w.t.Helper()
	var leads *replica
	w.eventually("one leads", func() bool {
		leads = w.leader()
		return leads != nil
	})
	leads.stop()
	within(w.t, leads.name+" stops", leads.done)
	w.start()
}

// close stops what runs. A replica that did not crash must return without an error.
func (w *world) close() {
	w.endWatch()
	w.watching.Wait()
	errs := w.director.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.replicas {
		r.stop()
	}
	for _, r := range w.replicas {
		within(w.t, r.name+" stops", r.done)
		if r.err != nil && !r.abandoned.Load() {
			w.t.Errorf("%s: Run: %v", r.name, r.err)
		}
		r.end()
	}
	for _, err := range append(errs, w.failed...) {
		w.t.Error(err)
	}
	if w.t.Failed() {
		w.log.mu.Lock()
		defer w.log.mu.Unlock()
		w.t.Logf("log:\n%s", w.log.lines.String())
	}
}

// patience is how long a world waits for what has to happen, faults included. It promises nothing about speed.
const patience = 2 * time.Minute

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			next, _ := w.director.next()
			w.t.Errorf("not within %v: %s; next: %v; degraded: %q", patience, what, next, w.degraded())
			w.judge()
			w.t.FailNow()
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
	}
}
