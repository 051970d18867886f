package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/backoff"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// OwnsExternal makes the resources of a client, behind an API that is neither NATS nor Kubernetes, secondaries of the primary.
// They are listed on an interval of their own; one whose version differs from what was seen, that appeared or vanished,
// enqueues its owner with OperationExternal. Cascade and sweep delete those whose owner is gone. external.Configure gives
// the client another interval, a rate limit and more.
//
// While the API is away its primaries are not punished: a reconcile that fails with external.ErrUnavailable, or a list that
// fails, opens the client's breaker. Keys then wait in it without an attempt counted, external.Reconcile fails at once, and
// the API is polled, with backoff, once for all. When it answers the keys are due again. A key whose calls alone fail is not
// taken for the API's fault (see package external). A key that would wait long for its turn under a rate limit comes back
// later; one at a time, which has begun, holds a worker.
//
// A teardown deletes at once what is in NATS and Kubernetes, and what an API has when that has been listed anew: somebody else
// may own by now what an older list shows. It ends when each API has been listed. While an operation goes on that was begun
// for the primary, nothing else of its API is deleted.
//
// A replica that does not lead lists and watches too, so that it can take over warm: a rate limit holds for each replica, and
// for each controller that has the client.
//
// What was begun for a primary by external.Reconcile and not seen to be done is settled before its teardown ends. Only the
// driver can ask for an operation that goes on: call external.ReconcileAbsent in the reconcile of the delete.
//
// The resources must be listed once before anything is reconciled; if that fails for WithCacheSyncTimeout, Run fails.
func OwnsExternal(client external.IExternalClient) Option {
	return func(o *options) error {
		inner, config, err := checkExternal(client)
		if err != nil {
			return fmt.Errorf("OwnsExternal(%s): %w", externalKind(inner), err)
		}
		o.sources = append(o.sources, func(e *engine) (source.Source, error) {
			s := newExternalSource(e, "OwnsExternal", inner, config)
			s.events = e.eventsOf(s, nil, e.owners, OperationExternal)
			s.pushed = func(owner string) { e.Notice(owner, operation.Of(OperationExternal), queue.Secondary) }
			s.missing = s.pushed
			return s, e.addExternal(s)
		})
		return nil
	}
}

func checkExternal(client external.IExternalClient) (external.IExternalClient, external.Config, error) {
	if guard.IsNil(client) {
		return nil, external.Config{}, errors.New("a client is needed")
	}
	inner, config := external.Unwrap(client)
	if guard.IsNil(inner) {
		return nil, config, errors.New("a client is needed")
	}
	if kind := externalKind(inner); kind == "" || strings.Contains(kind, "/") {
		return inner, config, fmt.Errorf("its kind is %q; it must have one, without a slash", kind)
	}
	config, err := config.WithDefaults()
	return inner, config, err
}

func externalKind(client external.IExternalClient) (kind string) {
	kind = "nil"
	if !guard.IsNil(client) {
		if err := guard.Call(func() error { kind = client.Kind(); return nil }); err != nil {
			kind = ""
		}
	}
	return kind
}

// addExternal refuses a second client of one kind: errors and intents name the kind only.
func (e *engine) addExternal(s *externalSource) error {
	if e.external(s.resources) != nil {
		return fmt.Errorf("%s: there is a client of this kind already; give each a kind of its own", s)
	}
	e.externals = append(e.externals, s)
	return nil
}

func (e *engine) external(kind string) *externalSource {
	for _, s := range e.externals {
		if s.resources == kind {
			return s
		}
	}
	return nil
}

// externalSource is the resources of a client, as the last list showed them.
type externalSource struct {
	engine    *engine
	role      string
	client    external.IExternalClient
	resources string // their kind
	config    external.Config
	events    source.Sink
	pushed    func(owner string) // a push of the API
	missing   func(owner string) // something was made for it and deleted before any list has shown it

	limiter *rate.Limiter
	breaker *apiBreaker
	cache   externalCache
	lists   listSchedule
	listed  chan struct{} // closed after the first list that succeeded
	asked   keyed[*askedList]
	made    keyed[madeHere]

	goesOn     sync.Mutex      // of the reconcile that waits for the turn of a further call, however long
	turnedAway keyed[struct{}] // keys whose turn would have been long in coming

	end   context.CancelFunc
	loops sync.WaitGroup
}

func newExternalSource(e *engine, role string, client external.IExternalClient, config external.Config) *externalSource {
	s := &externalSource{engine: e, role: role, client: client, resources: client.Kind(), config: config, listed: make(chan struct{}), end: func() {}}
	s.lists.wake = make(chan struct{}, 1)
	limit := rate.Inf
	if config.Rate > 0 {
		limit = rate.Limit(config.Rate)
	}
	s.limiter = rate.NewLimiter(limit, config.Burst)
	s.breaker = newAPIBreaker(s)
	return s
}

func (s *externalSource) String() string { return s.role + " " + s.resources }

func (s *externalSource) Start(ctx context.Context) error {
	ctx, s.end = context.WithCancel(ctx)
	s.breaker.life = ctx
	s.loops.Go(func() { s.run(ctx) })
	if watcher, ok := s.client.(external.Watcher); ok {
		s.loops.Go(func() { s.watch(ctx, watcher) })
	}
	return nil
}

func (s *externalSource) Stop() {
	s.end()
	s.loops.Wait()
}

func (s *externalSource) Synced() []cache.DoneChecker {
	return []cache.DoneChecker{firstList{s}}
}

// firstList is done when the first list has succeeded and its events are out.
type firstList struct{ source *externalSource }

func (l firstList) Name() string          { return l.source.String() }
func (l firstList) Done() <-chan struct{} { return l.source.listed }

func (s *externalSource) Err() error {
	if err := s.breaker.err(); err != nil {
		return err
	}
	return s.cache.malformedErr()
}

func (s *externalSource) Owns() bool           { return true }
func (s *externalSource) Deletable() bool      { return true }
func (s *externalSource) All() []metav1.Object { return s.cache.all() }

func (s *externalSource) OwnedBy(key string) ([]metav1.Object, error) {
	return s.cache.ownedBy(key), nil
}

// remove deletes a resource. The next list shows whether it is gone.
func (s *externalSource) Remove(ctx context.Context, obj metav1.Object) error {
	resource := obj.(*externalObject).resource
	limited, cancel, err := keyGate{s.breaker, resource.OwnerKey, nil}.Enter(ctx)
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
		s.asked.forget(resource.OwnerKey) // a later list has to tell what came of it
	}
	if err != nil && ctx.Err() == nil && external.IsUnavailable(err) {
		return external.UnavailableOf(s.resources, err)
	}
	return err
}

// run lists until the source stops: on the interval, when somebody needs to know, and, with backoff, while the API is away.
func (s *externalSource) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.lists.wake:
		}
		wait := s.untilList()
		if wait <= 0 {
			s.list(ctx)
			wait = s.untilList()
		}
		timer.Reset(wait)
	}
}

// list compares what there is with what was seen. A list that fails changes nothing.
func (s *externalSource) list(ctx context.Context) {
	begun := s.lists.begin()
	resources, err := s.listNow(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("List failed", "source", s.String(), "err", err)
		s.lists.end(s.nextInterval(), time.Time{})
		s.breaker.pollFailed(err)
		return
	}
	first := !s.hasListed()
	changes := s.cache.replace(s, resources)
	for _, c := range changes {
		switch {
		case c.before == nil:
			s.events.Created(ctx, c.after, first)
		case c.after == nil:
			s.events.Deleted(ctx, c.before)
		default:
			s.events.Updated(ctx, c.before, c.after)
		}
	}
	if first {
		close(s.listed)
	}
	s.lists.end(s.nextInterval(), begun)
	s.breaker.listed()
	s.engine.sourceHealth(ctx, s)
	s.wakeAsked(begun)
	s.tellMissing(begun)
}

func (s *externalSource) listNow(ctx context.Context) (resources []external.Resource, err error) {
	limited, cancel, err := s.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	s.lists.turn()
	err = guard.Call(func() (err error) {
		resources, err = s.client.List(limited)
		return err
	})
	return resources, err
}

func (s *externalSource) hasListed() bool {
	select {
	case <-s.listed:
		return true
	default:
		return false
	}
}

// turn waits for the turn of one call, and bounds it.
func (s *externalSource) turn(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.config.Rate > 0 {
		if err := s.limiter.Wait(ctx); err != nil {
			return nil, nil, fmt.Errorf("wait for the rate limit of %s: %w", s.resources, err)
		}
	}
	return s.bounded(ctx)
}

// bounded is the context of one call.
func (s *externalSource) bounded(ctx context.Context) (context.Context, context.CancelFunc, error) {
	limited, cancel := context.WithTimeout(s.called(ctx), s.config.Timeout)
	return limited, cancel, nil
}

// called says in the context for whom the client is called: resources carry neither kind nor instance, so only the client can
// tell those of this controller from others.
func (s *externalSource) called(ctx context.Context) context.Context {
	return external.WithOwner(ctx, external.Owner{Kind: s.engine.kind, Instance: s.engine.instanceID()})
}

func (s *externalSource) nextInterval() time.Duration { return jittered(s.config.Interval) }

// jittered is d, give or take a tenth.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// watch takes the pushes of the API, again and again.
func (s *externalSource) watch(ctx context.Context, watcher external.Watcher) {
	backoff := backoff.New(s.config.BackoffMin, s.config.BackoffMax)
	ctx = s.called(ctx)
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := guard.Call(func() error {
			return watcher.Watch(ctx, func(owner string) { s.push(ctx, owner) })
		})
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > s.config.BackoffMax {
			failures = 0
		}
		pause := backoff.Delay(failures)
		klog.FromContext(ctx).Info("Watch ended, will be called again", "source", s.String(), "err", err, "after", pause)
		if !sleep(ctx, pause) {
			return
		}
		s.wantList(time.Now()) // something may have been missed
	}
}

func (s *externalSource) push(ctx context.Context, owner string) {
	if ctx.Err() != nil {
		return
	}
	if owner != "" {
		if err := guard.Call(func() error { s.pushed(owner); return nil }); err != nil {
			klog.FromContext(ctx).Error(err, "Push failed", "source", s.String(), "owner", owner)
		}
	}
	s.lists.push(s.config.Settle)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
