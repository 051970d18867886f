package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// The processes of which the heap is measured.
const (
	oneController         = "one"
	twoOnSharedClients    = "two, derived"
	twoOnSeparatedClients = "two, independent"
)

// TestSoakTwoControllersOverOneBucketHoldOneCache of 100,000 documents. Each controller has records of its own. The
// test prints the heap of each process.
func TestSoakTwoControllersOverOneBucketHoldOneCache(t *testing.T) {
	const documents = 100_000
	server := natstest.Start(t)
	_, js := natstest.Connect(t, server.URL())
	fillSites(t, js, documents)
	heaps := map[string]int{}
	for _, kind := range []string{oneController, twoOnSharedClients, twoOnSeparatedClients} {
		child := exec.Command(os.Args[0])
		child.Env = append(slices.Clone(os.Environ()), childEnv+"=heap", "NAGI_TEST_URL="+server.URL(),
			"NAGI_TEST_CONTROLLERS="+kind, "NAGI_TEST_DOCUMENTS="+strconv.Itoa(documents))
		child.Stderr = os.Stderr
		out, err := child.Output()
		must(t, err)
		heaps[kind], err = strconv.Atoi(strings.TrimSpace(string(out)))
		must(t, err)
		t.Logf("%-16s %6.1f MiB, %5d bytes for each of %d documents",
			kind, float64(heaps[kind])/(1<<20), heaps[kind]/documents, documents)
	}
	shared := heaps[twoOnSharedClients] - heaps[oneController]
	independent := heaps[twoOnSeparatedClients] - heaps[oneController]
	t.Logf("the second one adds %.1f MiB on a derived client, %.1f MiB on an independent one",
		float64(shared)/(1<<20), float64(independent)/(1<<20))
	if shared > independent*9/20 {
		t.Errorf("the second controller adds %d bytes on a derived client, and %d on an independent one: "+
			"want less than 45 %%", shared, independent)
	}
}

// fillSites makes the buckets, and puts documents as other programs do.
func fillSites(t *testing.T, js jetstream.JetStream, documents int) {
	t.Helper()
	for _, status := range []string{"", "sites-audit"} {
		client, err := entity.NewClient[*site](t.Context(), js, entity.Config{
			Kind: "Site", Bucket: "sites", StatusBucket: status,
		})
		must(t, err)
		client.Close()
	}
	for i := range documents {
		_, err := js.PublishAsync("$KV.sites."+heapSite(i), fmt.Appendf(nil, `{"metadata":{`+
			`"labels":{"app":"shop","team":"team-%[1]d","tier":"front"},`+
			`"annotations":{"example/contact":"team-%[1]d@example.com","example/docs":"https://docs.example.com/%[1]d"}},`+
			`"spec":{"title":"%[2]s","pages":%[1]d}}`, i, strings.Repeat("a title ", 25)),
			jetstream.WithStallWait(time.Minute))
		must(t, err)
	}
	<-js.PublishAsyncComplete()
}

func heapSite(i int) string { return fmt.Sprintf("site-%06d", i) }

// heapChild is the process that is measured. It prints its heap when its controllers have reconciled everything.
func heapChild(url, controllers, count string) (err error) {
	documents, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	js, disconnect, err := childConnection(url)
	if err != nil {
		return err
	}
	defer disconnect()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	clients, err := heapClients(ctx, js, controllers)
	if err != nil {
		return err
	}
	for i, client := range clients {
		c, err := New(fmt.Sprintf("controller-%d", i), client, ReconcilerFunc(
			func(context.Context, Request) (Result, error) { return Result{}, nil },
		), WithWorkers(8), WithCacheSyncTimeout(10*time.Minute))
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		running.Go(func() { ended <- c.Run(ctx) })
		for !heapSettled(c, client, documents) {
			select {
			case err := <-ended:
				return errors.Join(errors.New("the controller ended"), err)
			case <-time.After(250 * time.Millisecond):
			}
		}
	}
	fmt.Println(leastHeap())
	runtime.KeepAlive(clients)
	return nil
}

func heapClients(ctx context.Context, js jetstream.JetStream, controllers string) ([]*entity.Client[*site], error) {
	cfg := entity.Config{Kind: "Site", Bucket: "sites"}
	first, err := entity.NewClient[*site](ctx, js, cfg)
	clients := []*entity.Client[*site]{first}
	if err != nil || controllers == oneController {
		return clients, err
	}
	cfg.StatusBucket = "sites-audit"
	second := (*entity.Client[*site])(nil)
	if controllers == twoOnSharedClients {
		second, err = first.WithStatusBucket(ctx, cfg.StatusBucket)
	} else {
		second, err = entity.NewClient[*site](ctx, js, cfg)
	}
	return append(clients, second), err
}

// heapSettled reports whether all documents are reconciled, and all records are in the cache.
func heapSettled(c *Controller[*site], client *entity.Client[*site], documents int) bool {
	s := c.Stats()
	return s.Leading && s.Running == 0 && s.Delayed == 0 && s.Ready == [3]int{} &&
		len(client.Informer().GetStore().ListKeys()) == documents &&
		len(client.Records().Keys()) == documents && allObserved(client)
}

func allObserved(client *entity.Client[*site]) bool {
	for _, rec := range client.Records().All() {
		if rec.ObservedRevision == 0 {
			return false
		}
	}
	return true
}

// leastHeap returns the bytes that are reachable: the least of some measurements.
func leastHeap() uint64 {
	least := ^uint64(0)
	for range 10 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, m.HeapAlloc)
		time.Sleep(100 * time.Millisecond)
	}
	return least
}
