package entity_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"k8s.io/client-go/tools/cache"
)

// watchNames adds a handler to a client's informer, and returns the names that it was told of since.
func watchNames(t testing.TB, client *entity.Client[*Website]) (seen func(name string) bool) {
	t.Helper()
	var mu sync.Mutex
	told := map[string]bool{}
	_, err := client.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		mu.Lock()
		defer mu.Unlock()
		told[obj.(*Website).Name] = true
	}})
	must(t, err)
	return func(name string) bool {
		mu.Lock()
		defer mu.Unlock()
		return told[name]
	}
}

// follow waits until clients have what a stranger wrote. Only a consumer brings that: what they write themselves they
// have at once, also before there is one.
func follow(t testing.TB, js jetstream.JetStream, clients ...*entity.Client[*Website]) {
	t.Helper()
	key := "stranger-" + strings.ToLower(nuid.Next())
	_, err := keyValue(t, js, "websites").PutString(t.Context(), key, "{}")
	must(t, err)
	for _, client := range clients {
		wantNow(t, "a stranger's document comes", func() bool { return client.Informer().Exists(key) })
	}
}

// wantConsumers fails unless the bucket of documents has so many consumers.
func wantConsumers(t testing.TB, js jetstream.JetStream, when string, want int) {
	t.Helper()
	synctest.Wait()
	if n := consumers(t, js, "websites"); n != want {
		t.Errorf("%s: %d consumers of the documents, want %d", when, n, want)
	}
}

// TestOfSharingClientsTheLastOneStopsTheCache, whichever it is, by stop or by Close.
func TestOfSharingClientsTheLastOneStopsTheCache(t *testing.T) {
	for _, order := range []string{"the first, then the derived", "the derived, then the first"} {
		for _, by := range []string{"stop", "Close"} {
			t.Run(order+" by "+by, virtually(func(t *testing.T) {
				js := newServer(t)
				going, staying := newPair(t, js)
				if order == "the derived, then the first" {
					going, staying = staying, going
				}
				end := map[*entity.Client[*Website]]func(){going: going.Close, staying: staying.Close}
				for client := range end {
					stop, err := client.Start()
					must(t, err)
					if by == "stop" {
						end[client] = stop
					}
				}
				goingSaw, stayingSaw := watchNames(t, going), watchNames(t, staying)
				natstest.Eventually(t, "synced", staying.Informer().HasSynced)
				must(t, going.Create(t.Context(), website("before")))
				wantNow(t, "both are told", func() bool { return goingSaw("before") && stayingSaw("before") })
				follow(t, js, going, staying)

				informer := going.Informer()
				end[going]()
				if !informer.IsStopped() {
					t.Error("the informer of the client that ended says that it runs")
				}
				if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err == nil {
					t.Error("a handler was added to an informer that has ended")
				}
				wantConsumers(t, js, "one is left", 1)
				must(t, going.Create(t.Context(), website("after"))) // writes need no cache
				if _, err := staying.Lister().Get("after"); err != nil {
					t.Error(err)
				}
				wantNow(t, "the one that is left is told", func() bool { return stayingSaw("after") })
				if goingSaw("after") {
					t.Error("a handler of the client that ended was called")
				}
				if _, err := going.Lister().Get("after"); err == nil {
					t.Error("the lister of a client that ended reads")
				}

				end[staying]()
				wantConsumers(t, js, "none is left", 0)
			}))
		}
	}
}

// TestOneOfSharingClientsStartsAgain while the other one runs, with the same cache.
func TestOneOfSharingClientsStartsAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		first, second := newPair(t, js)
		for _, pair := range [][2]*entity.Client[*Website]{{first, second}, {second, first}} {
			restarted, other := pair[0], pair[1]
			stopOther, err := other.Start()
			must(t, err)
			for round := range 3 {
				stop, err := restarted.Start()
				must(t, err)
				name := fmt.Sprintf("a%d-%s", round, restarted.Config().StatusBucket)
				must(t, other.Create(t.Context(), website(name)))
				if _, err := restarted.Lister().Get(name); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				seen := watchNames(t, restarted)
				wantNow(t, "its handler is told", func() bool { return seen(name) })
				follow(t, js, restarted, other)
				wantConsumers(t, js, "both run", 1)
				stop()
				wantConsumers(t, js, "one runs", 1)
			}
			stopOther()
			wantConsumers(t, js, "none runs", 0)
		}
	})
}

// TestASharingClientThatNeverRanStartsAfterTheCacheHasStopped: an informer does not run twice.
func TestASharingClientThatNeverRanStartsAfterTheCacheHasStopped(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		first, second := newPair(t, newServer(t))
		before := first.Informer()
		stop, err := second.Start()
		must(t, err)
		must(t, second.Create(t.Context(), website("a")))
		if _, err := second.Lister().Get("a"); err != nil {
			t.Fatal(err)
		}
		stop()
		if !before.IsStopped() {
			t.Error("the cache has stopped, and the informer says that it did not")
		}
		start(t, first)
		if first.Informer() == before {
			t.Error("the client has the informer that has stopped")
		}
		if _, err := first.Lister().Get("a"); err != nil {
			t.Error(err)
		}
	})
}

// news are the calls of a client's hooks.
type news struct {
	mu   sync.Mutex
	list []string
}

func (n *news) tell(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, fmt.Sprintf(format, args...))
}

func (n *news) has(what string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.list, what)
}

func (n *news) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

func (n *news) subscribe(client *entity.Client[*Website]) (cancel func()) {
	return client.Subscribe(entity.Hooks{
		Invalid:  func(key string, revision uint64, _ error) { n.tell("invalid %s %d", key, revision) },
		Resolved: func(key string) { n.tell("resolved %s", key) },
		Readable: func(key string) { n.tell("readable %s", key) },
		Error: func(bucket string, err error) {
			switch {
			case err == nil: // all is well
			case strings.Contains(err.Error(), "was closed"):
				n.tell("closed: %s", bucket)
			default:
				n.tell("error of %s", bucket)
			}
		},
		Reserved: func(name string, _ uint64, value []byte) { n.tell("reserved %s %s", name, value) },
	})
}

// TestSharingClientsHearEachOfItsOwn: of documents both, of records and reserved keys each of those in its bucket.
func TestSharingClientsHearEachOfItsOwn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		first, second := newPair(t, js)
		var ofFirst, ofSecond news
		defer ofFirst.subscribe(first)()
		defer ofSecond.subscribe(second)()
		start(t, first)
		start(t, second)
		ctx := testContext(t)
		invalid, err := keyValue(t, js, "websites").PutString(ctx, "a", "nonsense")
		must(t, err)
		_, err = first.Records().PutReserved(ctx, "_nagi.x", []byte("first"), 0)
		must(t, err)
		_, err = second.Records().PutReserved(ctx, "_nagi.x", []byte("second"), 0)
		must(t, err)
		_, err = keyValue(t, js, "websites-audit").PutString(ctx, "b", "nonsense")
		must(t, err)
		for n, want := range map[*news][]string{
			&ofFirst: {fmt.Sprintf("invalid a %d", invalid), "reserved _nagi.x first"},
			&ofSecond: {
				fmt.Sprintf("invalid a %d", invalid), "reserved _nagi.x second", "error of websites-audit",
			},
		} {
			for _, what := range want {
				wantNow(t, "told: "+what, func() bool { return n.has(what) })
			}
		}
		for _, client := range []*entity.Client[*Website]{first, second} {
			if _, err := client.Lister().Get("a"); err == nil {
				t.Error("nonsense decodes")
			}
		}
		must(t, keyValue(t, js, "websites-audit").Delete(ctx, "b"))
		wantNow(t, "it is readable", func() bool { return ofSecond.has("readable b") })

		var late news // a later subscriber learns the current state
		defer late.subscribe(second)()
		if !late.has(fmt.Sprintf("invalid a %d", invalid)) || !late.has("reserved _nagi.x second") {
			t.Errorf("a late subscriber was told %q", late.all())
		}
		_, err = keyValue(t, js, "websites").PutString(ctx, "a", "{}")
		must(t, err)
		wantNow(t, "told that it decodes again", func() bool {
			return ofFirst.has("resolved a") && ofSecond.has("resolved a")
		})
		for _, what := range ofFirst.all() {
			if slices.Contains([]string{
				"reserved _nagi.x second", "error of websites-audit", "readable b",
			}, what) {
				t.Errorf("the client of websites-status was told %q", what)
			}
		}
	})
}

// TestAClosedClientIsToldSoAndNoMore of the cache that another client keeps.
func TestAClosedClientIsToldSoAndNoMore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		first, second := newPair(t, js)
		var ofFirst, ofSecond news
		defer ofFirst.subscribe(first)()
		defer ofSecond.subscribe(second)()
		start(t, second)
		stop, err := first.Start()
		must(t, err)
		defer stop()
		first.Close()
		if !ofFirst.has("closed: websites") {
			t.Errorf("told %q when it was closed", ofFirst.all())
		}
		if ofSecond.has("closed: websites") {
			t.Error("the other one was told of it")
		}
		told := len(ofFirst.all())
		invalid, err := keyValue(t, js, "websites").PutString(t.Context(), "a", "nonsense")
		must(t, err)
		wantNow(t, "the other one is told", func() bool { return ofSecond.has(fmt.Sprintf("invalid a %d", invalid)) })
		if now := ofFirst.all(); len(now) != told {
			t.Errorf("told %q after it was closed", now[told:])
		}
	})
}

// TestTheLastStopWaitsForTheHandlersOfItsClient, while the cache goes on, also for one that was removed just now.
func TestTheLastStopWaitsForTheHandlersOfItsClient(t *testing.T) {
	for _, remove := range []bool{false, true} {
		name := fmt.Sprintf("removed before: %v", remove)
		t.Run(name, virtually(func(t *testing.T) { stopWaitsForHandlers(t, remove) }))
	}
}

func stopWaitsForHandlers(t *testing.T, remove bool) {
	first, second := newPair(t, newServer(t))
	start(t, second)
	stop, err := first.Start()
	must(t, err)
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	informer := first.Informer() // after the stop there is another one
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		close(entered)
		<-leave
		close(left)
	}})
	must(t, err)
	must(t, second.Create(t.Context(), website("a")))
	<-entered
	if remove {
		must(t, informer.RemoveEventHandler(handle))
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
		select {
		case <-left:
		default:
			t.Error("stop returned while a handler ran")
		}
	}()
	wantNow(t, "stop has begun", informer.IsStopped)
	close(leave)
	<-stopped
}

// TestSharingClientsStartAndStopInAnyOrder leaves nothing behind, and no read fails while its client runs.
func TestSharingClientsStartAndStopInAnyOrder(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		first, second := newPair(t, js)
		must(t, first.Create(t.Context(), website("a")))
		var wg sync.WaitGroup
		for i, client := range []*entity.Client[*Website]{first, second, first, second} {
			random := rand.New(rand.NewPCG(uint64(i), 15))
			wg.Go(func() {
				for range 30 {
					stop, err := client.Start()
					if err == nil {
						_, err = client.Lister().Get("a")
					}
					if err == nil && random.IntN(2) == 0 {
						_, err = client.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{})
					}
					if err != nil {
						t.Error(err)
						return
					}
					cancel := client.Subscribe(entity.Hooks{Reserved: func(string, uint64, []byte) {}})
					time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
					cancel()
					stop()
				}
			})
		}
		wg.Wait()
		for _, bucket := range []string{"websites", "websites-status", "websites-audit"} {
			if n := consumers(t, js, bucket); n != 0 {
				t.Errorf("%d consumers of bucket %s are left", n, bucket)
			}
		}
		first.Close()
		if _, err := first.Start(); err == nil {
			t.Error("a closed client starts")
		}
		start(t, second)
		if _, err := second.Lister().Get("a"); err != nil {
			t.Error(errors.Join(errors.New("after the other one was closed"), err))
		}
	})
}

// TestALostStatusBucketHoldsUpOnlyItsClient: the other one reads on.
func TestALostStatusBucketHoldsUpOnlyItsClient(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		first, second := newPair(t, js)
		must(t, js.DeleteStream(t.Context(), "KV_websites-audit"))
		stop, err := second.Start()
		must(t, err)
		defer stop()
		start(t, first)
		must(t, second.Create(t.Context(), website("a")))
		if _, err := first.Lister().Get("a"); err != nil {
			t.Error(err)
		}
		if _, err := second.Lister().Get("a"); err == nil || !strings.Contains(err.Error(), "websites-audit") {
			t.Errorf("without its records, the other one reads: %v", err)
		}
	})
}
