package worlds

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The users of the server. No fault disturbs the operator.
const replicaUser, operatorUser = "replica", "operator"

// world is one night.
type world struct {
	t       *testing.T
	subject Subject
	plan    Plan
	server  *natstest.Server
	nc      *nats.Conn // no fault disturbs it
	js      jetstream.JetStream
	begin   time.Time
	events  sync.WaitGroup  // that happen
	faults  context.Context // ends with the time of the faults
	clock   serverClock
	quiet   atomic.Bool
	calm    time.Time                // since when no fault happens
	busy    map[string]chan struct{} // by stream, "server" and "user": who changes it has what is in it

	mu        sync.Mutex
	stepper   *stepper
	over      bool       // no event begins any more
	settings  deployment // of what is started
	processes []*Process // in the order of their starts, also those that have ended
	started   int
	starts    map[string]time.Time // of processes, by name
	emptied   time.Time            // when the server came back empty
	revived   revived
	model     map[string]existence // of documents, as the users know
	running   map[string]attempt
	runs      int
	documents int
	mood      map[deed]int // what reconcilers do
	holder    []tenure
	identity  map[string]string                 // process by identity
	renewing  string                            // who wrote the lease last: a renewal is not noted
	owners    map[string]string                 // of owned keys, by bucket/key
	taken     map[string]time.Time              // when a saboteur took an owned key away
	unsealed  map[string]jetstream.StreamConfig // of streams that were sealed, from before
	writes    []write

	history    []stored          // of the status bucket, where replicas share the keys
	streams    []oneStream       // that it has had
	watchEnds  func()            // ends the watch of the stream
	writers    map[string]string // process, by the id of a write
	lives      map[string]string // process, by the id of a member
	members    map[string]string // names of processes among those that share the keys
	ends       map[string]time.Time
	touched    map[string]bool // keys of the status bucket that a saboteur has touched
	hindrances []hindrance

	lines  []line
	broken []Broken
}

// revived is the process that the lease names in records that were put back, and when they were.
type revived struct {
	name string
	at   time.Time
}

// existence is what users know of a document.
type existence struct {
	state    state
	since    time.Time // of the state, and of the document
	document []byte
}

type state int

const (
	gone state = iota
	exists
	unknown
)

// play lets a plan happen, and returns the rules that were broken and what was noted.
func play(t *testing.T, makes Maker, p Plan) (broken []Broken, lines []line) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) {
		s := makes(t, p)
		w := &world{
			t: t, subject: s, plan: p, begin: time.Now(), busy: map[string]chan struct{}{}, model: map[string]existence{},
			running: map[string]attempt{}, mood: map[deed]int{}, identity: map[string]string{}, owners: map[string]string{},
			taken: map[string]time.Time{}, starts: map[string]time.Time{}, unsealed: map[string]jetstream.StreamConfig{},
			writers: map[string]string{}, lives: map[string]string{}, members: map[string]string{}, ends: map[string]time.Time{},
			touched: map[string]bool{},
		}
		for _, name := range append(s.buckets(), "server", "user") {
			w.busy[name] = make(chan struct{}, 1)
		}
		for i := range p.Keys {
			w.model[p.Key(i)] = existence{}
		}
		w.settings = settingsOf(p)
		w.stepper = newStepper(s, p, w.begin)
		w.live()
		broken, lines = w.broken, w.lines
	})
	return broken, lines
}

// live is the night from its begin to its end.
func (w *world) live() {
	w.server = natstest.Start(w.t, natstest.WithConfig(users))
	w.nc, w.js = natstest.Connect(w.t, w.server.URL(), nats.UserInfo(operatorUser, ""),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	always := context.Background()
	faults, end := context.WithCancel(always)
	w.faults = faults
	watching, endWatch := context.WithCancel(always)
	var watches sync.WaitGroup
	if w.plan.Shards > 0 {
		watches.Go(func() { w.watchHistory(watching) })
	}
	for range w.plan.Replicas {
		w.launch(always)
		sleep(always, time.Second)
	}
	watches.Go(func() { w.watchLease(watching) })
	watches.Go(func() { w.watchKeys(watching) })
	watches.Go(func() { w.operate(watching) })
	w.happen(end)
	w.mend()
	w.calm = time.Now()
	w.note("world", "quiet")
	sleep(always, 5*time.Minute)
	w.holdSettled("after five minutes without faults")
	if w.plan.Shards > 0 {
		w.loseOneInCalm()
	}
	sleep(always, w.plan.Resync+w.plan.Compare+5*time.Minute)
	w.holdSettled("at the end")
	w.holdGone()
	endWatch()
	watches.Wait()
	last := time.Now()
	for _, p := range w.living() {
		p.end(false)
	}
	w.holdTerms()
	w.holdSlots(last)
}

// happen lets the events happen, each in its time, while those at steps happen as the steps come. What users do happens
// one after the other.
func (w *world) happen(end context.CancelFunc) {
	for _, e := range w.plan.Events {
		if e.Step != "" {
			continue
		}
		sleep(w.faults, time.Until(w.begin.Add(e.At)))
		w.events.Go(func() { w.does(w.faults, e, place{}) })
	}
	sleep(w.faults, time.Until(w.begin.Add(w.plan.Length)))
	w.mu.Lock()
	w.over = true
	missed := w.stepper.waiting
	w.mu.Unlock()
	for _, e := range missed {
		w.note("event", "it did not come to it: %s", e)
	}
	end()
	w.events.Wait()
}

// take is a lock that may be held while time passes: who waits for a mutex would stop it.
func (w *world) take(name string) (release func()) {
	w.busy[name] <- struct{}{}
	return func() { <-w.busy[name] }
}

// tryTake is take without a wait.
func (w *world) tryTake(name string) (release func(), ok bool) {
	select {
	case w.busy[name] <- struct{}{}:
		return func() { <-w.busy[name] }, true
	default:
		return nil, false
	}
}

func users(o *server.Options) {
	o.Users = []*server.User{{Username: replicaUser}, {Username: operatorUser}}
}

// line is one thing that was noted.
type line struct {
	at   time.Duration // since the world began
	by   string
	says string
}

func (l line) String() string { return fmt.Sprintf("%9.3f %-8s %.400s", l.at.Seconds(), l.by, l.says) }

func (w *world) note(by, format string, args ...any) {
	l := line{time.Since(w.begin), by, fmt.Sprintf(format, args...)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, l)
}

func (w *world) logger(name string) logr.Logger {
	return funcr.New(func(_, args string) { w.note(name, "%s", args) }, funcr.Options{Verbosity: 2})
}

// longestPatience is more than any fault lasts. A night in which something is tried for longer would never end.
const longestPatience = time.Hour

// patiently calls f until it succeeds: by a user who asks again.
func (w *world) patiently(what string, f func(ctx context.Context) error) {
	for began := time.Now(); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := f(ctx)
		cancel()
		if err == nil {
			return
		}
		w.note("world", "%s: %v", what, err)
		if tried := time.Since(began); tried > longestPatience {
			panic(fmt.Sprintf("%s: %s, for %v: %v", w.t.Name(), what, tried, err))
		}
		sleep(context.Background(), time.Second)
	}
}

// read reads a bucket live.
func (w *world) read(ctx context.Context, bucket string) (map[string]Document, error) {
	kv, err := w.js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, err
	}
	watch, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = watch.Stop() }()
	all := map[string]Document{}
	for {
		select {
		case e := <-watch.Updates():
			if e == nil {
				return all, nil
			}
			all[e.Key()] = Document{e.Value(), e.Revision()}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// snapshot reads all buckets. Reserved keys are left out.
func (w *world) snapshot(ctx context.Context) (s Snapshot, err error) {
	if s, err = w.documentsAndRecords(ctx); err != nil {
		return s, err
	}
	s.Owned = map[string]map[string]Document{}
	for _, bucket := range w.subject.Owned {
		if s.Owned[bucket], err = w.read(ctx, bucket); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (w *world) documentsAndRecords(ctx context.Context) (s Snapshot, err error) {
	if s.Primaries, err = w.read(ctx, w.subject.Primaries); err != nil {
		return s, err
	}
	if s.Records, err = w.read(ctx, w.subject.status()); err != nil {
		return s, err
	}
	for _, docs := range []map[string]Document{s.Primaries, s.Records} {
		for key := range docs {
			if strings.HasPrefix(key, "_nagi") {
				delete(docs, key)
			}
		}
	}
	return s, nil
}
