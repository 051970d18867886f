package lease

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// usual is the timing of most tests. Its terms last 12 s without a renewal.
var usual = Timing{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}

// latency is how long a request takes in each direction, unless a test says otherwise.
const latency = time.Millisecond

// key is the key of the lease, as the server has it.
type key struct {
	mu       sync.Mutex
	value    []byte
	revision uint64 // 0 if the key is absent
	marker   uint64 // of a key that was deleted
	writes   uint64
}

type reply struct {
	value    []byte
	revision uint64
	err      error
}

var resource = schema.GroupResource{Resource: "leases"}

func (k *key) load() reply {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.revision == 0 {
		return reply{revision: k.marker, err: apierrors.NewNotFound(resource, "lease")}
	}
	return reply{value: k.value, revision: k.revision}
}

func (k *key) store(value []byte, revision uint64) reply {
	k.mu.Lock()
	defer k.mu.Unlock()
	if revision != max(k.revision, k.marker) && (revision != 0 || k.revision != 0) {
		return reply{err: apierrors.NewConflict(resource, "lease", errors.New("it is at another revision"))}
	}
	k.writes++
	k.value, k.revision, k.marker = value, k.writes, 0
	return reply{revision: k.revision}
}

// put writes the key whatever it holds.
func (k *key) put(value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes++
	k.value, k.revision, k.marker = []byte(value), k.writes, 0
}

// remove deletes the key as a person does.
func (k *key) remove() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes++
	k.value, k.revision, k.marker = nil, 0, k.writes
}

// restore brings the key back from a backup.
func (k *key) restore(revision uint64, value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes, k.value, k.revision, k.marker = revision, []byte(value), revision, 0
}

// vanish takes the key away without a trace.
func (k *key) vanish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.value, k.revision, k.marker = nil, 0, 0
}

func (k *key) record(t *testing.T) record {
	t.Helper()
	var r record
	if got := k.load(); got.err != nil || json.Unmarshal(got.value, &r) != nil {
		t.Fatalf("the key holds %q: %v", got.value, got.err)
	}
	return r
}

// edit changes the record, as another replica would.
func (k *key) edit(t *testing.T, change func(*record)) {
	t.Helper()
	r := k.record(t)
	change(&r)
	value, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	k.put(string(value))
}

// route takes a request to the server, and its reply back.
type route func(ctx context.Context, request func() reply) reply

// delayed is a network with these delays on the way there and back.
func delayed(there, back time.Duration) route {
	return func(ctx context.Context, request func() reply) reply {
		if err := sleep(ctx, there); err != nil {
			return reply{err: err}
		}
		got := request()
		if err := sleep(ctx, back); err != nil {
			return reply{err: err}
		}
		return got
	}
}

// lost is a network that swallows requests.
func lost(ctx context.Context, _ func() reply) reply {
	<-ctx.Done()
	return reply{err: ctx.Err()}
}

// unanswered is a network that swallows replies.
func unanswered(ctx context.Context, request func() reply) reply {
	request()
	return lost(ctx, request)
}

// late is a network that delivers the request even if nobody waits for it any more.
func late(delay time.Duration) route {
	return func(ctx context.Context, request func() reply) reply {
		go func() {
			time.Sleep(delay)
			request()
		}()
		return lost(ctx, request)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	pause(ctx, d)
	return ctx.Err()
}

// link is how one replica reaches the key. It implements Store.
type link struct {
	key *key

	mu    sync.Mutex
	loads route
	puts  route
	asked []string // the requests that were sent
}

func (l *link) Load(ctx context.Context) ([]byte, uint64, error) {
	got := l.via("load", func() route { return l.loads })(ctx, l.key.load)
	return got.value, got.revision, got.err
}

func (l *link) Store(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	got := l.via("store", func() route { return l.puts })(ctx, func() reply { return l.key.store(value, revision) })
	return got.revision, got.err
}

func (l *link) via(what string, which func() route) route {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, what)
	return which()
}

// use sends what follows over these routes.
func (l *link) use(loads, puts route) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loads, l.puts = loads, puts
}

// heal makes the network good again.
func (l *link) heal() { l.use(delayed(latency, latency), delayed(latency, latency)) }

// requests are those since the last call.
func (l *link) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.asked
	l.asked = nil
	return asked
}

// replica is a call of Run.
type replica struct {
	*link
	id       string
	timing   Timing
	removed  chan struct{}
	existed  bool
	unknown  atomic.Bool             // whether it existed
	absent   bool                    // Config.AbsentIsFree
	runs     []string                // Config.Controllers
	barred   func() (why, err error) // Config.Barred; nil: it never is
	shards   int                     // Config.Shards
	lingers  time.Duration           // how long lead goes on after its context has ended
	stop     func()                  // ends Run's context
	returned chan struct{}           // closed when Run has returned

	mu      sync.Mutex
	terms   []served
	reports []error
}

// served is a term as lead saw it.
type served struct {
	*Term
	began, ended time.Time // ended is when its context did
	cause        error
}

// join makes a replica that does not run yet.
func (k *key) join(id string) *replica {
	r := &replica{link: &link{key: k}, id: id, timing: usual, removed: make(chan struct{}, 1), returned: make(chan struct{})}
	r.heal()
	return r
}

// run starts a replica, and stops it at the end of the test.
func (r *replica) run(t *testing.T) *replica {
	t.Helper()
	r.runUntil(t, t.Context())
	return r
}

func (r *replica) runUntil(t *testing.T, ctx context.Context) {
	t.Helper()
	ctx, r.stop = context.WithCancel(ctx)
	e := elector{
		Config: Config{
			Store: r.link, Name: "bucket/lease", Identity: r.id, Timing: r.timing, Removed: r.removed, Report: r.report,
			Existed: r.mayHaveExisted, AbsentIsFree: r.absent,
			Controllers: func() []string { return r.runs }, Shards: r.shards,
			Barred: func(context.Context) (why, err error) {
				if r.barred == nil {
					return nil, nil
				}
				return r.barred()
			},
		},
		random: rand.Float64,
	}
	if err := e.validate(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.returned)
		e.run(ctx, r.lead)
	}()
	t.Cleanup(func() {
		r.stop()
		<-r.returned
	})
}

var errUnknown = errors.New("it is not known whether it existed")

func (r *replica) mayHaveExisted(context.Context, bool) (bool, error) {
	if r.unknown.Load() {
		return false, errUnknown
	}
	return r.existed, nil
}

// halt stops the replica and waits for it.
func (r *replica) halt() {
	r.stop()
	<-r.returned
}

func (r *replica) lead(ctx context.Context, term *Term) {
	r.mu.Lock()
	i := len(r.terms)
	r.terms = append(r.terms, served{Term: term, began: time.Now()})
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.terms[i].ended, r.terms[i].cause = time.Now(), context.Cause(ctx)
	r.mu.Unlock()
	time.Sleep(r.lingers)
}

func (r *replica) report(_ context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, err)
}

// reported are the reports since the last call.
func (r *replica) reported() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	reports := r.reports
	r.reports = nil
	return reports
}

func (r *replica) served() []served {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.terms)
}

// last is the newest term.
func (r *replica) last(t *testing.T) served {
	t.Helper()
	terms := r.served()
	if len(terms) == 0 {
		t.Fatalf("%s never led", r.id)
	}
	return terms[len(terms)-1]
}

func (r *replica) leads() bool {
	terms := r.served()
	return len(terms) > 0 && terms[len(terms)-1].ended.IsZero()
}
