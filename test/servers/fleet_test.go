package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleet are members of one kind, each a process, and what is known of all that they do.
type fleet struct {
	*testing.T
	config  memberConfig
	js      jetstream.JetStream
	shops   *entity.Client[*shop]
	shelves *entity.Client[*shelf]

	mu     sync.Mutex
	status map[uint64]message // all that the stream of the status bucket has seen, by sequence
	wire   []sent             // all that was sent to streams, whether they took it or not
}

// sent is what somebody sent to a stream.
type sent struct {
	subject, writer string
	deletes         bool
	at              time.Time
}

// newFleet returns members-to-be of a server, or of the servers of a cluster.
func newFleet(t *testing.T, servers []*process, config memberConfig) *fleet {
	t.Helper()
	var urls []string
	for _, p := range servers {
		urls = append(urls, p.url())
	}
	config.URL, config.Journal = strings.Join(urls, ","), filepath.Join(t.TempDir(), "journal")
	must(t, os.WriteFile(config.Journal, nil, 0o600))
	_, js := natstest.Connect(t, config.URL, nats.IgnoreDiscoveredServers())
	f := &fleet{T: t, config: config, js: js, status: map[uint64]message{}}
	_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
		Bucket: "shops-status", Replicas: config.Replicas, LimitMarkerTTL: time.Hour,
		RePublish: &jetstream.RePublish{Source: ">", Destination: audit + ">"},
	})
	must(t, err)
	f.shops, err = newShops(t.Context(), js, config.Replicas, "test")
	must(t, err)
	t.Cleanup(f.shops.Close)
	f.shelves, err = newShelves(t.Context(), js, config.Replicas, "test")
	must(t, err)
	t.Cleanup(f.shelves.Close)
	f.follow(urls)
	return f
}

// audit begins the subjects to which the leader of the status bucket's stream publishes what it stores.
const audit = "audit."

// follow keeps all that comes into the status bucket. The stream has the last of each key. A consumer loses what is
// written over while the leader of the stream is away, and what the leader publishes lacks what it stored last: together
// they show all.
func (f *fleet) follow(urls []string) {
	f.Helper()
	for _, url := range urls {
		nc, _ := natstest.Connect(f.T, url, nats.IgnoreDiscoveredServers())
		_, err := nc.Subscribe(audit+">", func(m *nats.Msg) { f.note(republished(m)) })
		must(f.T, err)
		must(f.T, nc.Flush())
	}
	_, err := f.js.Conn().Subscribe("$KV.>", func(m *nats.Msg) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.wire = append(f.wire,
			sent{m.Subject, m.Header.Get(writerHeader), m.Header.Get("KV-Operation") != "", time.Now()})
	})
	must(f.T, err)
	stream, err := f.js.Stream(f.Context(), "KV_shops-status")
	must(f.T, err)
	consumer, err := stream.OrderedConsumer(f.Context(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	must(f.T, err)
	messages, err := consumer.Messages()
	must(f.T, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := messages.Next()
			if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
				return
			}
			if err == nil { // else a server was killed
				f.note(delivered(m))
			}
		}
	}()
	f.Cleanup(func() {
		messages.Stop()
		<-done
	})
}

// sent are the writes below a subject, by a writer, after a time; of a bucket's prefix alone the deletes.
func (f *fleet) sent(subject, writer string, after time.Time) (all []sent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.wire {
		if s.at.After(after) && (s.subject == subject && s.writer == writer ||
			strings.HasSuffix(subject, ".") && strings.HasPrefix(s.subject, subject) && s.deletes) {
			all = append(all, s)
		}
	}
	return all
}

func (f *fleet) note(m message, err error) {
	if err != nil {
		f.Error(err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status[m.sequence] = m
}

// member is a process.
type member struct {
	f     *fleet
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	read  chan struct{} // closed when it has said all

	mu   sync.Mutex
	said []string
}

// start starts a member. It is killed at the end of the test.
func (f *fleet) start(name string) *member {
	f.Helper()
	config := f.config
	config.Name = name
	data, err := json.Marshal(config)
	must(f.T, err)
	log, err := os.Create(filepath.Join(f.TempDir(), name+".log"))
	must(f.T, err)
	m := &member{f: f, name: name, cmd: exec.Command(os.Args[0]), read: make(chan struct{})}
	m.cmd.Env = append(os.Environ(), memberEnv+"="+string(data))
	m.cmd.Stderr = log
	m.stdin, err = m.cmd.StdinPipe()
	must(f.T, err)
	out, err := m.cmd.StdoutPipe()
	must(f.T, err)
	must(f.T, m.cmd.Start())
	go func() {
		defer close(m.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			m.mu.Lock()
			m.said = append(m.said, lines.Text())
			m.mu.Unlock()
		}
	}()
	f.Cleanup(func() {
		_ = m.cmd.Process.Kill() // it may have ended
		<-m.read
		_ = m.cmd.Wait()
		_ = m.stdin.Close()
		defer log.Close()
		if data, err := os.ReadFile(log.Name()); f.Failed() && err == nil {
			f.Logf("the end of the log of %s:\n%s", name, data[max(0, len(data)-logShown):])
		}
	})
	return m
}

// lines are what it has said that begins so.
func (m *member) lines(begin string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.said), func(line string) bool { return !strings.HasPrefix(line, begin) })
}

// says waits until it has said a line.
func (m *member) says(line string) {
	m.f.Helper()
	natstest.Eventually(m.f, m.name+" says "+line, func() bool { return slices.Contains(m.lines(line), line) })
}

// send sends a command, which a stopped process gets when it goes on. The function that it returns waits until that is
// done.
func (m *member) send(command string, keys ...string) (done func()) {
	m.f.Helper()
	before := len(m.lines("done"))
	_, err := fmt.Fprintln(m.stdin, strings.Join(append([]string{command}, keys...), " "))
	must(m.f.T, err)
	return func() {
		m.f.Helper()
		natstest.Eventually(m.f, m.name+" does "+command, func() bool { return len(m.lines("done")) > before })
	}
}

// do sends a command, and returns when it is done.
func (m *member) do(command string, keys ...string) {
	m.f.Helper()
	m.send(command, keys...)()
}

func (m *member) signal(s os.Signal) {
	m.f.Helper()
	must(m.f.T, m.cmd.Process.Signal(s))
}

func (m *member) stats() (now memberStats) {
	m.f.Helper()
	before := len(m.lines("stats "))
	m.send("stats")
	natstest.Eventually(m.f, m.name+" tells its stats", func() bool { return len(m.lines("stats ")) > before })
	line := m.lines("stats ")[before]
	must(m.f.T, json.NewDecoder(strings.NewReader(strings.TrimPrefix(line, "stats "))).Decode(&now))
	return now
}

// shared reports whether all slots are at work, at these members and no others.
func shared(all ...*member) bool {
	sum := 0
	for _, m := range all {
		now := m.stats()
		if now.Unowned+now.Moving+now.Draining > 0 || now.Held != now.Open || now.Held == 0 ||
			len(now.Members) != len(all) || len(now.Degraded) > 0 {
			return false
		}
		sum += now.Held
	}
	return sum == slots
}

// share waits until all slots are at work at these members.
func (f *fleet) share(all ...*member) time.Duration {
	f.Helper()
	defer func() {
		if f.Failed() {
			for _, m := range all {
				f.Logf("%s: %+v", m.name, m.stats())
			}
		}
	}()
	return natstest.Eventually(f, "all slots are at work", func() bool { return shared(all...) })
}

func shopName(i int) string { return fmt.Sprintf("s%03d", i) }

func shopOf(key string) *shop {
	return &shop{
		ObjectMeta: metav1.ObjectMeta{Name: key}, Spec: shopSpec{"one", []string{key + "-x", key + "-y"}},
	}
}

// fill creates shops, and returns when they are reconciled.
func (f *fleet) fill(many int) (keys []string) {
	f.Helper()
	for i := range many {
		keys = append(keys, shopName(i))
		must(f.T, f.shops.Create(f.Context(), shopOf(shopName(i))))
	}
	f.reconciled(keys...)
	return keys
}

// reconciled waits until shops are reconciled as they are now.
func (f *fleet) reconciled(keys ...string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	for _, key := range keys {
		now, err := f.shops.Get(ctx, key)
		must(f.T, err)
		if err := entity.WaitReconciled(ctx, f.shops, key, uint64(now.Generation)); err != nil {
			f.Fatalf("%s is not reconciled: %v", key, err)
		}
	}
}

// text gives shops another text; with "" each keeps its own, and is merely written.
func (f *fleet) text(text string, keys ...string) {
	f.Helper()
	for _, key := range keys {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"at":%q}}}`, time.Now())
		if text != "" {
			patch = fmt.Sprintf(`{"spec":{"text":%q}}`, text)
		}
		must(f.T, f.shops.Patch(f.Context(), key, []byte(patch)))
	}
}

// texts fails unless each shelf of a shop has this text.
func (f *fleet) texts(key, want string) {
	f.Helper()
	for _, name := range shopOf(key).Spec.Shelves {
		s, err := f.shelves.Get(f.Context(), name)
		if err != nil || s.Spec.Text != want {
			f.Errorf("shelf %s: %+v, %v, want the text %q", name, s, err, want)
		}
	}
}

var shortLease = controller.LeaseTiming{
	Duration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond,
}
