package controller

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkChangeInBacklog is the time from before a put in another process until Reconcile has read it, while all
// primaries are reconciled at once, and how many keys that takes through; without polls of the network and with them, a
// pass in turn. beside-backlog has another queue with a backlog and workers of its own in the process, beside-computing
// two goroutines that never block.
func BenchmarkChangeInBacklog(b *testing.B) {
	const keys = 200_000
	_, js := natstest.Connect(b, startUser(b, keys))
	client := benchClient(b, js)
	l := &lateness{client: client, seen: map[string]string{}}
	c, err := New("sites", client, l, WithWorkers(8), WithResyncInterval(0))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Run(ctx) }()
	q := c.engine.Explainer().Queue
	awaitPass(q, &l.reconciled, keys)
	poller, err := engine.NewPoller()
	if err != nil {
		b.Fatal(err)
	}
	defer poller.Close()
	all := client.Informer().GetStore().ListKeys()

	for _, beside := range []struct {
		name  string
		start func(polls bool) (stop func())
	}{
		{"alone", func(bool) func() { return func() {} }},
		{"beside-backlog", besideBacklog},
		{"beside-computing", besideComputing},
	} {
		b.Run(beside.name, func(b *testing.B) {
			var took [2][]time.Duration
			var spent [2]time.Duration
			for b.Loop() {
				for turn, polls := range []bool{false, true} {
					setPoll(q, polls, poller.Poll)
					stop := beside.start(polls)
					l.take()
					before, start := l.reconciled.Load(), time.Now()
					for _, key := range all {
						q.Add(key, operation.Of(OperationResync), queue.Background)
					}
					awaitPass(q, &l.reconciled, before+keys)
					spent[turn] += time.Since(start)
					took[turn] = append(took[turn], l.take()...)
					stop()
				}
			}
			for turn, name := range []string{"without", "with"} {
				slices.Sort(took[turn])
				n := len(took[turn])
				b.ReportMetric(float64(took[turn][n/2].Microseconds())/1000, "ms-"+name)
				b.ReportMetric(float64(took[turn][n*9/10].Microseconds())/1000, "ms-p90-"+name)
				b.ReportMetric(float64(keys)*float64(b.N)/spent[turn].Seconds(), "keys/s-"+name)
			}
		})
	}
	cancel()
	if err := <-stopped; err != nil {
		b.Fatal(err)
	}
}

func setPoll(q *queue.Queue, polls bool, poll func() error) {
	if !polls {
		poll = nil
	}
	q.SetPoll(poll)
}

// awaitPass returns when there were so many reconciles and none is under way. It looks rarely: it takes part in what
// is measured.
func awaitPass(q *queue.Queue, reconciled *atomic.Int64, until int64) {
	for reconciled.Load() < until || q.Counts().InProgress > 0 {
		time.Sleep(time.Millisecond)
	}
}

// lateness is a reconciler that reads its primary, and notes how old a change is that it has not seen yet.
type lateness struct {
	client     *entity.Client[*site]
	reconciled atomic.Int64

	mu   sync.Mutex
	seen map[string]string
	took []time.Duration
}

func (l *lateness) Reconcile(_ context.Context, req Request) (Result, error) {
	s, err := l.client.Lister().Get(req.Key)
	if err != nil {
		return Result{}, err
	}
	if sent := s.Spec.Title; sent != "0" {
		l.note(req.Key, sent)
	}
	l.reconciled.Add(1)
	return Result{}, nil
}

func (l *lateness) note(key, sent string) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[key] == sent {
		return
	}
	l.seen[key] = sent
	if nanos, err := strconv.ParseInt(sent, 10, 64); err == nil {
		l.took = append(l.took, now.Sub(time.Unix(0, nanos)))
	}
}

func (l *lateness) take() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := l.took
	l.took = nil
	return took
}

func besideBacklog(polls bool) (stop func()) {
	q := queue.New(queue.Options{})
	poller, err := engine.NewPoller()
	if err != nil {
		panic(err)
	}
	setPoll(q, polls, poller.Poll)
	for i := range 1000 {
		q.Add(strconv.Itoa(i), operation.Of(OperationResync), queue.Background)
	}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for it, ok := q.Get(context.Background()); ok; it, ok = q.Get(context.Background()) {
				for start := time.Now(); time.Since(start) < 3*time.Microsecond; {
				}
				q.GiveBack(it)
				q.Done(it.Key)
			}
		})
	}
	return func() {
		q.ShutDown()
		workers.Wait()
		poller.Close()
	}
}

func besideComputing(bool) (stop func()) {
	var over atomic.Bool
	var computing sync.WaitGroup
	for range 2 {
		computing.Go(func() {
			for !over.Load() {
			}
		})
	}
	return func() {
		over.Store(true)
		computing.Wait()
	}
}

// startUser runs this test binary again, as the server and a user of it (see TestMain), and returns the server's
// address.
func startUser(b *testing.B, keys int) string {
	child := exec.Command(os.Args[0])
	child.Env = append(slices.Clone(os.Environ()), childEnv+"=user", "NAGI_BENCH_KEYS="+strconv.Itoa(keys))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := child.Wait(); err != nil {
			b.Error("the child: ", err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal("the child did not start: ", err)
	}
	return strings.TrimSpace(url)
}

// userChild puts so many primaries, and then changes one every 20 ms until its input ends.
func userChild(keys string) error {
	n, err := strconv.Atoi(keys)
	if err != nil {
		return err
	}
	server, err := natstest.New()
	if err != nil {
		return err
	}
	defer server.Close()
	js, disconnect, err := childConnection(server.URL())
	if err != nil {
		return err
	}
	defer disconnect()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, err := entity.NewClient[*site](ctx, js,
		entity.Config{Kind: "Site", Bucket: "sites", Storage: jetstream.MemoryStorage})
	if err != nil {
		return err
	}
	client.Close() // it has made the buckets
	for i := range n {
		if _, err := js.PublishAsync("$KV.sites.site-"+strconv.Itoa(i), sentAt(i, 0),
			jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	<-js.PublishAsyncComplete()
	fmt.Println(server.URL())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		key := i * 7919 % n
		if _, err := js.Publish(context.Background(), "$KV.sites.site-"+strconv.Itoa(key),
			sentAt(key, time.Now().UnixNano())); err != nil {
			return err
		}
	}
}

// sentAt is a document as document makes them, whose title is when it was sent.
func sentAt(i int, nanos int64) []byte {
	return fmt.Appendf(nil,
		`{"metadata":{"labels":{"app":"site-%d","tier":"front","env":"production"},`+
			`"annotations":{"team":"web","description":"%0200d"}},`+
			`"spec":{"title":"%d","pages":%d}}`, i, i, nanos, i%10)
}
