package natsinformer

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// These environment variables make this test binary a NATS server.
const (
	childStore = "NAGI_TEST_STORE"
	childPort  = "NAGI_TEST_PORT"
)

func serveUntilKilled(store, port string) {
	n, err := strconv.Atoi(port)
	if err == nil {
		_, err = natstest.New(natstest.WithStoreDir(store), natstest.WithPort(n))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("serving")
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
	os.Exit(1)
}

// mortal is a NATS server in its own process, which a test can kill.
type mortal struct {
	store, port, url string
	cmd              *exec.Cmd
	stdin            io.Closer
}

func startMortal(t *testing.T) *mortal {
	t.Helper()
	place := natstest.Start(t) // chooses a free port
	place.Stop()
	m := &mortal{store: t.TempDir(), port: strconv.Itoa(place.Port()), url: place.URL()}
	m.start(t)
	t.Cleanup(m.kill)
	return m
}

func (m *mortal) start(t *testing.T) {
	t.Helper()
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), childStore+"="+m.store, childPort+"="+m.port)
	m.cmd.Stderr = os.Stderr
	stdin, err := m.cmd.StdinPipe()
	must(t, err)
	m.stdin = stdin
	stdout, err := m.cmd.StdoutPipe()
	must(t, err)
	must(t, m.cmd.Start())
	_, err = bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
}

func (m *mortal) kill() {
	_ = m.cmd.Process.Kill() // the test fails otherwise if it is gone already
	_ = m.cmd.Wait()
	_ = m.stdin.Close()
}

// TestWhatAKilledServerBringsBackIsNoticed: a server that is killed after a purge comes back with the revision before
// the purged one, because it had not yet written down that this revision was replaced. Its sequence was read long
// ago, and the stream has as many keys as before.
func TestWhatAKilledServerBringsBackIsNoticed(t *testing.T) {
	const keys = 100 // more than the informer looks at to know the stream again
	server := startMortal(t)
	js := connect(t, server.url)
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
	first := put(t, kv, "updated", 1)
	put(t, kv, "deleted", 1)
	proxy := natstest.StartProxy(t, server.url)
	informers := connect(t, proxy.URL())
	r := start(t, informers, Config{Bucket: "b", CompareInterval: 2 * time.Second}).synced(t)
	r.follows(t, kv, "updated", 2, prompt)
	must(t, kv.Delete(t.Context(), "deleted"))
	for i := range keys {
		put(t, kv, fmt.Sprint("k", i), i)
	}
	r.converges(t, kv, prompt)

	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	proxy.Refuse() // or it might notice what was purged
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.updated")))
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.deleted")))
	server.kill()
	server.start(t)
	proxy.Resume()

	answersNow(t, js, "b")
	answersNow(t, informers, "b")
	if now := contents(t, kv); now["updated"] != first || len(now) != keys+2 {
		t.Fatalf("the server has updated at %d (it was %d first) and %d keys: this test has lost its subject",
			now["updated"], first, len(now))
	}
	r.converges(t, kv, 10*time.Second)
	if e := r.seen.last("updated"); e.kind != "update" || e.n != 1 {
		t.Errorf("the handler was told %+v of what came back", e)
	}
	if st := r.Status(); st.StreamChanges != 0 {
		t.Errorf("%d changes of the stream", st.StreamChanges)
	}
	// One list for each consumer that was lost, and none when all is quiet again.
	r.follows(t, kv, "k1", 5000, prompt)
	if st := r.Status(); st.Lists < 2 || st.Lists > st.Resumes {
		t.Errorf("%d lists, and the watch has begun %d times", st.Lists, st.Resumes)
	}
}

// TestAReconnectInAClusterIsNoReasonForAList, unless one server has the only replica: when it was killed, its
// consumers are made again there, so nothing tells that it was.
func TestAReconnectInAClusterIsNoReasonForAList(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	for replicas, doubted := range map[int]bool{3: false, 1: true} {
		js := connect(t, cluster.URLs())
		name := fmt.Sprint("r", replicas)
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: name, Replicas: replicas})
		must(t, cluster.WaitStream(t.Context(), "KV_"+name))
		put(t, kv, "k", 0)
		var src atomic.Pointer[source]
		due := make(chan time.Time, 1)
		r := start(t, js, Config{Bucket: name, OnInvalid: func(Entry, error) {
			due <- src.Load().counted.listAt // which is the worker's
		}}).synced(t)
		src.Store(r.Informer.(*informer).src)
		listAt := func() time.Time {
			t.Helper()
			put(t, kv, "bad", -1)
			eventually(t, 20*time.Second, "the worker tells", func() bool { return len(due) == 1 })
			return <-due
		}
		before := listAt()
		for n := range 10 {
			resumes := r.Status().Resumes
			must(t, js.Conn().ForceReconnect())
			eventually(t, 20*time.Second, "it goes on", func() bool { return r.Status().Resumes > resumes })
			eventually(t, 20*time.Second, "it is connected", js.Conn().IsConnected)
			r.follows(t, kv, "k", n+1, 20*time.Second)
		}
		if after := listAt(); doubted && after.IsZero() || !doubted && !after.Equal(before) {
			t.Errorf("with %d replicas the next list is due at %v, before at %v", replicas, after, before)
		}
	}
}
