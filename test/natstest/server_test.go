package natstest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func bucket(t *testing.T, js jetstream.JetStream, name string, replicas int) jetstream.KeyValue {
	t.Helper()
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name, Replicas: replicas})
	if err != nil {
		t.Fatalf("create bucket %s with %d replicas: %v", name, replicas, err)
	}
	return kv
}

func put(t *testing.T, kv jetstream.KeyValue, key, value string) {
	t.Helper()
	if _, err := kv.PutString(t.Context(), key, value); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// eventually polls until check succeeds, and fails the test with its last error if it does not in time.
func eventually(t *testing.T, limit time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		if err = check(ctx); err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("not within %v: %v", limit, err)
}

func holds(kv jetstream.KeyValue, key, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		e, err := kv.Get(ctx, key)
		if err != nil {
			return err
		}
		if got := string(e.Value()); got != value {
			return errors.New("got " + got + ", want " + value)
		}
		return nil
	}
}

func TestStartedServerTakesWritesAtOnce(t *testing.T) {
	srv := natstest.Start(t)
	_, js := natstest.Connect(t, srv.URL())
	kv := bucket(t, js, "b", 1)
	put(t, kv, "k", "v")
	eventually(t, patience, holds(kv, "k", "v"))
}

func TestRestartKeepsURLAndStoreAndClientsComeBack(t *testing.T) {
	srv := natstest.Start(t)
	url := srv.URL()
	nc, js := natstest.Connect(t, url)
	kv := bucket(t, js, "b", 1)
	for i := range 3 {
		value := strings.Repeat("v", i+1)
		put(t, kv, "k", value)
		if err := srv.Restart(); err != nil {
			t.Fatal(err)
		}
		if srv.URL() != url {
			t.Fatalf("URL changed from %s to %s", url, srv.URL())
		}
		eventually(t, patience, holds(kv, "k", value))
	}
	if !nc.IsConnected() {
		t.Fatal("client is not connected")
	}
}

func TestStopIsCompleteAndHarmlessTwice(t *testing.T) {
	srv := natstest.Start(t)
	srv.Stop()
	srv.Stop()
	if srv.Server() != nil {
		t.Fatal("a stopped server still has a nats-server")
	}
	if nc, err := nats.Connect(srv.URL()); err == nil {
		nc.Close()
		t.Fatal("connected to a stopped server")
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	running := srv.Server()
	if err := srv.Start(); err != nil {
		t.Fatalf("starting a running server: %v", err)
	}
	if srv.Server() != running {
		t.Fatal("starting a running server replaced it")
	}
}

func TestCloseRemovesTemporaryStoreAndKeepsGivenOne(t *testing.T) {
	temporary, err := natstest.New()
	if err != nil {
		t.Fatal(err)
	}
	given, err := natstest.New(natstest.WithStoreDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*natstest.Server{temporary, given} {
		_, js := natstest.Connect(t, s.URL())
		put(t, bucket(t, js, "b", 1), "k", "v")
		s.Close()
		s.Close()
		if err := s.Start(); err == nil {
			t.Fatal("a closed server starts again")
		}
	}
	if _, err := os.Stat(temporary.StoreDir()); !os.IsNotExist(err) {
		t.Fatalf("temporary store is still there: %v", err)
	}
	again := natstest.Start(t, natstest.WithStoreDir(given.StoreDir()))
	_, js := natstest.Connect(t, again.URL())
	kv, err := js.KeyValue(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, holds(kv, "k", "v"))
}

func TestTakenPortIsAnErrorThatNamesIt(t *testing.T) {
	first := natstest.Start(t)
	second, err := natstest.New(natstest.WithPort(first.Port()))
	if err == nil {
		second.Close()
		t.Fatal("two servers on one port")
	}
	if !strings.Contains(err.Error(), first.URL()) {
		t.Fatalf("error does not name the address %s: %v", first.URL(), err)
	}
}

func TestUnusableStoreIsAnErrorThatNamesIt(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	srv, err := natstest.New(natstest.WithStoreDir(file))
	if err == nil {
		srv.Close()
		t.Fatal("started with a file as its store directory")
	}
	if !strings.Contains(err.Error(), file) {
		t.Fatalf("error does not name the store %s: %v", file, err)
	}
}

func TestWithoutJetStream(t *testing.T) {
	srv := natstest.Start(t, natstest.WithoutJetStream())
	_, js := natstest.Connect(t, srv.URL())
	if _, err := js.AccountInfo(t.Context()); !errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
		t.Fatalf("got %v, want %v", err, jetstream.ErrJetStreamNotEnabled)
	}
}

func TestWithMaxPayloadHolds(t *testing.T) {
	const big = 100 << 20
	for _, limit := range []int32{1024, big} {
		srv := natstest.Start(t, natstest.WithMaxPayload(limit))
		nc, _ := natstest.Connect(t, srv.URL())
		if got := nc.MaxPayload(); got != int64(limit) {
			t.Fatalf("max payload is %d, want %d", got, limit)
		}
	}
}

func TestWithConfigIsAskedAtEachStart(t *testing.T) {
	token := "first"
	srv := natstest.Start(t, natstest.WithSyncAlways(), natstest.WithConfig(func(o *server.Options) {
		o.Authorization = token
	}))
	natstest.Connect(t, srv.URL(), nats.Token("first"))
	token = "second"
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	natstest.Connect(t, srv.URL(), nats.Token("second"))
}

func TestLogIsHandedOverAndEndsWithTheServer(t *testing.T) {
	var mu sync.Mutex
	var stopped bool
	var lines, late int
	srv := natstest.Start(t, natstest.WithLog(func(string, ...any) {
		mu.Lock()
		defer mu.Unlock()
		lines++
		if stopped {
			late++
		}
	}))
	srv.Stop()
	mu.Lock()
	stopped = true
	mu.Unlock()
	srv.Close()
	mu.Lock()
	defer mu.Unlock()
	if lines == 0 || late != 0 {
		t.Fatalf("%d lines, %d of them after the stop", lines, late)
	}
}

func TestManyServersStartSideBySide(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			srv, err := natstest.New()
			if err != nil {
				t.Error(err)
				return
			}
			defer srv.Close()
			if err := srv.Restart(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		srv, err := natstest.New()
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		srv.Close()
		b.StartTimer()
	}
}

func BenchmarkRestart(b *testing.B) {
	srv := natstest.Start(b)
	for b.Loop() {
		if err := srv.Restart(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestConnectComesBackWhenItsUserWasRefused, however often.
func TestConnectComesBackWhenItsUserWasRefused(t *testing.T) {
	users := func(name string) func(*server.Options) {
		return func(o *server.Options) { o.Users = []*server.User{{Username: name, Password: "x"}} }
	}
	s := natstest.Start(t, natstest.WithConfig(users("me")))
	refused := make(chan struct{}, 100)
	nc, _ := natstest.Connect(t, s.URL(), nats.UserInfo("me", "x"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrAuthorization) {
				refused <- struct{}{}
			}
		}))
	if err := s.Reload(users("another")); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		select {
		case <-refused:
		case <-time.After(patience):
			t.Fatal("it tries no more")
		}
	}
	if err := s.Reload(users("me")); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func(context.Context) error { return nc.Flush() })
}
