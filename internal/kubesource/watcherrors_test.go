package kubesource

import (
	"context"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/owner"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// withHandler is an informer whose watch error handler can be called, and counts how often it was set.
type withHandler struct {
	cache.SharedIndexInformer
	handler cache.WatchErrorHandlerWithContext
	set     atomic.Int32
	started bool // so that it cannot be set
}

func (w *withHandler) SetWatchErrorHandlerWithContext(h cache.WatchErrorHandlerWithContext) error {
	if w.started {
		return errDone
	}
	w.handler = h
	w.set.Add(1)
	return w.SharedIndexInformer.SetWatchErrorHandlerWithContext(h)
}

func (w *withHandler) fails(t *testing.T, err error) { w.handler(t.Context(), &cache.Reflector{}, err) }

// TestControllersThatShareAnInformerAllHearOfItsErrors, and of what heals.
func TestControllersThatShareAnInformerAllHearOfItsErrors(t *testing.T) {
	informer := stillInformer()
	first, second := WatchErrorsOf(informer), WatchErrorsOf(informer)
	if first != second {
		t.Fatal("each has its own: the second took the first one's news away")
	}
	var heard []string
	cancel := first.listen(listener{failed: func(err error) { heard = append(heard, "first "+err.Error()) }})
	second.listen(listener{failed: func(err error) { heard = append(heard, "second "+err.Error()) }})
	first.report(context.Canceled) // is no fault
	cancel()
	first.report(errDone)
	late := ""
	second.listen(listener{failed: func(err error) { late = err.Error() }})
	if !reflect.DeepEqual(heard, []string{"second done"}) || late != "done" {
		t.Errorf("heard: %v, late: %q", heard, late)
	}
}

// TestTwoSourcesAndAHandleOverOneInformerShareItsErrors: the informer fails, and both sources are degraded; a request
// of the handle is lost, and both probe.
func TestTwoSourcesAndAHandleOverOneInformerShareItsErrors(t *testing.T) {
	informer := &withHandler{SharedIndexInformer: stillInformer()}
	handle := WatchErrorsOf(informer)
	var hosts [2]*host
	for i := range hosts {
		hosts[i] = newHost()
		s := New(informer, hosts[i], Config{Role: "OwnsKube", Kind: "Site"})
		s.SetSink(&sink{})
		must(t, s.Start(t.Context()))
		defer s.Stop()
		if s.Server() != handle.server {
			t.Errorf("source %d has another API server than the handle", i)
		}
	}
	if n := informer.set.Load(); n != 1 {
		t.Errorf("the watch error handler was set %d times, want once", n)
	}
	informer.fails(t, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errDone))
	for i, h := range hosts {
		says(t, (<-h.changed).Err(), "forbidden", "done")
		if t.Failed() {
			t.Fatalf("source %d did not hear of it", i)
		}
	}
	probes := make(chan struct{}, 100)
	handle.ProbeWith(answers(func(context.Context) error { probes <- struct{}{}; return nil }))
	err := handle.NoteUnanswered(lost(syscall.ECONNREFUSED))
	if by := kubeapi.UnansweredBy(err); by != handle.server {
		t.Errorf("the error is marked with server %d, want %d", by, handle.server)
	}
	<-probes
	<-probes
}

func TestAnInformerAndOneThatWrapsItShareTheirErrors(t *testing.T) {
	informer := stillInformer()
	if WatchErrorsOf(informer) != WatchErrorsOf(&following{SharedIndexInformer: informer}) {
		t.Error("each has its own")
	}
	if WatchErrorsOf(informer) == WatchErrorsOf(stillInformer()) {
		t.Error("two informers share theirs")
	}
}

// TestOnesThatAskAtOnceFindTheSame, with its handler set.
func TestOnesThatAskAtOnceFindTheSame(t *testing.T) {
	for range 100 {
		informer := &withHandler{SharedIndexInformer: stillInformer()}
		var found [8]*WatchErrors
		var all sync.WaitGroup
		for i := range found {
			all.Go(func() {
				found[i] = WatchErrorsOf(informer)
				if informer.set.Load() != 1 {
					t.Errorf("the handler was set %d times, want once", informer.set.Load())
				}
			})
		}
		all.Wait()
		for _, other := range found {
			if other != found[0] {
				t.Fatal("each has its own")
			}
		}
	}
}

// TestASourceThatKeepsTheHandlerLeavesItAlone, and hears of errors where a handle has set it already.
func TestASourceThatKeepsTheHandlerLeavesItAlone(t *testing.T) {
	informer := &withHandler{SharedIndexInformer: stillInformer()}
	config := Config{Role: "secondary", KeepWatchErrorHandler: true}
	before := New(informer, newHost(), config)
	if n := informer.set.Load(); n != 0 {
		t.Errorf("the handler was set %d times", n)
	}
	handle := WatchErrorsOf(informer)
	if before.Server() == handle.server {
		t.Error("the handle shares errors of which nobody hears")
	}
	if after := New(informer, newHost(), config); after.Server() != handle.server {
		t.Error("a source that comes later does not hear of what the handle hears of")
	}
}

// uncomparable is a store that cannot be compared.
type uncomparable struct {
	cache.Indexer
	_ func()
}

// withStore is an informer that wraps another one, and has the store that a function returns.
type withStore struct {
	*withHandler
	store func() cache.Indexer
}

func (w *withStore) GetIndexer() cache.Indexer { return w.store() }

// TestAnInformerWhoseStoreTellsNothingIsSharedAllTheSame: its watch error handler is set once, whoever comes later.
func TestAnInformerWhoseStoreTellsNothingIsSharedAllTheSame(t *testing.T) {
	inner := func() *withHandler { return &withHandler{SharedIndexInformer: stillInformer()} }
	type fresh struct{ cache.Indexer }
	for what, store := range map[string]func() cache.Indexer{
		"cannot be compared": func() cache.Indexer { return uncomparable{} },
		"is always another":  func() cache.Indexer { return &fresh{} },
		"is none":            func() cache.Indexer { return nil },
	} {
		informer, other := &withStore{inner(), store}, &withStore{inner(), store}
		one, another := WatchErrorsOf(informer), WatchErrorsOf(informer)
		if one != another || informer.set.Load() != 1 {
			t.Errorf("a store that %s: the second replaced the first one's watch error handler", what)
		}
		if WatchErrorsOf(other) == one {
			t.Errorf("a store that %s: it is shared with another informer", what)
		}
	}
}

// uncomparableInformer is an informer that cannot be compared.
type uncomparableInformer struct {
	*withStore
	_ func()
}

func TestAnInformerThatCannotBeComparedSharesNothing(t *testing.T) {
	store := func() cache.Indexer { return uncomparable{} }
	informer := uncomparableInformer{
		withStore: &withStore{&withHandler{SharedIndexInformer: stillInformer()}, store},
	}
	if one, another := WatchErrorsOf(informer), WatchErrorsOf(informer); one == another {
		t.Error("it is shared")
	}
}

// TestTheRegistryKeepsNothingAlive: informers go that nobody else has, and what is kept about them.
func TestTheRegistryKeepsNothingAlive(t *testing.T) {
	var gone atomic.Int64
	made := int64(0)
	informer := func(started bool) *withHandler {
		informer := &withHandler{SharedIndexInformer: stillInformer(), started: started}
		runtime.AddCleanup(informer, func(int) { gone.Add(1) }, 0)
		made++
		return informer
	}
	WatchErrorsOf(informer(false))
	WatchErrorsOf(informer(true))
	func() {
		s := New(informer(false), newHost(), Config{Role: "OwnsKube"})
		s.SetSink(&sink{})
		must(t, s.Start(t.Context()))
		s.Stop()
	}()
	collected(t, func() bool {
		informers.mu.Lock()
		defer informers.mu.Unlock()
		return gone.Load() == made && len(informers.byHash) == 0
	})
}

// TestWatchErrorsLiveAsLongAsTheInformerWhoseHandlerTheyAre: a controller that comes after another one, which is gone,
// hears of errors, though the informer runs by then.
func TestWatchErrorsLiveAsLongAsTheInformerWhoseHandlerTheyAre(t *testing.T) {
	informer := stillInformer()
	server := WatchErrorsOf(informer).server
	for range 3 {
		runtime.GC()
	}
	if got := WatchErrorsOf(informer).server; got != server {
		t.Errorf("server %d, want %d", got, server)
	}
	runtime.KeepAlive(informer)
}

// TestWatchErrorsThatAreGoneAreMadeAnew, where the informer ran when it was first seen and so does not hold them.
func TestWatchErrorsThatAreGoneAreMadeAnew(t *testing.T) {
	informer := &withHandler{SharedIndexInformer: stillInformer(), started: true}
	hash, _ := informers.hash(informer)
	server := WatchErrorsOf(informer).server
	collected(t, func() bool {
		informers.mu.Lock()
		defer informers.mu.Unlock()
		return len(informers.byHash[hash]) == 0
	})
	if again := WatchErrorsOf(informer); again.server == server || again != WatchErrorsOf(informer) {
		t.Errorf("server %d again, or not shared", again.server)
	}
}

// collected collects garbage until the condition holds.
func collected(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("something is kept alive")
		}
		runtime.GC()
	}
}

func TestTheFirstWhoCanProbeStays(t *testing.T) {
	errors := WatchErrorsOf(stillInformer())
	errors.ProbeWith(answers(func(context.Context) error { return errDone }))
	errors.ProbeWith(answers(func(context.Context) error { return nil }))
	_, err := errors.prober().Probe(t.Context(), "", "")
	says(t, err, "done")
}

func TestAWatchErrorHandlerThatPanicsEndsNothing(t *testing.T) {
	errors := WatchErrorsOf(stillInformer())
	called := 0
	errors.listen(listener{chain: func(context.Context, *cache.Reflector, error) { panic("tick tack") }})
	errors.listen(listener{chain: func(context.Context, *cache.Reflector, error) { called++ }})
	errors.handle(t.Context(), nil, errDone)
	if called != 1 {
		t.Errorf("the next handler was called %d times, want once", called)
	}
}

// TestAListenerMayUseWhatItListensTo, as a controller's callback does that writes with a handle over the same informer;
// and a comparison may go on meanwhile.
func TestAListenerMayUseWhatItListensTo(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer := &following{SharedIndexInformer: stillInformer()}
		errors := WatchErrorsOf(informer)
		errors.ProbeWith(answers(func(context.Context) error { return nil }))
		errors.report(errDone)
		use := func() {
			errors.NoteUnshown()
			errors.prober()
			errors.claims()
			_ = errors.view.err()
			errors.view.follow()
		}
		cancel := errors.listen(listener{
			failed: func(error) { use() }, suspect: use, viewed: func(bool) { use() },
			claim: func() owner.Claim { errors.prober(); return owner.Claim{} },
		})
		errors.report(errDone)
		errors.Suspect()
		errors.claims()
		errors.view.note(&outdated{wentBack: true, err: errDone})
		errors.view.end(errors.view.outdated)
		cancel()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("it waits for itself")
	}
}
