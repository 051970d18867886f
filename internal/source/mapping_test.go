package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// noticed is an Enqueuer that remembers what it was told.
type noticed struct {
	untracked
	mu   sync.Mutex
	keys map[string]operation.Operations
}

func (n *noticed) Notice(key string, ops operation.Operations, _ queue.Priority) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keys == nil {
		n.keys = map[string]operation.Operations{}
	}
	n.keys[key] = operation.Union(n.keys[key], ops)
	return true
}

// untracked has no key that loops.
type untracked struct{}

func (untracked) Trail(string) *loops.Trail { return nil }

func (untracked) Caused(string, *causes.Cause) {}

func (untracked) NotCaused(string, *causes.Cause) {}

func (n *noticed) of(key string) operation.Operations {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.keys[key]
}

// named is an object that concerns the primary of that title.
func named(title string) metav1.Object {
	return &metav1.ObjectMeta{Name: "page", Labels: map[string]string{"title": title}}
}

func title(obj metav1.Object) string { return obj.GetLabels()["title"] }

// TestAMapperThatKeepsFailingTakesBoundedMemory: an object that changes often is not remembered once for each change,
// but the primaries that it concerned first and last are not forgotten.
func TestAMapperThatKeepsFailingTakesBoundedMemory(t *testing.T) {
	var ill atomic.Bool
	var failures atomic.Int64
	ill.Store(true)
	due := &noticed{}
	m := NewMappings(due, time.Millisecond, 5*time.Millisecond, func() { failures.Add(1) }, func() {})
	quiet := klog.NewContext(t.Context(), logr.Discard())
	m.Start(quiet)
	s := &Events{Mappings: m, Source: nameless{}, Operation: operation.Tertiary,
		Keys: func(_ context.Context, obj metav1.Object) ([]string, error) {
			if ill.Load() {
				return nil, errors.New("unwell")
			}
			return []string{title(obj)}, nil
		}}
	const changes = 2000
	site := func(n int) string { return fmt.Sprint("site-", n) }
	last := named(site(0))
	s.Created(quiet, last, false)
	for n := range changes {
		next := named(site(n + 1))
		s.Updated(quiet, last, next)
		last = next
	}
	states := 0
	m.mu.Lock()
	for _, waits := range m.waiting {
		states += len(waits.objects)
	}
	m.mu.Unlock()
	if states > 2*mappingStatesKept {
		t.Errorf("%d states of one object are remembered, want at most %d", states, mappingStatesKept)
	}
	if failures.Load() == 0 {
		t.Error("no failure was counted")
	}
	ill.Store(false)
	for _, key := range []string{site(0), site(changes)} {
		deadline := time.Now().Add(30 * time.Second)
		for ; !due.of(key).Has(operation.Tertiary); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s, which was concerned first or last, is not due", key)
			}
		}
	}
	m.Stop()
}

type nameless struct{}

func (nameless) String() string { return "a source" }

// TestStatesThatWaitForAMapperStayInOrder: what fails while an older one is tried is the newer one all the same.
func TestStatesThatWaitForAMapperStayInOrder(t *testing.T) {
	m := NewMappings(&noticed{}, time.Hour, time.Hour, func() {}, func() {})
	m.Start(t.Context())
	defer m.Stop()
	s := &Events{}
	of := func(title string) *mapping { return &mapping{events: s, objects: []metav1.Object{named(title)}} }
	m.again(of("one"), errors.New("away"))
	m.again(of("two"), errors.New("away"))
	tried, _ := m.take(t.Context(), of("").id())
	m.again(of("three"), errors.New("away"))
	m.again(tried, errors.New("away"))
	m.again(of("four"), errors.New("away"))
	var order []string
	again, _ := m.take(t.Context(), of("").id())
	for _, obj := range again.objects {
		order = append(order, title(obj))
	}
	if want := []string{"one", "two", "three", "four"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
	if none, _ := m.take(t.Context(), of("").id()); none != nil {
		t.Error("what was taken is still there")
	}
}

// TestAMapperThatKeepsFailingIsLoggedOnceForAnObject: others write the objects, as often as they like.
func TestAMapperThatKeepsFailingIsLoggedOnceForAnObject(t *testing.T) {
	var lines atomic.Int64
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, _ string) { lines.Add(1) }, funcr.Options{}))
	var failures atomic.Int64
	var well atomic.Bool
	due := &noticed{}
	m := NewMappings(due, time.Millisecond, time.Millisecond, func() { failures.Add(1) }, func() {})
	m.Start(ctx)
	defer m.Stop()
	s := &Events{Mappings: m, Source: nameless{}, Operation: operation.Tertiary,
		Keys: func(context.Context, metav1.Object) ([]string, error) {
			if well.Load() {
				return []string{"home"}, nil
			}
			return nil, errors.New("unwell")
		}}
	for round := range int64(2) {
		failures.Store(0)
		due.forget()
		s.Created(ctx, named("home"), false)
		wait(t, "many failures", func() bool { return failures.Load() > 10 })
		if n := lines.Load(); n != round+1 {
			t.Errorf("%d lines in round %d, want one in each", n, round)
		}
		well.Store(true)
		wait(t, "it is mapped", func() bool { return due.of("home") != 0 && m.Waiting() == 0 })
		well.Store(false)
	}
}

// TestAMapperOfASourceThatIsAddedAgainIsLoggedAgain: what was logged of the one that is gone says nothing of it.
func TestAMapperOfASourceThatIsAddedAgainIsLoggedAgain(t *testing.T) {
	var lines, failures atomic.Int64
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, _ string) { lines.Add(1) }, funcr.Options{}))
	m := NewMappings(&noticed{}, time.Millisecond, time.Millisecond, func() { failures.Add(1) }, func() {})
	m.Start(ctx)
	defer m.Stop()
	for round := range int64(3) {
		s := &Events{Mappings: m, Source: &numbered{round}, Operation: operation.Tertiary,
			Keys: func(context.Context, metav1.Object) ([]string, error) { return nil, errors.New("unwell") }}
		failures.Store(0)
		s.Created(ctx, named("home"), false)
		wait(t, "many failures", func() bool { return failures.Load() > 10 })
		m.Forget(s.Source)
		if n := lines.Load(); n != round+1 {
			t.Errorf("%d lines in round %d, want one in each", n, round)
		}
	}
}

// numbered is a source of the same name as others.
type numbered struct{ number int64 }

func (*numbered) String() string { return "a source" }

func (n *noticed) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keys = nil
}

func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// TestObjectsThatWaitForAMapperAreBounded: somebody makes and deletes one after the other while the mapper fails. What
// was dropped is made up for when it works again.
func TestObjectsThatWaitForAMapperAreBounded(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	all := make(chan struct{}, 10)
	m := NewMappings(&noticed{}, time.Millisecond, 5*time.Millisecond, func() {}, func() { all <- struct{}{} })
	m.most = 3
	m.Start(t.Context())
	defer m.Stop()
	events := &Events{Source: nameless{}, Mappings: m, Keys: func(context.Context, metav1.Object) ([]string, error) {
		if broken.Load() {
			return nil, errors.New("away")
		}
		return nil, nil
	}}
	for i := range 10 {
		m.call(t.Context(), &mapping{events: events, objects: []metav1.Object{
			&metav1.ObjectMeta{Name: fmt.Sprint("page-", i)},
		}})
		if n := m.Waiting(); n > 3 {
			t.Fatalf("%d objects wait", n)
		}
	}
	if len(all) != 0 {
		t.Error("all primaries are due while the mapper fails")
	}
	broken.Store(false)
	<-all
}

// versioned is a source that tells by the resourceVersion whether an event is news.
type versioned struct{ nameless }

func (versioned) Cause(before, after metav1.Object) (c loops.Cause, news bool) {
	return c, before == nil || after == nil || before.GetResourceVersion() != after.GetResourceVersion()
}

// TestAnEventThatShowsAnObjectAsItWasIsAResync, where its source can tell.
func TestAnEventThatShowsAnObjectAsItWasIsAResync(t *testing.T) {
	at := func(version string) metav1.Object { return &metav1.ObjectMeta{Name: "page", ResourceVersion: version} }
	for _, test := range []struct {
		what          string
		source        fmt.Stringer
		before, after metav1.Object
		want          operation.Operation
	}{
		{"a change", versioned{}, at("1"), at("2"), operation.Tertiary},
		{"an informer's resync", versioned{}, at("1"), at("1"), operation.Resync},
		{"objects without versions", versioned{}, at(""), at(""), operation.Tertiary},
		{"a source that cannot tell", nameless{}, at("1"), at("1"), operation.Tertiary},
	} {
		due := &noticed{}
		s := &Events{Source: test.source, Operation: operation.Tertiary,
			Mappings: NewMappings(due, time.Hour, time.Hour, func() {}, func() {}),
			Keys:     func(context.Context, metav1.Object) ([]string, error) { return []string{"home"}, nil }}
		s.Updated(t.Context(), test.before, test.after)
		if ops := due.of("home"); ops != operation.Of(test.want) {
			t.Errorf("%s makes the key due for %v, want %v", test.what, ops, test.want)
		}
		s.Created(t.Context(), test.after, false)
		s.Deleted(t.Context(), test.after)
		if ops := due.of("home"); !ops.Has(operation.Tertiary) {
			t.Errorf("a creation and a delete make it due for %v", ops)
		}
	}
}
