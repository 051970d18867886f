package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	v1 "github.com/nagi-runtime/nagi/test/bench/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// scaleConfig says what a child of the section about scale runs.
type scaleConfig struct {
	NATS      string
	Place     string // bucket of the primaries
	Primaries int
	Resync    time.Duration
	// OnlyMetadata is of the secondaries.
	OnlyMetadata bool
	// Member names this of several replicas that share the primaries, and whose caches have what is theirs; "": there is
	// one.
	Member string
}

// moments are times, in nanoseconds since 1970.
type moments struct {
	Started, Ready, All int64
	Sweeps              []int64 // when each began
}

// census notes which primaries were reconciled, by the number in their names. It uses little memory, because its own is
// counted with the controller's.
type census struct {
	began  int64
	seen   []atomic.Bool
	newest []atomic.Int64 // when the newest version with a sample was written
	count  atomic.Int64

	mu      sync.Mutex
	samples []sample
	reached chan struct{}
}

func newCensus(n int) *census {
	return &census{
		began: time.Now().UnixNano(), seen: make([]atomic.Bool, n),
		newest: make([]atomic.Int64, n), reached: make(chan struct{}, 1),
	}
}

// again starts counting anew.
func (c *census) again() {
	c.count.Store(0)
	for i := range c.seen {
		c.seen[i].Store(false)
	}
}

func (c *census) reconciled(key string, sent int64) {
	now := time.Now().UnixNano()
	i, err := strconv.Atoi(key[strings.LastIndexByte(key, '-')+1:])
	if err != nil || i >= len(c.seen) {
		return
	}
	if sent > c.began && c.newest[i].Swap(sent) < sent {
		c.mu.Lock()
		c.samples = append(c.samples, sample{At: sent, Took: float64(now-sent) / 1e9})
		c.mu.Unlock()
	}
	if !c.seen[i].Swap(true) && c.count.Add(1) == int64(len(c.seen)) {
		c.reached <- struct{}{}
	}
}

func (c *census) await(ctx context.Context) error {
	select {
	case <-c.reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *census) take() []sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	samples := c.samples
	c.samples = nil
	return samples
}

// scaled is a controller of many primaries, each with a secondary. Its reconciler reads the primary and writes nothing.
type scaled struct {
	cfg        scaleConfig
	census     *census
	sites      *entity.Client[*v1.Website]
	configMaps *entity.Client[*corev1.ConfigMap]
	controller *controller.Controller[*v1.Website]
	all        chan struct{} // a trigger that enqueues every primary
	cancel     context.CancelFunc
	ended      chan error
	empty      float64 // heap before the start

	mu   sync.Mutex
	when moments
}

func roleScale(ctx context.Context, config json.RawMessage) (map[string]command, func() error, error) {
	s := &scaled{all: make(chan struct{}), ended: make(chan error, 1)}
	if err := json.Unmarshal(config, &s.cfg); err != nil {
		return nil, nil, err
	}
	s.census = newCensus(s.cfg.Primaries)
	s.empty = heapNow()
	if err := s.start(ctx); err != nil {
		return nil, nil, err
	}
	return map[string]command{
		"ready": func(ctx context.Context, _ json.RawMessage) (any, error) { return nil, s.ready(ctx) },
		"first": func(ctx context.Context, _ json.RawMessage) (any, error) { return nil, s.first(ctx) },
		"calm":  func(ctx context.Context, _ json.RawMessage) (any, error) { return nil, s.calm(ctx) },
		"pass":  func(ctx context.Context, _ json.RawMessage) (any, error) { return s.pass(ctx) },
		"heap": func(context.Context, json.RawMessage) (any, error) {
			heap := heapNow() - s.empty
			return heap, writeHeap("scale")
		},
		"shards":  func(context.Context, json.RawMessage) (any, error) { return s.controller.Stats().Shards, nil },
		"samples": func(context.Context, json.RawMessage) (any, error) { return s.census.take(), nil },
		"moments": func(context.Context, json.RawMessage) (any, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.when, nil
		},
	}, s.stop, nil
}

func (s *scaled) start(ctx context.Context) error {
	ctx, s.cancel = context.WithCancel(ctx)
	js, err := connect(s.cfg.NATS)
	if err != nil {
		return err
	}
	if s.sites, err = entity.NewClient[*v1.Website](ctx, js,
		entity.Config{Kind: "Website", Bucket: s.cfg.Place}); err != nil {
		return err
	}
	if s.configMaps, err = entity.NewClient[*corev1.ConfigMap](ctx, js, entity.Config{
		Kind: "ConfigMap", Bucket: s.cfg.Place + "-secondaries", OnlyMetadata: s.cfg.OnlyMetadata,
	}); err != nil {
		return err
	}
	options := []controller.Option{
		controller.Owns(s.configMaps), controller.WithWorkers(8), controller.WithReconcileAllOn(s.all),
		controller.WithResyncInterval(s.cfg.Resync), controller.WithCacheSyncTimeout(time.Hour),
	}
	if s.cfg.Member != "" {
		options = append(options, controller.WithShards(shardSlots), controller.WithMember(s.cfg.Member, 1),
			controller.WithSlotCaches())
	}
	s.controller, err = controller.New("websites", s.sites, s, options...)
	if err != nil {
		return err
	}
	s.when.Started = time.Now().UnixNano()
	go func() { s.ended <- s.controller.Run(ctx) }()
	go s.noteSweeps(ctx)
	return nil
}

// Reconcile reads the primary.
func (s *scaled) Reconcile(_ context.Context, req controller.Request) (controller.Result, error) {
	site, err := s.sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	s.census.reconciled(req.Key, site.Spec.Sent)
	return controller.Result{}, nil
}

// noteSweeps notes when each sweep begins.
func (s *scaled) noteSweeps(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for seen := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if sweeps := s.controller.Stats().Sweeps; sweeps > seen {
			seen = sweeps
			s.mu.Lock()
			s.when.Sweeps = append(s.when.Sweeps, time.Now().UnixNano())
			s.mu.Unlock()
		}
	}
}

func (s *scaled) ready(ctx context.Context) error {
	err := awaitLeading(ctx, s.controller, s.ended)
	s.note(&s.when.Ready)
	return err
}

func (s *scaled) first(ctx context.Context) error {
	err := s.census.await(ctx)
	s.note(&s.when.All)
	return err
}

// calm returns when no key waits for a reconcile: after a start, secondaries enqueue their owners once more.
func (s *scaled) calm(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		now := s.controller.Stats()
		return now.Running == 0 && now.Ready == [3]int{}, nil
	})
}

func (s *scaled) note(moment *int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*moment = time.Now().UnixNano()
}

// pass reconciles every primary once, at full speed, and returns when that began and ended.
func (s *scaled) pass(ctx context.Context) (span, error) {
	s.census.again()
	began := time.Now().UnixNano()
	s.all <- struct{}{}
	err := s.census.await(ctx)
	return span{began, time.Now().UnixNano()}, err
}

func (s *scaled) stop() error {
	s.cancel()
	err := <-s.ended
	s.sites.Close()
	s.configMaps.Close()
	return err
}
