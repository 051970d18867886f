package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// few slots are enough for the protocol: it treats each by itself.
const few = 64

const (
	lasts  = 4 * time.Second
	renews = time.Second
)

// world is a server with the stream that members share, and what was seen to run.
type world struct {
	*testing.T
	js     jetstream.JetStream
	stream jetstream.Stream
	random *rand.Rand

	mu      sync.Mutex
	running map[int]string // by slot: who works there
	runs    []run
	history []Entry
	writers map[uint64]*wire // by revision of a slot's key
	faults  []string
}

// run is work in a slot, by whom and when.
type run struct {
	slot       int
	member     string
	epoch      uint64
	start, end time.Time
}

// inWorld runs a test with a real server, in virtual time. At its end it looks at all that the stream has seen.
func inWorld(t *testing.T, seed uint64, test func(w *world)) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "KV_shards", Subjects: []string{"$KV.shards.>"}, Storage: jetstream.MemoryStorage,
			AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Hour, MaxMsgsPerSubject: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, js: js, stream: stream, random: rand.New(rand.NewPCG(seed, 1)), running: map[int]string{},
			writers: map[uint64]*wire{}}
		w.record()
		defer w.judge()
		test(w)
	})
}

// record keeps all that comes into the stream, which itself keeps the last of each key.
func (w *world) record() {
	w.Helper()
	consumer, err := w.stream.CreateConsumer(w.Context(), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true,
	})
	if err != nil {
		w.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		w.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := messages.Next()
			if err != nil {
				return
			}
			meta, err := m.Metadata()
			if err != nil {
				w.fault("metadata: %v", err)
				return
			}
			w.mu.Lock()
			w.history = append(w.history, entryOf(m.Subject(), meta.Sequence.Stream, m.Headers(), m.Data()))
			w.mu.Unlock()
		}
	}()
	w.Cleanup(func() {
		messages.Stop()
		<-done
	})
}

// taken reports whether a slot's key was written by the one whom it names, and who was not its owner before. (A member
// may hand a slot to a life of its own before it knows that this one is over.)
func (w *world) taken(before, to string, revision uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	writer := w.writers[revision]
	return writer != nil && writer.ids[to] && !writer.ids[before]
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// node is a member with its host and its wires.
type node struct {
	*Shards
	w    *world
	wire *wire
	host *host
	stop context.CancelFunc
	done chan struct{}
	cut  context.CancelFunc // ends the watch
}

type setting func(*node, *Config)

func (w *world) join(name string, settings ...setting) *node {
	w.Helper()
	n := &node{w: w, done: make(chan struct{})}
	n.wire = &wire{world: w, ids: map[string]bool{}}
	n.host = &host{world: w, name: name, takes: 20 * time.Millisecond, work: map[int]*sync.WaitGroup{}}
	c := Config{
		Slots: few, Name: name, Weight: 1, Duration: lasts, Renew: renews, DrainPatience: time.Minute,
		Store: n.wire, Host: n.host,
	}
	for _, set := range settings {
		set(n, &c)
	}
	n.Shards = New(c)
	n.host.shards = n.Shards
	ctx, stop := context.WithCancel(context.Background())
	watching, cut := context.WithCancel(context.Background())
	n.stop, n.cut = stop, cut
	go n.watch(watching)
	go func() {
		defer close(n.done)
		n.Run(ctx, context.WithoutCancel(ctx), func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 10*time.Second)
		})
	}()
	w.Cleanup(n.leave)
	return n
}

// leave ends a member in good order.
func (n *node) leave() {
	n.stop()
	select {
	case <-n.done:
	case <-time.After(2 * time.Minute):
		n.w.fault("%v does not end", n)
	}
	n.cut()
}

// watch shows the member what the stream has.
func (n *node) watch(ctx context.Context) {
	for ctx.Err() == nil {
		n.watchOnce(ctx)
	}
}

func (n *node) watchOnce(ctx context.Context) {
	consumer, err := n.w.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true,
		InactiveThreshold: time.Hour, FilterSubject: "$KV.shards.>",
	})
	if err != nil {
		pause(ctx, 100*time.Millisecond)
		return
	}
	defer n.w.stream.DeleteConsumer(context.Background(), consumer.CachedInfo().Name)
	if consumer.CachedInfo().NumPending == 0 {
		n.Listed()
	}
	messages, err := consumer.Messages()
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		m, err := messages.Next()
		if err != nil {
			return
		}
		for n.wire.isAway() && ctx.Err() == nil {
			pause(ctx, 100*time.Millisecond)
		}
		pause(ctx, n.wire.viewDelay())
		meta, err := m.Metadata()
		if err != nil {
			n.w.fault("metadata: %v", err)
			return
		}
		if e := entryOf(m.Subject(), meta.Sequence.Stream, m.Headers(), m.Data()); e.Value != nil || !n.wire.blind {
			n.Apply(e)
		}
		if meta.NumPending == 0 {
			n.Listed()
		}
	}
}

func entryOf(subject string, revision uint64, header nats.Header, data []byte) Entry {
	e := Entry{Key: strings.TrimPrefix(subject, "$KV.shards."), Revision: revision, Value: data}
	if header.Get("KV-Operation") != "" || header.Get("Nats-Marker-Reason") != "" {
		e.Value, e.Expired = nil, header.Get("Nats-Marker-Reason") == "MaxAge"
	}
	return e
}

// wire is the store as a member reaches it.
type wire struct {
	*world

	ids   map[string]bool // of its member; guarded by world.mu
	blind bool            // its view never shows that something is gone

	faultsMu sync.Mutex
	away     bool                  // nothing gets through, in either direction
	lingers  time.Duration         // and a request returns so long after its context has ended
	view     func() time.Duration  // delays of the view; nil: none
	latency  func() time.Duration  // of requests, there and back
	loses    func(key string) bool // the answer to a write that is applied
	puts     map[string]int        // by prefix of keys
}

var errLost = errors.New("no answer")

func (s *wire) set(change func(*wire)) {
	s.faultsMu.Lock()
	defer s.faultsMu.Unlock()
	change(s)
}

func (s *wire) isAway() bool {
	s.faultsMu.Lock()
	defer s.faultsMu.Unlock()
	return s.away
}

func (s *wire) viewDelay() time.Duration {
	s.faultsMu.Lock()
	defer s.faultsMu.Unlock()
	if s.view == nil {
		return 0
	}
	return s.view()
}

// travel is one way over the wire.
func (s *wire) travel(ctx context.Context) error {
	s.faultsMu.Lock()
	away, latency, lingers := s.away, s.latency, s.lingers
	s.faultsMu.Unlock()
	if latency != nil {
		pause(ctx, latency())
	}
	if away {
		<-ctx.Done()
		pause(context.WithoutCancel(ctx), lingers)
	}
	return ctx.Err()
}

func (s *wire) Put(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	header := nats.Header{}
	if ttl > 0 {
		header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(ttl/time.Second)))
	}
	return s.send(ctx, key, value, revision, header)
}

func (s *wire) Delete(ctx context.Context, key string, revision uint64) error {
	_, err := s.send(ctx, key, nil, revision, nats.Header{"KV-Operation": []string{"DEL"}})
	return err
}

func (s *wire) send(
	ctx context.Context, key string, value []byte, revision uint64, header nats.Header,
) (uint64, error) {
	if err := s.travel(ctx); err != nil {
		return 0, err
	}
	s.set(func(s *wire) {
		if s.puts == nil {
			s.puts = map[string]int{}
		}
		prefix, _, _ := strings.Cut(key, ".")
		s.puts[prefix]++
	})
	if revision == 0 {
		revision = s.marker(key)
	}
	header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	// What has been sent arrives, whether its sender still waits for it or not.
	sent, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	ack, err := s.js.PublishMsg(sent, &nats.Msg{Subject: "$KV.shards." + key, Header: header, Data: value})
	if err == nil {
		s.mu.Lock()
		s.writers[ack.Sequence] = s
		if id, ok := strings.CutPrefix(key, MemberPrefix); ok {
			s.ids[id] = true
		}
		s.mu.Unlock()
	}
	s.faultsMu.Lock()
	lost := s.loses != nil && s.loses(key)
	s.faultsMu.Unlock()
	if lost {
		<-ctx.Done()
		return 0, errLost
	}
	if travels := s.travel(ctx); travels != nil {
		return 0, travels
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == 10071 {
		return 0, apierrors.NewConflict(schema.GroupResource{Resource: "key"}, key, err)
	}
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// marker is the revision of the marker that a key has which was deleted; 0 if it has none.
func (s *wire) marker(key string) uint64 {
	m, err := s.stream.GetLastMsgForSubject(context.Background(), "$KV.shards."+key)
	if err != nil || entryOf(m.Subject, m.Sequence, m.Header, m.Data).Value != nil {
		return 0
	}
	return m.Sequence
}

// sent is how many writes of keys with a prefix were sent.
func (s *wire) sent(prefix string) int {
	s.faultsMu.Lock()
	defer s.faultsMu.Unlock()
	return s.puts[prefix]
}

func (s *wire) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if err := s.travel(ctx); err != nil {
		return nil, 0, err
	}
	m, err := s.stream.GetLastMsgForSubject(ctx, "$KV.shards."+key)
	if travels := s.travel(ctx); travels != nil {
		return nil, 0, travels
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if e := entryOf(m.Subject, m.Sequence, m.Header, m.Data); e.Value == nil {
		return nil, 0, nil
	}
	return m.Data, m.Sequence, nil
}

// host works in each slot of its member again and again.
type host struct {
	*world
	name   string
	shards *Shards
	takes  time.Duration // each piece of work
	loads  time.Duration
	joins  time.Duration // Join
	joined int           // how often it was called
	young  time.Duration // T4: how old the store is; 0: it does not say
	says   json.RawMessage
	heard  map[string]json.RawMessage
	rests  time.Duration // between two pieces
	deaf   bool          // the work heeds no context

	moves, rest string // what was reported last; guarded by workMu

	workMu sync.Mutex
	work   map[int]*sync.WaitGroup // what runs, by slot
	all    sync.WaitGroup
	loaded map[int]bool
	kept   []Set // what Keep was told
	turns  map[int]chan struct{}
}

func (h *host) Load(ctx context.Context, slots []int) error {
	pause(ctx, h.loads)
	h.workMu.Lock()
	defer h.workMu.Unlock()
	if h.loaded == nil {
		h.loaded = map[int]bool{}
	}
	for _, slot := range slots {
		h.loaded[slot] = ctx.Err() == nil
	}
	return ctx.Err()
}

func (h *host) of(slot int) *sync.WaitGroup {
	h.workMu.Lock()
	defer h.workMu.Unlock()
	if h.work[slot] == nil {
		h.work[slot] = &sync.WaitGroup{}
	}
	return h.work[slot]
}

func (h *host) turn(slot int) chan struct{} {
	h.workMu.Lock()
	defer h.workMu.Unlock()
	if h.turns == nil {
		h.turns = map[int]chan struct{}{}
	}
	if h.turns[slot] == nil {
		h.turns[slot] = make(chan struct{}, 1)
	}
	return h.turns[slot]
}

func (h *host) Gained(ctx context.Context, slot int, epoch uint64) {
	h.workMu.Lock()
	if !h.loaded[slot] {
		h.fault("%s gets slot %d, which it has not loaded", h.name, slot)
	}
	h.workMu.Unlock()
	running := h.of(slot)
	h.all.Add(1)
	running.Add(1)
	go func() {
		defer h.all.Done()
		defer running.Done()
		turn := h.turn(slot)
		turn <- struct{}{} // as a queue has one worker for a key
		defer func() { <-turn }()
		for ctx.Err() == nil {
			got, mine := h.shards.Owns(slot)
			if !mine || got != epoch {
				return
			}
			h.one(ctx, slot, epoch)
			pause(ctx, h.rests)
		}
	}()
}

// one is one piece of work. It heeds the end of its context.
func (h *host) one(ctx context.Context, slot int, epoch uint64) {
	r := run{slot: slot, member: h.name, epoch: epoch, start: time.Now()}
	h.mu.Lock()
	if other := h.running[slot]; other != "" {
		h.faults = append(h.faults, fmt.Sprintf("%s works in slot %d, where %s works", h.name, slot, other))
	}
	h.running[slot] = h.name
	h.mu.Unlock()
	if h.deaf {
		time.Sleep(h.takes)
	} else {
		pause(ctx, max(h.takes, time.Millisecond))
	}
	key, at, fenced := h.shards.Fence(slot)
	if ends := ctx.Err() != nil; fenced && (key != slotKey(slot) || at != epoch && !ends) || !fenced && !ends {
		h.fault("%s finishes in slot %d at %d, and its fence is %s at %d, %v", h.name, slot, epoch, key, at, fenced)
	}
	h.mu.Lock()
	r.end = time.Now()
	h.runs = append(h.runs, r)
	delete(h.running, slot)
	h.mu.Unlock()
}

// Says implements Host.
func (h *host) Says() json.RawMessage {
	h.workMu.Lock()
	defer h.workMu.Unlock()
	return h.says
}

// Heard implements Host.
func (h *host) Heard(says map[string]json.RawMessage) {
	h.workMu.Lock()
	defer h.workMu.Unlock()
	h.heard = says
}

// hears are what the host heard last, in the order of the alphabet.
func (h *host) hears() (all []string) {
	h.workMu.Lock()
	defer h.workMu.Unlock()
	for _, says := range h.heard {
		all = append(all, string(says))
	}
	slices.Sort(all)
	return all
}

func (h *host) say(what string) {
	h.workMu.Lock()
	h.says = json.RawMessage(what)
	h.workMu.Unlock()
	h.shards.Say()
}

// Join implements Host.
func (h *host) Join(ctx context.Context) {
	h.workMu.Lock()
	h.joined++
	h.workMu.Unlock()
	if h.young > 0 {
		h.shards.Young(h.young)
	}
	pause(ctx, h.joins)
}

// Keep implements Host.
func (h *host) Keep(_ context.Context, needed Set) error {
	h.workMu.Lock()
	defer h.workMu.Unlock()
	h.kept = append(h.kept, needed)
	for slot := range h.loaded {
		if !needed.Has(slot) {
			delete(h.loaded, slot)
		}
	}
	return nil
}

func (h *host) Drain(slot int) <-chan struct{} {
	drained := make(chan struct{})
	running := h.of(slot)
	go func() {
		running.Wait()
		close(drained)
	}()
	return drained
}

func (h *host) Idle() <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		h.all.Wait()
		close(idle)
	}()
	return idle
}

// held waits until the members have all slots between them, and returns how many each has.
func (w *world) held(nodes ...*node) (shares []int) {
	w.Helper()
	defer func() {
		if w.Failed() {
			for _, n := range nodes {
				w.Log(n.state())
			}
		}
	}()
	natstest.Eventually(w, "all slots are held, each by whom it is to be", func() bool {
		sum := 0
		shares = nil
		for _, n := range nodes {
			held, draining := n.Held()
			shares, sum = append(shares, held), sum+held
			if draining > 0 {
				return false
			}
		}
		return sum == few && slices.Equal(shares, w.due(nodes))
	})
	return shares
}

// state is what a member knows, for a test that fails.
func (n *node) state() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	owners := map[string]int{}
	for _, is := range n.view.slots {
		owners[is.owner]++
	}
	if n.life == nil {
		return fmt.Sprintf("%v is no member, listed: %v", n, n.listed)
	}
	return fmt.Sprintf("%s has %d slots; it sees the owners %v, the candidates %v, gone %v; taking %v, loading %v",
		n.life.id, len(n.life.slots), owners, n.view.candidates(), n.view.gone, n.life.taking, n.life.loading)
}

// due is how many slots each is to have.
func (w *world) due(nodes []*node) (shares []int) {
	var all []candidate
	for _, n := range nodes {
		all = append(all, candidate{id: n.Name, name: n.Name, weight: n.Weight})
	}
	counts := map[string]int{}
	for slot := range few {
		counts[winner(slot, all)]++
	}
	for _, n := range nodes {
		shares = append(shares, counts[n.Name])
	}
	return shares
}

// judge looks at all that the stream has seen: a slot is taken from its owner only by that one, or when the owner's
// lease is gone in the stream; and all that ran did so under the epoch of its slot.
func (w *world) judge() {
	w.Helper()
	w.mu.Lock()
	faults, runs, history := slices.Clone(w.faults), slices.Clone(w.runs), slices.Clone(w.history)
	w.mu.Unlock()
	for _, fault := range faults {
		w.Error(fault)
	}
	live, owners := map[string]bool{}, map[int]string{}
	epochs := map[int]map[uint64]string{}
	for _, e := range history {
		if id, ok := strings.CutPrefix(e.Key, MemberPrefix); ok {
			live[id] = e.Value != nil
			continue
		}
		slot, _ := slotOfKey(e.Key, few)
		if e.Value == nil { // deleted by hand
			delete(owners, slot)
			continue
		}
		var o owned
		if err := json.Unmarshal(e.Value, &o); err != nil {
			w.Fatalf("slot %d holds %q", slot, e.Value)
		}
		// A hand-over names another one. Who names itself takes, and then its owner must be gone.
		if before := owners[slot]; live[before] && w.taken(before, o.Owner, e.Revision) {
			w.Errorf("slot %d was taken from %s by %s at %d, and its lease is there", slot, before, o.Owner, e.Revision)
		}
		if epochs[slot] == nil {
			epochs[slot] = map[uint64]string{}
		}
		epochs[slot][e.Revision], owners[slot] = o.Owner, o.Owner
	}
	for _, r := range runs {
		if owner := epochs[r.slot][r.epoch]; !strings.HasPrefix(owner, r.member+"-") {
			w.Errorf("%s worked in slot %d at epoch %d, which is of %q", r.member, r.slot, r.epoch, owner)
		}
	}
}
