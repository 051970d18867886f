package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// cacheConfig says what cache a child fills.
type cacheConfig struct {
	Source     string // "nagi", "client-go", "raw" or "memory"
	NATS       string
	Kube       *kubeAddress
	Place      string // bucket or namespace
	Objects    int    // how many there are
	ConfigMaps bool   // ConfigMaps instead of Websites
	Protobuf   bool
	Strip      bool // drops the managedFields
}

// cacheFilled is the result of filling a cache.
type cacheFilled struct {
	Seconds float64
	Heap    float64 // bytes
}

// informer has the methods that both kinds of informers share.
type informer interface {
	HasSyncedChecker() cache.DoneChecker
	GetStore() cache.Store
}

// roleCache fills one cache, once.
func roleCache(_ context.Context, config json.RawMessage) (map[string]command, func() error, error) {
	var cfg cacheConfig
	if err := json.Unmarshal(config, &cfg); err != nil {
		return nil, nil, err
	}
	fill := func(ctx context.Context, _ json.RawMessage) (any, error) {
		switch {
		case cfg.Source == "memory":
			return walkMemory(cfg)
		case cfg.Source == "raw" && cfg.ConfigMaps:
			return fillRaw(ctx, cfg, cfg.Place+"-configmaps")
		case cfg.Source == "raw":
			return fillRaw(ctx, cfg, cfg.Place)
		case cfg.Source == "nagi" && cfg.ConfigMaps:
			return fillNagi[*corev1.ConfigMap](ctx, cfg, "ConfigMap", cfg.Place+"-configmaps")
		case cfg.Source == "nagi":
			return fillNagi[*v1.Website](ctx, cfg, "Website", cfg.Place)
		case cfg.ConfigMaps:
			return fillOther(ctx, cfg, corev1.SchemeGroupVersion, "configmaps", &corev1.ConfigMap{})
		default:
			return fillOther(ctx, cfg, v1.GroupVersion, "websites", &v1.Website{})
		}
	}
	return map[string]command{"fill": fill}, func() error { return nil }, nil
}

// fillRaw is the yardstick for the informers: it only receives all messages.
func fillRaw(ctx context.Context, cfg cacheConfig, bucket string) (any, error) {
	js, err := connect(cfg.NATS)
	if err != nil {
		return nil, err
	}
	runtime.GC()
	began := time.Now()
	messages, err := rawMessages(ctx, js, bucket, 8192)
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	for range cfg.Objects {
		if _, err := messages.Next(); err != nil {
			return nil, err
		}
	}
	return cacheFilled{Seconds: time.Since(began).Seconds()}, nil
}

// walkMemory is the yardstick for a pass over primaries. A map has as many primaries, each with its secondary,
// decoded from JSON as in caches. One goroutine copies each primary once, in another order than they were made in.
func walkMemory(cfg cacheConfig) (any, error) {
	type family struct {
		primary   v1.Website
		secondary corev1.ConfigMap
	}
	families := make(map[string]*family, cfg.Objects)
	for i := range cfg.Objects {
		name := fmt.Sprint("site-", i)
		site := newWebsite(name, i, 0)
		configMap := newConfigMap(secondaryName(name, 0), site)
		entity.SetOwner(configMap, "Website", name, "instance")
		one := &family{}
		for object, into := range map[any]any{site: &one.primary, configMap: &one.secondary} {
			data, err := json.Marshal(object)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(data, into); err != nil {
				return nil, err
			}
		}
		families[name] = one
	}
	names := slices.Collect(maps.Keys(families))
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	runtime.GC()
	began := time.Now()
	for _, name := range names {
		runtime.KeepAlive(families[name].primary.DeepCopy())
	}
	return cacheFilled{Seconds: time.Since(began).Seconds()}, nil
}

// rawMessages returns all messages of a bucket, and those to come, from a pull consumer with this batch size.
func rawMessages(
	ctx context.Context, js jetstream.JetStream, bucket string, batch int,
) (jetstream.MessagesContext, error) {
	consumer, err := js.CreateConsumer(ctx, "KV_"+bucket, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		FilterSubject: "$KV." + bucket + ".>",
	})
	if err != nil {
		return nil, fmt.Errorf("watch bucket %s: %w", bucket, err)
	}
	return consumer.Messages(jetstream.PullMaxMessages(batch))
}

func fillNagi[T entity.IEntity](ctx context.Context, cfg cacheConfig, kind, bucket string) (any, error) {
	js, err := connect(cfg.NATS)
	if err != nil {
		return nil, err
	}
	client, err := entity.NewClient[T](ctx, js, entity.Config{
		Kind: kind, Bucket: bucket, BindOnly: true, StatusBucket: entity.NoStatusBucket,
	})
	if err != nil {
		return nil, err
	}
	return filled(ctx, cfg, func() (informer, func(), error) {
		stop, err := client.Start()
		if err != nil {
			return nil, nil, err
		}
		return client.Informer(), stop, nil
	})
}

func fillOther(
	ctx context.Context, cfg cacheConfig, group schema.GroupVersion, resource string, example kruntime.Object,
) (any, error) {
	config := cfg.Kube.config()
	config.GroupVersion, config.APIPath = &group, "/apis"
	if group.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(newScheme()).WithoutConversion()
	if cfg.Protobuf {
		config.ContentType, config.AcceptContentTypes = kruntime.ContentTypeProtobuf, kruntime.ContentTypeProtobuf
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return filled(ctx, cfg, func() (informer, func(), error) {
		listWatch := cache.NewListWatchFromClient(client, resource, cfg.Place, fields.Everything())
		i := cache.NewSharedIndexInformer(listWatch, example, 0, cache.Indexers{})
		if cfg.Strip {
			if err := i.SetTransform(crcache.TransformStripManagedFields()); err != nil {
				return nil, nil, err
			}
		}
		life, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			i.RunWithContext(life)
		}()
		return i, func() { cancel(); <-ended }, nil
	})
}

// filled starts an informer and measures it.
func filled(ctx context.Context, cfg cacheConfig, start func() (informer, func(), error)) (any, error) {
	runtime.GC()
	began := time.Now()
	i, stop, err := start()
	if err != nil {
		return nil, err
	}
	select {
	case <-i.HasSyncedChecker().Done():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	seconds := time.Since(began).Seconds()
	if got := len(i.GetStore().ListKeys()); got != cfg.Objects {
		return nil, fmt.Errorf("%d objects in the cache, not %d", got, cfg.Objects)
	}
	with := heapNow()
	runtime.KeepAlive(i)
	stop()
	i, stop = nil, nil
	_ = i
	_ = stop
	return cacheFilled{Seconds: seconds, Heap: with - heapNow()}, nil
}
