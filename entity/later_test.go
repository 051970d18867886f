package entity_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

func later(cfg entity.Config) entity.Config {
	cfg.OpenLater = true
	return cfg
}

// hearing keeps the last error that a client tells of its buckets.
func hearing(t *testing.T, client *entity.Client[*Website]) (last func() error) {
	var heard atomic.Pointer[error]
	t.Cleanup(client.Subscribe(entity.Hooks{Error: func(_ string, err error) { heard.Store(&err) }}))
	return func() error {
		if err := heard.Load(); err != nil {
			return *err
		}
		return nil
	}
}

// TestABucketThatIsNotThereYetIsOpenedLater: what needs it fails at once until then, and within two seconds after it is
// there nothing does.
func TestABucketThatIsNotThereYetIsOpenedLater(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		cfg := websites
		cfg.BindOnly = true
		if _, err := entity.NewClient[*Website](ctx, js, cfg); err == nil {
			t.Fatal("a client of a bucket that is not there was made")
		}
		client, err := entity.NewClient[*Website](ctx, js, later(cfg))
		must(t, err)
		t.Cleanup(client.Close)
		last := hearing(t, client)
		stop, err := client.Start()
		must(t, err)
		t.Cleanup(stop)

		time.Sleep(time.Minute)
		began := time.Now()
		_, get := client.Get(ctx, "a")
		_, cached := client.Lister().Get("a")
		_, list := client.Lister().List(labels.Everything())
		_, live := client.List(ctx)
		for what, err := range map[string]error{
			"Get": get, "Lister.Get": cached, "Lister.List": list, "List": live,
			"Create": client.Create(ctx, website("a")),
			"Delete": client.Delete(ctx, "a"), "the hook": last(),
		} {
			if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "does not exist") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("they failed after %v", took)
		}
		if client.Informer().HasSynced() {
			t.Error("the cache of a bucket that is not there has synced")
		}

		_, err = entity.NewClient[*Website](ctx, js, websites) // which makes it
		must(t, err)
		made := time.Now()
		natstest.Eventually(t, "the cache fills", client.Informer().HasSynced)
		natstest.Eventually(t, "the error is over", func() bool { return last() == nil })
		if took := time.Since(made); took > 2*time.Second {
			t.Errorf("it has filled after %v", took)
		}
		must(t, client.Create(ctx, website("a")))
		_, err = client.Lister().Get("a")
		must(t, err)
		must(t, client.Delete(ctx, "a"))
		kv, err := js.Stream(ctx, "KV_websites")
		must(t, err)
		marker, err := kv.GetLastMsgForSubject(ctx, "$KV.websites.a")
		must(t, err)
		if marker.Header.Get(jetstream.MsgTTLHeader) == "" {
			t.Error("the marker of the delete has no TTL, as if the bucket took none")
		}
	})
}

// TestAServerThatIsNotThereYetIsReachedLater, and the buckets are made there.
func TestAServerThatIsNotThereYetIsReachedLater(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		srv.Stop()
		_, js := natstest.Connect(t, srv.URL(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
		began := time.Now()
		client, err := entity.NewClient[*Website](t.Context(), js, later(websites))
		must(t, err)
		t.Cleanup(client.Close)
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		stop, err := client.Start()
		must(t, err)
		t.Cleanup(stop)
		time.Sleep(time.Minute)
		must(t, srv.Start())
		natstest.Eventually(t, "the cache fills", client.Informer().HasSynced)
		must(t, client.Create(t.Context(), website("a")))
		_, err = client.Lister().Get("a")
		must(t, err)
	})
}

// TestWhatLosesDataIsRefusedLaterToo: no cache runs over such a bucket, and the hook is told why until it is mended.
func TestWhatLosesDataIsRefusedLaterToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		cfg := websites
		cfg.BindOnly, cfg.StatusBucket = true, entity.NoStatusBucket
		client, err := entity.NewClient[*Website](ctx, js, later(cfg))
		must(t, err)
		t.Cleanup(client.Close)
		last := hearing(t, client)
		stop, err := client.Start()
		must(t, err)
		t.Cleanup(stop)
		unsafe := jetstream.StreamConfig{
			Name: "KV_websites", Subjects: []string{"$KV.websites.>"}, MaxMsgsPerSubject: 1, MaxBytes: 1 << 20,
			Discard: jetstream.DiscardOld, AllowDirect: true, Storage: jetstream.MemoryStorage,
		}
		_, err = js.CreateStream(ctx, unsafe)
		must(t, err)
		time.Sleep(time.Minute)
		if err := last(); err == nil || !strings.Contains(err.Error(), "set discard to new") {
			t.Errorf("the hook was told %v", err)
		}
		if err := client.Create(ctx, website("a")); err == nil || !strings.Contains(err.Error(), "set discard to new") {
			t.Errorf("a write: %v", err)
		}
		if client.Informer().HasSynced() {
			t.Error("the cache has synced")
		}
		if _, err := entity.NewClient[*Website](ctx, js, later(cfg)); err == nil {
			t.Error("where the settings can be seen, NewClient does not refuse them")
		}
		unsafe.Discard = jetstream.DiscardNew
		_, err = js.UpdateStream(ctx, unsafe)
		must(t, err)
		natstest.Eventually(t, "the cache fills", client.Informer().HasSynced)
		if err := last(); err != nil {
			t.Errorf("the hook is still told %v", err)
		}
	})
}

// TestWhoGivesUpOnABucketThatIsAwaySaysNothingOfIt: that its context ended is no reason that others are told.
func TestWhoGivesUpOnABucketThatIsAwaySaysNothingOfIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		cfg := websites
		cfg.BindOnly, cfg.StatusBucket = true, entity.NoStatusBucket
		client, err := entity.NewClient[*Website](ctx, js, later(cfg))
		must(t, err)
		t.Cleanup(client.Close)
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := client.Get(gone, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("Get with a context that has ended: %v", err)
		}
		if _, err := client.Lister().Get("a"); !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("a lister is told %v", err)
		}
	})
}

// TestOneTryIsForAllWhoNeedABucketThatDoesNotAnswer: nobody waits longer than for the try that is under way, and nobody
// longer than its context.
func TestOneTryIsForAllWhoNeedABucketThatDoesNotAnswer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		proxy := natstest.StartProxy(t, natstest.Start(t).URL())
		_, js := natstest.Connect(t, proxy.URL())
		proxy.Blackhole()
		cfg := websites
		cfg.StatusBucket = entity.NoStatusBucket
		client, err := entity.NewClient[*Website](ctx, js, later(cfg))
		must(t, err)
		t.Cleanup(client.Close)
		var callers sync.WaitGroup
		call := func(patience, most time.Duration) {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				began := time.Now()
				err := client.Create(ctx, website("a"))
				if took := time.Since(began); !apierrors.IsServiceUnavailable(err) || took > most {
					t.Errorf("who waits for %v at most was told after %v: %v", patience, took, err)
				}
			})
		}
		for range 20 {
			call(time.Minute, 5*time.Second)
		}
		time.Sleep(time.Second)
		call(time.Second, time.Second)
		callers.Wait()
	})
}

// TestWhatCouldBeBetterIsSaidOfABucketThatIsOpenedLaterToo.
func TestWhatCouldBeBetterIsSaidOfABucketThatIsOpenedLaterToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		cfg := websites
		cfg.BindOnly, cfg.StatusBucket = true, entity.NoStatusBucket
		client, err := entity.NewClient[*Website](ctx, js, later(cfg))
		must(t, err)
		t.Cleanup(client.Close)
		_, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: "websites", TTL: time.Hour, LimitMarkerTTL: time.Hour, Storage: jetstream.MemoryStorage,
		})
		must(t, err)
		_, err = client.Get(ctx, "a")
		if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if w := client.Warnings(); len(w) == 0 || !strings.Contains(w[0], "removes documents that are older than 1h") {
			t.Errorf("warnings: %v", w)
		}
	})
}

// TestALimitThatTheServerMayHaveIsNotRefusedBeforeItIsReached.
func TestALimitThatTheServerMayHaveIsNotRefusedBeforeItIsReached(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		srv.Stop()
		_, js := natstest.Connect(t, srv.URL(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
		cfg := websites
		cfg.MaxDocumentBytes = 4 << 20
		client, err := entity.NewClient[*Website](t.Context(), js, later(cfg))
		must(t, err)
		client.Close()
	})
}
