package entity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/tools/cache"
)

func consumers(t testing.TB, js jetstream.JetStream, bucket string) int {
	t.Helper()
	stream, err := js.Stream(testContext(t), "KV_"+bucket)
	must(t, err)
	return stream.CachedInfo().State.Consumers
}

func TestTheLastUserStopsTheInformers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		first, err := client.Start()
		must(t, err)
		second, err := client.Start()
		must(t, err)
		natstest.Eventually(t, "synced", client.Informer().HasSynced)
		first()
		first() // harmless
		informer := client.Informer()
		if informer.IsStopped() {
			t.Fatal("stopped while somebody uses it")
		}
		must(t, client.Create(t.Context(), website("a")))
		wantNow(t, "it still follows", func() bool { return informer.Exists("a") })
		second()
		if !informer.IsStopped() || consumers(t, js, "websites") != 0 || consumers(t, js, "websites-status") != 0 {
			t.Errorf("stopped: %v, consumers: %d", informer.IsStopped(), consumers(t, js, "websites"))
		}
	})
}

func TestAStoppedClientStartsAgainWithNewInformers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		for range 3 {
			informer := client.Informer()
			seen := make(chan struct{}, 10)
			_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { seen <- struct{}{} }})
			must(t, err)
			stop, err := client.Start()
			must(t, err)
			if client.Informer() != informer {
				t.Fatal("the informer that handlers were added to is not the one that runs")
			}
			<-seen
			stop()
		}
	})
}

func TestAnInformersRunIsAUser(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		informer, stop, done := client.Informer(), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			informer.Run(stop)
		}()
		natstest.Eventually(t, "synced", func() bool {
			return informer.HasSynced() && client.Records().Informer().HasSynced()
		})
		_, err := client.Lister().Get("a")
		must(t, err)
		close(stop)
		<-done
		if !informer.IsStopped() {
			t.Error("it still runs")
		}
	})
}

func TestCloseStopsWhateverIsInUse(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		stop, err := client.Start()
		must(t, err)
		natstest.Eventually(t, "synced", client.Informer().HasSynced)
		client.Close()
		if n := consumers(t, js, "websites"); n != 0 {
			t.Errorf("%d consumers are left", n)
		}
		stop()
		client.Close()
		if _, err := client.Start(); err == nil {
			t.Error("a closed client starts")
		}
		must(t, client.Create(t.Context(), website("a")))
	})
}

func TestHooksTellWhatHandlersAreNotTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		var mu sync.Mutex
		var news []string
		tell := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			news = append(news, fmt.Sprintf(format, args...))
		}
		told := func(what string) func() bool {
			return func() bool {
				mu.Lock()
				defer mu.Unlock()
				for _, n := range news {
					if n == what {
						return true
					}
				}
				return false
			}
		}
		hooks := entity.Hooks{
			Invalid:  func(key string, revision uint64, err error) { tell("invalid %s %d", key, revision) },
			Resolved: func(key string) { tell("resolved %s", key) },
			Reserved: func(name string, revision uint64, value []byte) {
				if value == nil {
					tell("reserved %s gone", name)
					return
				}
				tell("reserved %s %d %s", name, revision, value)
			},
		}
		cancel := client.Subscribe(hooks)
		start(t, client)
		kv := keyValue(t, js, "websites")
		revision, err := kv.PutString(t.Context(), "a", "nonsense")
		must(t, err)
		wantNow(t, "told of the invalid document", told(fmt.Sprintf("invalid a %d", revision)))
		release, err := keyValue(t, js, "websites-status").PutString(t.Context(), "_nagi.release", "yes")
		must(t, err)
		wantNow(t, "told of the reserved key", told(fmt.Sprintf("reserved _nagi.release %d yes", release)))

		// A later subscriber learns the current state.
		mu.Lock()
		news = nil
		mu.Unlock()
		cancel()
		defer client.Subscribe(hooks)()
		if !told(fmt.Sprintf("invalid a %d", revision))() ||
			!told(fmt.Sprintf("reserved _nagi.release %d yes", release))() {
			t.Errorf("a late subscriber was told %q", news)
		}
		_, err = kv.PutString(t.Context(), "a", "{}")
		must(t, err)
		wantNow(t, "told that it decodes again", told("resolved a"))
		must(t, client.Records().DeleteReserved(t.Context(), "_nagi.release", release))
		wantNow(t, "told that the reserved key is gone", told("reserved _nagi.release gone"))
		wantNow(t, "the cursor moved", func() bool { return client.Records().Informer().Cursor() > release })
		if keys := client.Records().Keys(); len(keys) != 0 {
			t.Errorf("records %q", keys)
		}
	})
}

func TestAFilteredClientSeesItsNamespaceAndTheReservedKeys(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		all := newClient[*Website](t, js, entity.Config{Kind: "Website", Bucket: "websites", Namespaced: true})
		shop := newClient[*Website](t, js, entity.Config{
			Kind: "Website", Bucket: "websites", Namespaced: true, Filter: "shop.>",
		})
		released := make(chan string, 10)
		defer shop.Subscribe(entity.Hooks{Reserved: func(name string, _ uint64, _ []byte) { released <- name }})()
		for _, namespace := range []string{"shop", "bank"} {
			site := website("a")
			site.Namespace = namespace
			must(t, all.Create(t.Context(), site))
			must(t, all.Records().Put(t.Context(), namespace+"/a", &entity.Record{Controller: "c"}))
		}
		_, err := all.Records().PutReserved(t.Context(), "_nagi.release", []byte("x"), 0)
		must(t, err)
		start(t, shop)
		if list, err := shop.Lister().List(nil); err != nil || len(list) != 1 || list[0].Namespace != "shop" {
			t.Errorf("listed %v, %v", names(list), err)
		}
		if keys := shop.Records().Keys(); len(keys) != 1 || keys[0] != "shop/a" {
			t.Errorf("records %q", keys)
		}
		if name := <-released; name != "_nagi.release" {
			t.Errorf("told of %q", name)
		}
	})
}

func TestHooksTellWhichBucketCannotBeWatched(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		errs := make(chan string, 100)
		defer client.Subscribe(entity.Hooks{Error: func(bucket string, err error) {
			if !errors.Is(err, jetstream.ErrBucketNotFound) {
				t.Errorf("told of bucket %q: %v", bucket, err)
			}
			errs <- bucket
		}})()
		must(t, js.DeleteStream(t.Context(), "KV_websites-status"))
		stop, err := client.Start()
		must(t, err)
		defer stop()
		if bucket := <-errs; bucket != "websites-status" {
			t.Errorf("told of bucket %q", bucket)
		}
	})
}

func TestARecordThatDoesNotDecodeIsAnErrorOfItsBucketUntilItIsMended(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		var mu sync.Mutex
		told := "nothing"
		defer client.Subscribe(entity.Hooks{Error: func(bucket string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if bucket == "websites-status" {
				told = fmt.Sprint(err)
			}
		}})()
		start(t, client)
		kv := keyValue(t, js, "websites-status")
		isTold := func(when string, is func(told string) bool) {
			t.Helper()
			wantNow(t, when, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return is(told)
			})
		}
		for _, record := range []struct{ key, names string }{
			{"a", `of Website "a"`}, {"b", `1 others, such as of ["b"]`}, {"a", `1 others, such as of ["b"]`},
		} {
			revision, err := kv.PutString(t.Context(), record.key, "nonsense")
			must(t, err)
			must(t, client.Records().Informer().WaitCursor(testContext(t), revision))
			isTold("told of "+record.key, func(told string) bool {
				return strings.Contains(told, "mend or delete it") && strings.Contains(told, record.names)
			})
		}
		must(t, kv.Delete(t.Context(), "a"))
		isTold("one is mended", func(told string) bool {
			return strings.Contains(told, `of Website "b"`) && !strings.Contains(told, "others")
		})
		_, err := kv.PutString(t.Context(), "b", `{"schemaVersion":1}`)
		must(t, err)
		isTold("both are mended", func(told string) bool { return told == fmt.Sprint(error(nil)) })
	})
}

func TestWhatAStoppedCacheKnewIsForgotten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		kv := keyValue(t, js, "websites")
		_, err := kv.PutString(t.Context(), "a", "nonsense")
		must(t, err)
		stop, err := client.Start()
		must(t, err)
		_, err = client.Lister().Get("a")
		if err == nil {
			t.Fatal("nonsense decodes")
		}
		stop()
		_, err = kv.PutString(t.Context(), "a", "{}")
		must(t, err)
		defer client.Subscribe(entity.Hooks{
			Invalid: func(key string, revision uint64, err error) {
				t.Errorf("told of %s at %d: %v", key, revision, err)
			},
		})()
		start(t, client)
		_, err = client.Lister().Get("a")
		must(t, err)
	})
}

func TestCachedRecordsAreThoseOnTheServer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client, other := newClient[*Website](t, js, websites), newClient[*Website](t, js, websites)
		ctx := testContext(t)
		must(t, other.Records().Put(ctx, "there", &entity.Record{
			Controller: "c", LastDocument: []byte(`{}`), DocumentRevision: 4,
		}))
		start(t, client)
		records := client.Records()
		got, ok := records.Cached("there")
		if !ok || got.Controller != "c" || got.LastDocument != nil || got.DocumentRevision != 4 {
			t.Errorf("got %+v, %v", got, ok)
		}
		for i := range 50 {
			rec := &entity.Record{Controller: fmt.Sprint(i)}
			must(t, records.Put(ctx, "mine", rec))
			if got, ok := records.Cached("mine"); !ok || got.Revision != rec.Revision || got.Controller != rec.Controller {
				t.Fatalf("round %d: cached %+v, %v", i, got, ok)
			}
			if keys := records.Keys(); len(keys) != 2 {
				t.Fatalf("round %d: keys %q", i, keys)
			}
			must(t, records.Delete(ctx, "mine", rec.Revision))
			if _, ok := records.Cached("mine"); ok {
				t.Fatalf("round %d: cached after its delete", i)
			}
			if keys := records.Keys(); len(keys) != 1 {
				t.Fatalf("round %d: keys %q", i, keys)
			}
		}
	})
}

func TestRecordOfTellsRecordsFromReservedKeys(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := entity.Config{Kind: "Website", Bucket: "websites", Namespaced: true}
		client := newClient[*Website](t, js, cfg)
		keys := make(chan string, 10)
		_, err := client.Records().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if rec, key, ok := entity.RecordOf(obj); ok {
					keys <- key + " " + rec.Controller
				}
			},
			DeleteFunc: func(obj any) {
				if _, key, ok := entity.RecordOf(obj); ok {
					keys <- key + " gone"
				}
			},
		})
		must(t, err)
		_, err = client.Records().PutReserved(t.Context(), "_nagi.x", []byte("v"), 0)
		must(t, err)
		start(t, client)
		rec := &entity.Record{Controller: "c"}
		must(t, client.Records().Put(t.Context(), "shop/a", rec))
		if got := <-keys; got != "shop/a c" {
			t.Errorf("told %q", got)
		}
		must(t, client.Records().Delete(t.Context(), "shop/a", rec.Revision))
		if got := <-keys; got != "shop/a gone" {
			t.Errorf("told %q", got)
		}
	})
}

func TestUpdateStatusInsideAReconcileIsOneRoundTrip(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		start(t, client)
		must(t, client.Create(t.Context(), website("a")))
		must(t, client.Records().Put(t.Context(), "a", &entity.Record{
			Controller: "c", LastDocument: []byte(`{"spec":{}}`), DocumentRevision: 1,
		}))
		site, err := client.Lister().Get("a")
		must(t, err)
		reads := asked(t, js, ">")
		site.Status.Ready = true
		must(t, client.UpdateStatus(t.Context(), site))
		if got := reads(); got != 0 {
			t.Errorf("%d live reads", got)
		}
		rec, err := client.Record(t.Context(), "a")
		must(t, err)
		if string(rec.LastDocument) != `{"spec":{}}` || rec.Controller != "c" ||
			!strings.Contains(string(rec.Status), "true") {
			t.Errorf("the rest of the record was lost: %+v", rec)
		}
	})
}

func TestAWriteLogWaitsForTheCaches(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		idle := newClient[*Website](t, js, entity.Config{Kind: "Website", Bucket: "others"})
		start(t, client)
		log := &ownwrites.Log{}
		ctx := ownwrites.WithLog(testContext(t), log)
		if !log.Empty() {
			t.Error("something was written")
		}
		must(t, idle.Create(ctx, website("a"))) // no cache will show it
		if !log.Empty() {
			t.Error("a write of a client that is not started is waited for")
		}
		for i := range 50 {
			log := &ownwrites.Log{}
			ctx := ownwrites.WithLog(ctx, log)
			site := website(fmt.Sprintf("a%d", i))
			must(t, client.Create(ctx, site))
			site.Status.Ready = true
			must(t, client.UpdateStatus(ctx, site))
			if log.Empty() {
				t.Fatal("nothing was logged")
			}
			must(t, log.Wait(ctx))
			if !client.Informer().Exists(site.Name) {
				t.Fatalf("round %d: the documents' cache is behind", i)
			}
			if _, ok, _ := client.Records().Informer().GetStore().GetByKey(site.Name); !ok {
				t.Fatalf("round %d: the records' cache is behind", i)
			}
		}
		must(t, client.Delete(ctx, "a0"))
		must(t, log.Wait(ctx))
		if client.Informer().Exists("a0") {
			t.Error("the cache has not seen the delete")
		}
	})
}

func TestAWriteLogEndsWithItsContextAndWithTheInformer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		stop, err := client.Start()
		must(t, err)
		natstest.Eventually(t, "synced", client.Informer().HasSynced)
		var log ownwrites.Log
		ctx := ownwrites.WithLog(testContext(t), &log)
		must(t, client.Create(ctx, website("a")))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_ = log.Wait(ended) // may or may not be reached; must return
		stop()
		must(t, log.Wait(ctx))
	})
}
