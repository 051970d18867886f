// Package apisource has the sources of resources behind APIs that are neither NATS nor Kubernetes: their lists, their
// breakers, the turns under their rate limits, and the intents of calls.
//
// The rule: a change of a resource is written down as an intent before the API is called, so that a crash leaves word
// of what may exist. While an API is away the keys that need it wait, and all others go on. A source tells its
// controller over [Host].
package apisource

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Host is the controller that the sources belong to.
type Host interface {
	source.Enqueuer
	// WellFormed tells whether a primary can have this key.
	WellFormed(key string) bool
	// InstanceID is the id of the installation; "" while it is not known.
	InstanceID() string
	// Resume makes a key due that has waited for an API.
	Resume(it queue.Item)
	// RetryAfter makes a key due again, for the same reasons.
	RetryAfter(it queue.Item, after time.Duration)
}

// Config is what the sources of a controller share.
type Config struct {
	Host   Host
	Kind   string // of the primaries
	Bucket string // of the statuses, for errors

	Records  record.Store           // nil WithoutTeardown
	MayExist func(name string) bool // whether Records may have a reserved key, without asking a server

	Changed       func(ctx context.Context, s source.Source) // Err or Calls has another answer
	Malformed     func()                                     // a list had malformed resources
	BreakerOpened func()
}

// Source is the resources of a client, as the last list showed them.
type Source struct {
	source.Whole
	shared *Config
	role   string
	kind   string // of the resources
	client external.IExternalClient
	config external.Config
	Handlers

	limiter   *rate.Limiter
	breaker   *breaker
	cache     objects
	schedule  schedule
	listed    chan struct{} // closed after the first list that succeeded
	keys      table[keyState]
	counts    keyCounts
	calls     calls
	undeleted undeleted

	// secondCallTurn is held by the reconcile that waits, however long, for the turn of a second call.
	secondCallTurn sync.Mutex

	end   context.CancelFunc
	loops sync.WaitGroup
}

var (
	_ source.Owned  = (*Source)(nil)
	_ source.Called = (*Source)(nil)
)

// Handlers take what a source tells.
type Handlers struct {
	Events  source.Sink
	Pushed  func(owner string) // the API has pushed a change
	Missing func(owner string) // a resource of this owner was made and is gone, and no list has shown it
}

// Check returns the client that a configured one is made of, and its configuration with all defaults.
func Check(client external.IExternalClient) (external.IExternalClient, external.Config, error) {
	if guard.IsNil(client) {
		return nil, external.Config{}, errors.New("a client is needed")
	}
	inner, config := external.Unwrap(client)
	if guard.IsNil(inner) {
		return nil, config, errors.New("a client is needed")
	}
	if kind := KindOf(inner); kind == "" || strings.Contains(kind, "/") {
		return inner, config, fmt.Errorf("its kind is %q; it must have one, without a slash", kind)
	}
	config, err := config.WithDefaults()
	return inner, config, err
}

// KindOf is the kind of a client, for errors: "nil" of none, and "" of one that panics.
func KindOf(client external.IExternalClient) (kind string) {
	kind = "nil"
	if !guard.IsNil(client) {
		if err := guard.Call(func() error { kind = client.Kind(); return nil }); err != nil {
			kind = ""
		}
	}
	return kind
}

func newSource(shared *Config, role string, client external.IExternalClient, config external.Config) *Source {
	s := &Source{
		shared: shared, role: role, kind: client.Kind(), client: client, config: config,
		listed: make(chan struct{}), end: func() {},
	}
	s.keys.tally = s.counts.tally
	s.schedule.wake = make(chan struct{}, 1)
	limit := rate.Inf
	if config.Rate > 0 {
		limit = rate.Limit(config.Rate)
	}
	s.limiter = rate.NewLimiter(limit, config.Burst)
	s.breaker = newBreaker(s)
	return s
}

// String is the name of the source in logs, errors and Stats.
func (s *Source) String() string { return s.role + " " + s.kind }

// Start implements source.Source.
func (s *Source) Start(ctx context.Context) error {
	ctx, s.end = context.WithCancel(ctx)
	s.breaker.life = ctx
	s.loops.Go(func() { s.run(ctx) })
	if watcher, ok := s.client.(external.Watcher); ok {
		s.loops.Go(func() { s.watch(ctx, watcher) })
	}
	return nil
}

// Stop implements source.Source.
func (s *Source) Stop() {
	s.end()
	s.loops.Wait()
}

// Synced implements source.Source.
func (s *Source) Synced() []cache.DoneChecker { return []cache.DoneChecker{firstList{s}} }

// firstList is done when the first list has succeeded and its events are out.
type firstList struct{ source *Source }

func (l firstList) Name() string          { return l.source.String() }
func (l firstList) Done() <-chan struct{} { return l.source.listed }

// Err implements source.Source.
func (s *Source) Err() error {
	if err := s.firstHung(isList); err != nil {
		return err
	}
	if err := s.breaker.err(); err != nil {
		return err
	}
	return s.cache.malformedErr()
}

// Calls implements source.Called.
func (s *Source) Calls() error {
	if err := s.firstHung(isNoList); err != nil {
		return err
	}
	return s.undeletedErr("")
}

// IsOptional implements source.Source.
func (s *Source) IsOptional() bool { return s.config.Optional }

// Outdated implements deletes.Source. A teardown asks Stale of the set, too: it needs a list of its own.
func (s *Source) Outdated() error { return source.NotSynced(s) }

// Owns implements source.Owned.
func (s *Source) Owns() bool { return true }

// Deletable implements source.Owned.
func (s *Source) Deletable() bool { return true }

// Resource implements owner.Source.
func (s *Source) Resource() owner.Resource { return owner.ResourceOfAPI() }

// AnyNamespace implements owner.Source. A resource has no namespace.
func (s *Source) AnyNamespace() bool { return false }

// All implements source.Owned.
func (s *Source) All() iter.Seq[metav1.Object] { return slices.Values(s.cache.all()) }

// OwnedBy implements source.Owned. It never fails.
func (s *Source) OwnedBy(key string) ([]metav1.Object, error) { return s.cache.ownedBy(key), nil }

// OwnedLive implements source.Owned: a teardown waits for a list of its own, see Set.Stale.
func (s *Source) OwnedLive(context.Context, string) ([]metav1.Object, error) { return nil, nil }

// Rewrite implements source.Owned: a resource names no kind, so there is nothing to write.
func (s *Source) Rewrite(context.Context, metav1.Object, func(metav1.Object) error) error { return nil }

// Rewrites implements source.Owned: the API alone says whose a resource is.
func (s *Source) Rewrites() bool { return false }

// WrittenBy implements source.Owned: a resource does not tell.
func (s *Source) WrittenBy(metav1.Object, string) bool { return false }

// Remove implements deletes.Source. The next list shows whether the resource is gone.
func (s *Source) Remove(ctx context.Context, permit deletes.Permit) error {
	resource := permit.Object().(*Object).Resource
	limited, cancel, err := gate{source: s, key: resource.OwnerKey}.Enter(external.WithCall(ctx, callDelete))
	if err != nil {
		return err
	}
	defer cancel()
	err = guard.Call(func() error {
		if conditional, ok := s.client.(external.ConditionalDeleter); ok {
			return conditional.DeleteSeen(limited, resource)
		}
		return s.client.Delete(limited, resource.ID)
	})
	if err == nil {
		s.undeleted.answered(resource)
		s.forgetAwaited(resource.OwnerKey) // only a later list can show that it is gone
	}
	if err != nil && ctx.Err() == nil && external.IsUnavailable(err) {
		return external.UnavailableOf(s.kind, err)
	}
	return err
}

// Stats is the state of a source.
type Stats struct {
	Resources  int           // how many the last list showed
	Away       bool          // the API is
	Since      time.Time     // when it went away
	Reason     string        // why it is away
	Pause      time.Duration // between two polls of it
	Waiting    int           // keys that wait for it
	TurnedAway int           // keys that come back for their turn
	Awaited    int           // keys that wait for a list, or waited for one in their teardown
}

// Stats returns the state of the source.
func (s *Source) Stats() Stats {
	stats := s.breaker.stats()
	stats.Resources = s.cache.len()
	stats.Waiting = int(s.counts.waiting.Load())
	stats.TurnedAway = int(s.counts.turnedAway.Load())
	stats.Awaited = int(s.counts.awaited.Load())
	return stats
}

func (b *breaker) stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{Pause: b.pause}
	if b.open {
		s.Away, s.Since, s.Reason = true, b.since, b.reason.Error()
	}
	return s
}
