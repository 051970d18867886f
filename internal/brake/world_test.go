package brake_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// world is what a brake sees: documents, anchors and a status bucket. Its worker does what the engine's workers do with
// keys that are due.
type world struct {
	t      *testing.T
	window time.Duration

	mu        sync.Mutex
	docs      map[string]uint64 // revisions
	evidenced map[string]bool
	expired   map[string]bool
	stream    brake.Stream
	await     func()
	anchors   map[string]brake.Anchor
	pages     map[string]owner.Stamp // what secondaries carry, by owner
	proofs    bool                   // all of them are proven
	markers   map[string]bool
	objects   map[string]int // what primaries own, gone or not
	deaf      error          // of the leader, if it does not answer
	listed    int            // how often all anchors were listed
	stuck     map[string]bool
	reserved  map[string]value
	revision  uint64
	away      bool // NATS is
	due       []due
	tornDown  []string
	unwanted  map[string]string // primaries that do not want something that they own, and what speaks against its delete
	pruned    []string          // what is not there any more
	backlog   bool
	told      []told
	refused   []string // requests for a release, as told
	onTell    func(brake.State)
	onCompare func() // when somebody asks for the revisions of the documents
	onWeigh   func() // when the brake asks what suspects own, just before it decides about them

	board  *health.Board
	shared bool // others follow the brake

	b   *brake.Brake // nil between terms
	end func()       // ends the term
}

type value struct {
	text     string
	revision uint64
}

type due struct {
	key  string
	ops  operation.Operations
	prio queue.Priority
}

type told struct {
	state   brake.State
	message string
}

// run has a world with n documents that are anchored, and a brake in a term, in a bubble. The first sweep found
// nothing.
func run(t *testing.T, n int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, n)
		w.begin()
		w.sweep()
		test(t, w)
		w.halt()
	})
}

// newWorld has n documents that are anchored, and no term.
func newWorld(t *testing.T, n int) *world {
	w := &world{
		t: t, window: 10 * time.Minute, board: health.New(nil),
		docs: map[string]uint64{}, evidenced: map[string]bool{}, expired: map[string]bool{}, anchors: map[string]brake.Anchor{},
		stuck: map[string]bool{}, reserved: map[string]value{},
		stream: brake.Stream{Created: "first", Highest: 1},
	}
	w.put(0, n)
	return w
}

func name(i int) string { return fmt.Sprintf("site-%02d", i) }

// names are those from the first on, before the last.
func names(first, last int) (keys []string) {
	for i := first; i < last; i++ {
		keys = append(keys, name(i))
	}
	return keys
}

// put writes documents and reconciles them.
func (w *world) put(first, last int) {
	for _, key := range names(first, last) {
		w.mu.Lock()
		w.stream.Highest++
		w.docs[key] = w.stream.Highest
		w.anchors[key] = brake.Anchor{Stream: w.stream.Created, Document: w.stream.Highest, Observed: w.stream.Highest}
		delete(w.evidenced, key)
		w.mu.Unlock()
		if w.b != nil {
			w.b.Forget(key)
		}
	}
}

// stamps are those of the secondaries of missing owners that have a record, or of which they have a proof.
func (w *world) stamps(context.Context) iter.Seq2[string, owner.Stamp] {
	w.mu.Lock()
	defer w.mu.Unlock()
	missing := maps.Clone(w.pages)
	maps.DeleteFunc(missing, func(key string, stamp owner.Stamp) bool {
		_, exists := w.docs[key]
		_, anchored := w.anchors[key]
		return exists || stamp.IsNone() || !anchored && !w.proofs
	})
	return maps.All(missing)
}

// mark leaves the marker of a delete. It needs the lock.
func (w *world) mark(key string) {
	if w.markers == nil {
		w.markers = map[string]bool{}
	}
	w.markers[key] = true
}

// marked reports whether somebody deleted the key, and the stream did not go back to a time before.
func (w *world) marked(_ context.Context, key string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.markers[key], w.deaf
}

func (w *world) ownedBy(primaries sets.Set[string]) map[string]int {
	if f := w.onWeigh; f != nil {
		f()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	owned := maps.Clone(w.objects)
	maps.DeleteFunc(owned, func(key string, _ int) bool { return !primaries.Has(key) })
	return owned
}

func (w *world) ownedByAll() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, owned := range w.objects {
		n += owned
	}
	return n
}

// change changes the world under its lock, while a brake runs.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// lose takes documents away so that nobody is seen to delete them. In a term their keys are due.
func (w *world) lose(keys ...string) {
	w.mu.Lock()
	for _, key := range keys {
		delete(w.docs, key)
	}
	w.mu.Unlock()
	if w.b != nil {
		for _, key := range keys {
			w.work(due{key: key})
		}
	}
}

// age lets a document expire by the bucket's age limit.
func (w *world) age(key string) {
	w.change(func() { w.expired[key] = true })
	w.lose(key)
}

// loseStuck is lose for keys whose teardowns do not end.
func (w *world) loseStuck(keys ...string) {
	for _, key := range keys {
		w.stuck[key] = true
	}
	w.lose(keys...)
}

// delete deletes documents, which this process sees; of those that were lost, it sees the deletes late.
func (w *world) delete(keys ...string) {
	w.mu.Lock()
	for _, key := range keys {
		delete(w.docs, key)
		w.mark(key)
		w.evidenced[key] = true
	}
	w.mu.Unlock()
}

// begin begins a term of a new process.
func (w *world) begin() {
	w.t.Helper()
	b := brake.New(brake.Config{
		Primaries: (*primaries)(w), Anchors: (*anchors)(w), Window: w.window, Secondaries: w.stamps, Shared: w.shared,
		Bucket: record.NewBucket((*store)(w), "sites-status", w.board), Board: w.board,
		Marked: w.marked, OwnedBy: w.ownedBy, Owned: w.ownedByAll,
		Enqueue: func(key string, ops operation.Operations, prio queue.Priority) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.due = append(w.due, due{key, ops, prio})
		},
		Backlog: func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.backlog
		},
		Tell: func(_ context.Context, state brake.State, message string) {
			w.mu.Lock()
			w.told = append(w.told, told{state, message})
			f := w.onTell
			w.mu.Unlock()
			if f != nil {
				f(state)
			}
		},
		Ignored: func(_ context.Context, message string) { w.change(func() { w.refused = append(w.refused, message) }) },
	})
	w.lead(b)
}

// lead begins a term of b.
func (w *world) lead(b *brake.Brake) {
	w.t.Helper()
	w.due = nil
	ctx, cancel := context.WithCancel(quiet(w.t))
	if err := b.Start(ctx); err != nil {
		w.t.Fatal(err)
	}
	w.b = b
	var loop sync.WaitGroup
	loop.Go(func() { b.Run(ctx) })
	w.end = func() {
		cancel()
		loop.Wait()
	}
}

// halt ends the term.
func (w *world) halt() {
	w.end()
	w.b = nil
}

// restart halts, does what is done while nobody leads, and begins the next term, which sweeps and finds nothing.
func (w *world) restart(meanwhile func()) {
	w.halt()
	meanwhile()
	w.begin()
	w.sweep()
}

// settle lets the brake decide, and the worker do what is due, until nothing is left to do.
func (w *world) settle() {
	time.Sleep(5 * time.Second)
	for {
		synctest.Wait()
		w.mu.Lock()
		now := w.due
		w.due = nil
		w.mu.Unlock()
		if len(now) == 0 {
			return
		}
		for _, d := range now {
			w.work(d)
		}
		time.Sleep(5 * time.Second)
	}
}

// work does what the engine does with a key that is due.
func (w *world) work(d due) {
	w.mu.Lock()
	_, exists := w.docs[d.key]
	_, anchored := w.anchors[d.key]
	evidenced, stuck := w.evidenced[d.key], w.stuck[d.key]
	w.mu.Unlock()
	switch {
	case exists:
		w.b.Forget(d.key)
		w.prune(d.key)
	case !anchored && !d.ops.AskedFor():
		w.b.ForgetDelete(d.key)
	case !anchored && w.b.HoldsOrphans(d.key):
	case anchored && !evidenced && !w.b.Admit(d.key):
	case stuck: // the teardown is under way
	default:
		w.mu.Lock()
		delete(w.anchors, d.key)
		delete(w.objects, d.key)
		w.tornDown = append(w.tornDown, d.key)
		w.mu.Unlock()
		w.b.Forget(d.key)
	}
}

// sweep has the brake decide about what a sweep found, and the worker clean up after the owners that are free.
func (w *world) sweep(found ...brake.Orphans) (free []string) {
	free = w.b.Sweep(quiet(w.t), w.withStamps(found...))
	slices.Sort(free)
	return free
}

// withStamps adds what the secondaries carry.
func (w *world) withStamps(found ...brake.Orphans) []brake.Orphans {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range found {
		found[i].Stamps = nil
		for key := range found[i].Owners {
			if stamp, has := w.pages[key]; has && !stamp.IsNone() {
				found[i].Stamps = append(found[i].Stamps, owner.Stamped{Key: key, Stamp: stamp})
			}
		}
	}
	return found
}

// release requests a release, as ReleaseBrake does.
func (w *world) release() {
	w.t.Helper()
	must(w.t, w.b.Release(quiet(w.t)))
}

// request is what an operator types who read how many deletes are held.
func (w *world) request() string {
	w.t.Helper()
	state, ok := kept[brake.State](w, record.KeyBrake)
	if !ok || !state.Engaged || state.Engagement == "" {
		w.t.Fatalf("kept %+v", state)
	}
	return fmt.Sprintf("%s %d", state.Engagement, state.Count())
}

// ask puts something to the release key.
func (w *world) ask(text string) {
	w.write(record.KeyRelease, text)
	if w.b != nil {
		w.b.ReleaseRequested() // the leader's cache tells it
	}
}

// recreate makes another stream of the bucket, with the documents from the first on, before the last. The cache knows.
func (w *world) recreate(first, last int) {
	w.mu.Lock()
	w.stream.Created += "'"
	w.stream.Changes++
	clear(w.docs)
	w.mu.Unlock()
	for i, key := range names(first, last) {
		w.mu.Lock()
		w.docs[key] = uint64(i + 1)
		w.mu.Unlock()
		if w.b != nil {
			w.b.Forget(key)
		}
	}
	if w.b == nil {
		return
	}
	for key := range (*anchors)(w).All() {
		w.work(due{key: key})
	}
}

// wantHeld says that the brake is engaged and holds so many deletes, and that nothing of them was torn down.
func (w *world) wantHeld(n int) brake.State {
	w.t.Helper()
	state := w.b.State()
	if !state.Engaged || state.Held != n || state.Reason == "" || state.Since.IsZero() {
		w.t.Errorf("%+v, want engaged with %d held", state, n)
	}
	return state
}

// wantTornDown says that so many keys were torn down, and that the brake is not engaged.
func (w *world) wantTornDown(n int) {
	w.t.Helper()
	w.mu.Lock()
	torn := len(w.tornDown)
	w.mu.Unlock()
	if state := w.b.State(); torn != n || state.Engaged {
		w.t.Errorf("%d torn down, %+v; want %d, and the brake off", torn, state, n)
	}
}

// engaged returns how often the brake engaged.
func (w *world) engaged() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, news := range w.told {
		if news.state.Engaged {
			n++
		}
	}
	return n
}

// kept decodes a reserved key of the status bucket. It is the zero value if the key is absent.
func kept[T any](w *world, key string) (v T, ok bool) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	held, ok := w.reserved[key]
	if ok {
		must(w.t, json.Unmarshal([]byte(held.text), &v))
	}
	return v, ok
}

func (w *world) has(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.reserved[key]
	return ok
}

// write puts a reserved key by hand.
func (w *world) write(key, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revision++
	w.reserved[key] = value{text, w.revision}
}

// primaries implements brake.Primaries.
type primaries world

func (p *primaries) Exists(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.docs[key]
	return ok
}

func (p *primaries) Evidenced(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.evidenced[key]
}

func (p *primaries) AgedOut(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expired[key]
}

func (p *primaries) Revisions() iter.Seq[uint64] {
	if f := p.onCompare; f != nil {
		f()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Values(maps.Clone(p.docs))
}

func (p *primaries) Stream() brake.Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream
}

func (p *primaries) Await(ctx context.Context, sequence uint64) error {
	p.mu.Lock()
	caughtUp := p.await
	p.mu.Unlock()
	if caughtUp == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Second)
	caughtUp()
	return nil
}

// anchors implements brake.Anchors.
type anchors world

func (a *anchors) All() iter.Seq2[string, brake.Anchor] {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listed++
	return maps.All(maps.Clone(a.anchors))
}

func (a *anchors) Has(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.anchors[key]
	return ok
}

// store implements record.Store.
type store world

var errAway = errors.New("nats: no responders")

func (s *store) GetReserved(_ context.Context, key string) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.reserved[key]
	switch {
	case s.away:
		return nil, 0, errAway
	case !ok:
		return nil, 0, apierrors.NewNotFound(schema.GroupResource{}, key)
	}
	return []byte(held.text), held.revision, nil
}

func (s *store) PutReserved(_ context.Context, key string, data []byte, revision uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved[key].revision != revision {
		return 0, apierrors.NewConflict(schema.GroupResource{}, key, errors.New("another revision"))
	}
	s.revision++
	s.reserved[key] = value{string(data), s.revision}
	return s.revision, nil
}

func (s *store) DeleteReserved(_ context.Context, key string, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved[key].revision != revision {
		return apierrors.NewConflict(schema.GroupResource{}, key, errors.New("another revision"))
	}
	delete(s.reserved, key)
	return nil
}

// quiet is a context that logs nothing.
func quiet(t *testing.T) context.Context { return klog.NewContext(context.Background(), klog.Logger{}) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
