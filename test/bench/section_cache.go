package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	"github.com/nats-io/nats.go/jetstream"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	cacheOurs     = "Nagi"
	cacheRaw      = "the raw loop: a pull consumer that decodes nothing"
	cacheStream   = "client-go, JSON"
	cacheList     = "client-go, JSON, WatchListClient off"
	cacheStripped = "client-go, JSON, managedFields dropped by a transform"
	cacheProtobuf = "client-go, protobuf"
)

// cacheSubject is one way to fill a cache.
type cacheSubject struct {
	name   string
	config cacheConfig
	env    []string
}

var (
	websiteCaches = []cacheSubject{
		{name: cacheOurs, config: cacheConfig{Source: "nagi"}},
		{name: cacheStream, config: cacheConfig{Source: "client-go"}},
		{name: cacheRaw, config: cacheConfig{Source: "raw"}},
		{
			name: cacheList, config: cacheConfig{Source: "client-go"},
			env: []string{"KUBE_FEATURE_WatchListClient=false"},
		},
		{name: cacheStripped, config: cacheConfig{Source: "client-go", Strip: true}},
	}
	configMapCaches = []cacheSubject{
		{name: cacheOurs, config: cacheConfig{Source: "nagi"}},
		{name: cacheProtobuf, config: cacheConfig{Source: "client-go", Protobuf: true}},
		{name: cacheStream, config: cacheConfig{Source: "client-go"}},
		{name: cacheRaw, config: cacheConfig{Source: "raw"}},
	}
)

// runCache measures how long an informer needs until its cache is complete, and how much memory it needs for an object.
func runCache(ctx context.Context, b *bench) (c *chapter, err error) {
	c = &chapter{title: "3. The cache", setup: "From an informer's start until it has synced, " +
		"each time in a process of its own; the servers are warm. Nagi's is the informer of an\n" +
		"entity client, client-go's a SharedIndexInformer for the same Go type. " +
		"WatchListClient is on by default in client-go. A\n" +
		"Website is a custom resource, for which there is no protobuf; " +
		"a ConfigMap is a core type, and for Nagi an entity as\n" +
		"any other. Heap is what is freed, after a garbage collection, when a synced informer goes. " +
		"Objects on the API server\n" +
		"carry what it adds: uid, timestamps, managedFields."}
	nats, err := startNATS(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, nats.stop()) }()
	kube, err := b.startKube(ctx)
	if err != nil {
		return c, err
	}
	defer kube.stop()
	for _, n := range []int{b.size(10_000), b.size(100_000)} {
		place := fmt.Sprint("cache-", n)
		began := time.Now()
		if err := fillCaches(ctx, nats, kube, place, n); err != nil {
			return c, err
		}
		b.say("cache: %d objects of each kind are there after %.0f s", n, time.Since(began).Seconds())
		if err := websiteTurns(ctx, b, c, nats, kube, place, n); err != nil {
			return c, err
		}
		if err := configMapTurns(ctx, b, c, nats, kube, place, n); err != nil {
			return c, err
		}
	}
	return c, nil
}

func websiteTurns(
	ctx context.Context, b *bench, c *chapter, nats *natsServer, kube *kubeServer, place string, n int,
) error {
	took, heap, err := cacheTurns(ctx, b, c, "Websites", websiteCaches,
		cacheConfig{NATS: nats.url, Kube: kube.address, Place: place, Objects: n})
	if err != nil {
		return err
	}
	what := number(float64(n)) + " Websites"
	best := min(took.median(cacheStream), took.median(cacheList), took.median(cacheStripped)) / took.median(cacheOurs)
	c.reach(best >= 5, what+": at least 5 times faster than from the API server, its fastest", "%s", times(best))
	raw := took.median(cacheOurs) / took.median(cacheRaw)
	c.reach(raw <= 2.5, what+": at most 2.5 times the raw loop", "%s", times(raw))
	ours, theirs := heap.median(cacheOurs), heap.median(cacheStream)
	c.reach(ours <= theirs, what+": heap per object no more than client-go's",
		"%s beside %s", format(ours, "B"), format(theirs, "B"))
	return nil
}

func configMapTurns(
	ctx context.Context, b *bench, c *chapter, nats *natsServer, kube *kubeServer, place string, n int,
) error {
	took, heap, err := cacheTurns(ctx, b, c, "ConfigMaps", configMapCaches,
		cacheConfig{NATS: nats.url, Kube: kube.address, Place: place, Objects: n, ConfigMaps: true})
	if err != nil {
		return err
	}
	what := number(float64(n)) + " ConfigMaps"
	best := min(took.median(cacheStream), took.median(cacheProtobuf)) / took.median(cacheOurs)
	c.reach(best >= 5, what+": at least 5 times faster than from the API server, protobuf or not", "%s", times(best))
	c.note("%s: the raw loop, which decodes nothing, is %s faster than protobuf from the API server.", what,
		times(took.median(cacheProtobuf)/took.median(cacheRaw)))
	ours, theirs := heap.median(cacheOurs), min(heap.median(cacheStream), heap.median(cacheProtobuf))
	c.reach(ours <= theirs, what+": heap per object no more than client-go's",
		"%s beside %s", format(ours, "B"), format(theirs, "B"))
	return nil
}

func cacheTurns(
	ctx context.Context, b *bench, c *chapter, kind string, subjects []cacheSubject, cfg cacheConfig,
) (took, heap *figure, err error) {
	took = c.figure(fmt.Sprintf("first sync of %s %s", number(float64(cfg.Objects)), kind), "s")
	heap = c.figure(fmt.Sprintf("heap per object, %s %s", number(float64(cfg.Objects)), kind), "B")
	for range b.turns(3) {
		for _, s := range subjects {
			one := cfg
			one.Source, one.Protobuf, one.Strip = s.config.Source, s.config.Protobuf, s.config.Strip
			got, err := fillOne(ctx, one, s.env)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", s.name, err)
			}
			took.add(s.name, got.Seconds)
			if one.Source != "raw" {
				heap.add(s.name, got.Heap/float64(cfg.Objects))
			}
			b.say("cache: %d %s, %s: %s", cfg.Objects, kind, s.name, format(got.Seconds, "s"))
		}
	}
	return took, heap, nil
}

func fillOne(ctx context.Context, cfg cacheConfig, env []string) (filled cacheFilled, err error) {
	p, err := startProcess(ctx, "cache", cfg, env...)
	if err != nil {
		return filled, err
	}
	defer stopAll(&err, p)
	return filled, p.call(ctx, "fill", nil, &filled)
}

// fillCaches puts n Websites and n ConfigMaps into NATS and into Kubernetes, in buckets and a namespace of this name.
func fillCaches(ctx context.Context, nats *natsServer, kube *kubeServer, place string, n int) error {
	for _, bucket := range []string{place, place + "-configmaps"} {
		if _, err := nats.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket}); err != nil {
			return err
		}
	}
	if err := (&natsUser{js: nats.js, bucket: place}).fill(ctx, "site", n); err != nil {
		return err
	}
	err := publishAll(ctx, nats.js, n, func(i int) (string, any) {
		name := fmt.Sprint("site-", i)
		return "$KV." + place + "-configmaps." + name, newConfigMap(name, newWebsite(name, i, 0))
	})
	if err != nil {
		return err
	}
	if err := kube.namespace(ctx, place); err != nil {
		return err
	}
	return createAll(ctx, kube.client, n, func(i int) []client.Object {
		name := fmt.Sprint("site-", i)
		site := newWebsite(name, i, 0)
		configMap := newConfigMap(name, site)
		site.Namespace, configMap.Namespace = place, place
		return []client.Object{site, configMap}
	})
}

// createAll creates the objects that the function returns for 0 to n-1, many at once.
func createAll(ctx context.Context, c client.Client, n int, objects func(i int) []client.Object) error {
	var next atomic.Int64
	return inParallel(writers, func() error {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			for _, obj := range objects(i) {
				if err := c.Create(ctx, obj); err != nil {
					return fmt.Errorf("create %s: %w", strings.ToLower(fmt.Sprintf("%T", obj)), err)
				}
			}
		}
		return nil
	})
}

var _ client.Object = (*v1.Website)(nil)
