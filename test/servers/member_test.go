package servers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A shop owns the shelves that it names. Each of them has its text.
type (
	shopSpec struct {
		Text    string   `json:"text"`
		Shelves []string `json:"shelves,omitempty"`
	}
	shelfSpec struct {
		Text string `json:"text"`
	}
	shopStatus struct {
		Marked string `json:"marked,omitempty"` // by whom
	}
	shop  = entity.Object[shopSpec, shopStatus]
	shelf = entity.Object[shelfSpec, struct{}]
)

const (
	slots = 64
	// writerHeader names the member that sent a document or a record.
	writerHeader = "Test-Writer"
)

// memberEnv makes this test binary a process that is a member. It holds a memberConfig.
const memberEnv = "NAGI_TEST_MEMBER"

type memberConfig struct {
	Name, URL, Journal string
	Replicas           int // of buckets
	Lease              controller.LeaseTiming
	Takes              time.Duration // a reconcile
}

// memberChild is the process. It writes into the journal when each reconcile begins and ends: a file to which all
// processes append, so that its order is that in which things happened. Commands come on its standard input, a line
// each, and are answered by "done"; what it has to tell follows on its standard output.
type memberChild struct {
	memberConfig
	journal *os.File
	wire    *keptWire
	shops   *entity.Client[*shop]
	shelves *entity.Client[*shelf]
	c       *controller.Controller[*shop]

	mu    sync.Mutex
	holds map[string]bool // keys whose reconciles wait, and heed no context
	waits map[string]bool // keys whose reconciles wait, and heed their context
	marks map[string]bool // keys whose reconciles write a status
	goes  chan struct{}   // closed when they go on
}

// runMember is the life of the process.
func runMember(config string) error {
	m := &memberChild{
		wire: &keptWire{}, holds: map[string]bool{}, waits: map[string]bool{}, marks: map[string]bool{},
		goes: make(chan struct{}),
	}
	if err := json.Unmarshal([]byte(config), &m.memberConfig); err != nil {
		return err
	}
	var err error
	if m.journal, err = os.OpenFile(m.Journal, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		return err
	}
	nc, err := nats.Connect(m.URL, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.IgnoreDiscoveredServers(), nats.SetCustomDialer(m.wire))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if m.shops, err = newShops(ctx, js, m.Replicas, m.Name); err != nil {
		return err
	}
	if m.shelves, err = newShelves(ctx, js, m.Replicas, m.Name); err != nil {
		return err
	}
	m.c, err = controller.New("shops", m.shops, controller.ReconcilerFunc(m.reconcile),
		controller.Owns(m.shelves, controller.WithPrune()), controller.WithShards(slots),
		controller.WithMember(m.Name, 1), controller.WithWorkers(8), controller.WithLeaseTiming(m.Lease),
		controller.WithBackoff(10*time.Millisecond, time.Second))
	if err != nil {
		return err
	}
	go m.obey(stop)
	return m.c.Run(ctx)
}

func newShops(ctx context.Context, js jetstream.JetStream, replicas int, writer string) (*entity.Client[*shop], error) {
	return entity.NewClient[*shop](ctx, js,
		entity.Config{Kind: "Shop", Bucket: "shops", Replicas: replicas, OnWrite: signs(writer)})
}

func newShelves(
	ctx context.Context, js jetstream.JetStream, replicas int, writer string,
) (*entity.Client[*shelf], error) {
	return entity.NewClient[*shelf](ctx, js,
		entity.Config{Kind: "Shelf", Bucket: "shelves", Replicas: replicas, OnWrite: signs(writer)})
}

func signs(writer string) func(context.Context, entity.Write) (nats.Header, func(error)) {
	return func(context.Context, entity.Write) (nats.Header, func(error)) {
		return nats.Header{writerHeader: {writer}}, func(error) {}
	}
}

// obey does what the test says, until the test is gone.
func (m *memberChild) obey(stop func()) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "hold": // the next reconciles of keys, after they have read
			m.add(m.holds, words[1:]...)
		case "wait": // the same, for no longer than their contexts last
			m.add(m.waits, words[1:]...)
		case "mark": // a key is reconciled, which writes its status
			m.add(m.marks, words[1])
			m.c.Enqueue(words[1], controller.OperationManual)
		case "enqueue":
			m.c.Enqueue(words[1], controller.OperationManual)
		case "keep": // all that this process sends, from the next write of one of these records on
			m.wire.keep(words[1:])
		case "go": // what is held and kept
			m.mu.Lock()
			clear(m.holds)
			clear(m.waits)
			close(m.goes)
			m.goes = make(chan struct{})
			m.mu.Unlock()
			m.wire.release()
		case "stats":
			data, err := json.Marshal(m.stats())
			fmt.Printf("stats %s %v\n", data, err)
			continue
		case "leave":
			stop()
		}
		fmt.Println("done")
	}
	os.Exit(3) // else a test that is killed would leave it behind
}

func (m *memberChild) add(to map[string]bool, keys ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		to[key] = true
	}
}

// memberStats is what a member tells of itself.
type memberStats struct {
	controller.ShardStats
	Degraded []string
}

func (m *memberChild) stats() (now memberStats) {
	stats := m.c.Stats()
	if stats.Shards != nil {
		now.ShardStats = *stats.Shards
	}
	for _, problem := range stats.Degraded {
		now.Degraded = append(now.Degraded, problem.Error())
	}
	return now
}

// note appends a line to the journal.
func (m *memberChild) note(words ...string) {
	line := strings.Join(append([]string{m.Name, strconv.FormatInt(time.Now().UnixNano(), 10)}, words...), " ") + "\n"
	if _, err := m.journal.WriteString(line); err != nil {
		panic(err)
	}
}

// held waits, if it is told to, and reports whether it was.
func (m *memberChild) held(key string) bool {
	m.mu.Lock()
	holds, goes := m.holds[key], m.goes
	m.mu.Unlock()
	if holds {
		fmt.Println("held", key)
		<-goes
	}
	return holds
}

// reconcile writes the shelves of a shop. One that is held writes what it had read before, and heeds no context: so it
// does all that a process can do that has not noticed how much time has passed.
func (m *memberChild) reconcile(ctx context.Context, r controller.Request) (result controller.Result, err error) {
	m.note("begin", r.Key)
	defer func() { m.note("end", r.Key) }()
	now, err := m.shops.Lister().Get(r.Key)
	if err != nil && !apierrors.IsNotFound(err) {
		return result, err
	}
	var read []*shelf
	if now != nil {
		for _, name := range now.Spec.Shelves {
			if s, err := m.shelves.Lister().Get(name); err == nil {
				read = append(read, s.DeepCopy())
			}
		}
	}
	if m.held(r.Key) {
		err := m.writeLate(context.WithoutCancel(ctx), r.Key, now, read)
		if now != nil && strings.HasPrefix(now.Spec.Text, lateText) {
			<-ctx.Done()
			m.note("late", r.Key, strings.ReplaceAll(context.Cause(ctx).Error(), " ", "_"))
		}
		return result, err
	}
	if err := m.work(ctx, r.Key); err != nil {
		return result, err
	}
	if now == nil {
		return result, nil
	}
	for _, name := range now.Spec.Shelves {
		wanted := &shelf{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := controller.CreateOrUpdate(ctx, m.shelves, wanted, func(s *shelf) error {
			s.Spec.Text = now.Spec.Text
			return nil
		}); err != nil {
			return result, err
		}
	}
	m.mu.Lock()
	marked := m.marks[r.Key]
	delete(m.marks, r.Key)
	m.mu.Unlock()
	if !marked {
		return result, nil
	}
	now.Status.Marked = m.Name
	return result, controller.SetStatus(ctx, now)
}

// work takes as long as a reconcile does, and as it is told to.
func (m *memberChild) work(ctx context.Context, key string) error {
	m.mu.Lock()
	waits, goes := m.waits[key], m.goes
	m.mu.Unlock()
	if waits {
		fmt.Println("waits", key)
		select {
		case <-goes:
		case <-ctx.Done():
		}
	}
	select {
	case <-time.After(m.Takes):
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// lateText is what a shop has whose held reconcile writes its shelves.
const lateText = "late"

// writeLate writes the shelves of a shop whose text wants that, at the revisions at which they were read.
func (m *memberChild) writeLate(ctx context.Context, key string, now *shop, read []*shelf) error {
	if now == nil {
		return nil
	}
	var errs []error
	for _, s := range read {
		s.Spec.Text = now.Spec.Text
		if strings.HasPrefix(now.Spec.Text, lateText) {
			s.Spec.Text = "of a paused process"
		}
		err := m.shelves.Update(ctx, s)
		what := "written"
		if apierrors.IsConflict(err) {
			what = "conflict"
		} else if err != nil {
			what = strings.ReplaceAll(err.Error(), " ", "_")
		}
		m.note("late", key, what)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// keptWire keeps what is sent to the server. It is a dialer of NATS clients.
type keptWire struct {
	mu    sync.Mutex
	keys  []string // of records with which it begins
	keeps bool
	kept  []byte
	conn  net.Conn
}

// Dial implements nats.CustomDialer.
func (w *keptWire) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn, w.keeps, w.kept = conn, false, nil
	return &keptConn{conn, w}, nil
}

func (w *keptWire) keep(keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = append(w.keys, keys...)
}

// release sends what was kept.
func (w *keptWire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.kept
	w.keys, w.keeps, w.kept = nil, false, nil
	if _, err := w.conn.Write(kept); err != nil {
		fmt.Println("lost", err)
	}
}

type keptConn struct {
	net.Conn
	wire *keptWire
}

// Write implements net.Conn.
func (c *keptConn) Write(data []byte) (int, error) {
	w := c.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := append(slices.Clip(w.kept), data...)
	for _, key := range slices.Clone(w.keys) {
		if bytes.Contains(kept, []byte(" $KV.shops-status."+key+" ")) {
			w.keeps, w.keys = true, slices.DeleteFunc(w.keys, func(k string) bool { return k == key })
			fmt.Println("kept", key)
		}
	}
	if !w.keeps || w.conn != c.Conn {
		return c.Conn.Write(data)
	}
	w.kept = kept
	return len(data), nil
}
