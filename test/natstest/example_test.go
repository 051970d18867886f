package natstest_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// A program without a testing.TB starts a server and closes it.
func Example() {
	srv, err := natstest.New()
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	nc, err := nats.Connect(srv.URL())
	if err != nil {
		panic(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "websites"})
	if err != nil {
		panic(err)
	}
	revision, err := kv.PutString(ctx, "home", `{"spec":{"title":"Home"}}`)
	fmt.Println(revision, err)
	// Output: 1 <nil>
}

// The stored messages and the address outlive a restart.
func ExampleServer_Restart() {
	t := &exampleT{} // in a test: its *testing.T
	defer t.done()

	srv := natstest.Start(t)
	_, js := natstest.Connect(t, srv.URL())
	kv, _ := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "websites"})
	_, _ = kv.PutString(t.Context(), "home", "stored")

	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}

	_, js = natstest.Connect(t, srv.URL())
	kv, _ = js.KeyValue(t.Context(), "websites")
	entry, _ := kv.Get(t.Context(), "home")
	fmt.Println(string(entry.Value()))
	// Output: stored
}

// A bucket with three replicas goes on while the server that led it is down.
func ExampleStartCluster() {
	t := &exampleT{} // in a test: its *testing.T
	defer t.done()

	c := natstest.StartCluster(t, 3)
	_, js := natstest.Connect(t, c.URLs())
	kv, _ := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "websites", Replicas: 3})
	_, _ = kv.PutString(t.Context(), "home", "replicated")

	leader := c.StreamLeader("KV_websites")
	c.Stop(leader)
	if err := c.WaitStream(t.Context(), "KV_websites"); err != nil {
		t.Fatal(err)
	}
	fmt.Println("another one leads:", c.StreamLeader("KV_websites") != leader)

	if err := c.Start(leader); err != nil {
		t.Fatal(err)
	}
	// Output: another one leads: true
}

// Only a timeout shows a half-open connection.
func ExampleProxy_Blackhole() {
	t := &exampleT{} // in a test: its *testing.T
	defer t.done()

	srv := natstest.Start(t)
	p := natstest.StartProxy(t, srv.URL())
	nc, _ := natstest.Connect(t, p.URL())

	p.Blackhole()
	fmt.Println(nc.FlushTimeout(50*time.Millisecond), nc.Status())
	p.Resume()
	// Output: nats: timeout CONNECTED
}

// inATest runs a test in virtual time, which needs a real *testing.T, and lets it print nothing by itself, since that
// would be taken for the example's output.
func inATest(test func(t *testing.T)) {
	verbose := flag.Lookup("test.v").Value
	was := verbose.String()
	_ = verbose.Set("false")
	defer func() { _ = verbose.Set(was) }()
	skip := flag.Lookup("test.skip").Value.String()
	all := func(pattern, _ string) (bool, error) { return !strings.Contains(skip, pattern), nil }
	run := func(t *testing.T) { natstest.Test(t, test) }
	if !testing.RunTests(all, []testing.InternalTest{{Name: "example", F: run}}) {
		fmt.Println("the test failed")
	}
}

// exampleT stands in for a *testing.T, which an Example does not get.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                  {}
func (t *exampleT) Context() context.Context { return context.Background() }
func (t *exampleT) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
func (t *exampleT) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func (t *exampleT) done() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}
