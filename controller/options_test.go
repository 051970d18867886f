package controller

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// noReconciler is for controllers that never run.
var noReconciler = ReconcilerFunc(func(context.Context, Request) (Result, error) { return Result{}, nil })

// noPages maps to nothing.
func noPages(context.Context, *page) ([]string, error) { return nil, nil }

func noObjects(context.Context, metav1.Object) ([]string, error) { return nil, nil }

// disks is an external client that is never called.
type disks struct{}

func (*disks) Kind() string                                      { return "Disk" }
func (*disks) List(context.Context) ([]external.Resource, error) { return nil, nil }
func (*disks) Delete(context.Context, string) error              { return nil }

// refused checks that New failed with an error that holds all the words.
func refused(t *testing.T, c *Controller[*site], err error, words ...string) {
	t.Helper()
	if err == nil || c != nil {
		t.Fatalf("New returned %v, %v; want an error", c, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}

// timing is the options of a lease with the three times.
func timing(duration, deadline, retry time.Duration) []Option {
	return []Option{WithLeaseTiming(LeaseTiming{duration, deadline, retry})}
}

func TestNewRefusesWhatCannotBeHonouredAndSaysWhatToDo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		pods := cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
		deleter := DeleterFunc(func(context.Context, metav1.Object) error { return nil })
		var noClient *entity.Client[*page]
		var noDisks *disks
		var noRecorder *record.FakeRecorder
		var noPredicate *PredicateFuncs
		tests := []struct {
			name  string
			opts  []Option
			words []string
		}{
			{"no workers", []Option{WithWorkers(0)}, []string{"WithWorkers(0)", "at least one"}},
			{"fewer than no workers", []Option{WithWorkers(-1)}, []string{"WithWorkers(-1)", "at least one"}},
			{"negative resync", []Option{WithResyncInterval(-1)},
				[]string{"WithResyncInterval(-1ns)", "must not be negative"}},
			{"negative timeout", []Option{WithReconcileTimeout(-time.Second)},
				[]string{"WithReconcileTimeout(-1s)", "must not be negative"}},
			{"no time to sync", []Option{WithCacheSyncTimeout(0)},
				[]string{"WithCacheSyncTimeout(0s)", "must be positive"}},
			{"backoff of nothing", []Option{WithBackoff(0, time.Second)},
				[]string{"WithBackoff(0s, 1s)", "0 < min <= max"}},
			{"backoff upside down", []Option{WithBackoff(2*time.Second, time.Second)},
				[]string{"WithBackoff(2s, 1s)", "min <= max"}},
			{"negative debounce", []Option{WithDebounce(-1, time.Second)}, []string{"WithDebounce(-1ns, 1s)", "0 < quiet"}},
			{"debounce without quiet", []Option{WithDebounce(0, time.Second)},
				[]string{"WithDebounce(0s, 1s)", "0 < quiet"}},
			{"debounce upside down", []Option{WithDebounce(2*time.Second, time.Second)},
				[]string{"WithDebounce(2s, 1s)", "quiet <= max"}},
			{"trigger that never comes", []Option{WithReconcileAllOn(nil)},
				[]string{"WithReconcileAllOn(nil)", "never triggers"}},
			{"no result callback", []Option{WithOnResult(nil)}, []string{"WithOnResult(nil)", "leave the option away"}},
			{"no error policy", []Option{WithErrorPolicy(nil)}, []string{"WithErrorPolicy(nil)", "leave the option away"}},
			{"no brake callback", []Option{WithOnBrake(nil)}, []string{"WithOnBrake(nil)", "leave the option away"}},
			{"no source callback", []Option{WithOnSourceError(nil)},
				[]string{"WithOnSourceError(nil)", "leave the option away"}},
			{"no recorder", []Option{WithEventRecorder(noRecorder)},
				[]string{"WithEventRecorder(nil)", "leave the option away"}},
			{"no log constructor", []Option{WithLogConstructor(nil)},
				[]string{"WithLogConstructor(nil)", "leave the option away"}},
			{"brake without window", []Option{WithBrakeWindow(0)}, []string{"WithBrakeWindow(0s)", "must be positive"}},
			{"lease of half seconds", timing(1500*time.Millisecond, time.Second, 200*time.Millisecond),
				[]string{"WithLeaseTiming", "whole seconds"}},
			{"lease renewed too late", timing(time.Second, time.Second, 200*time.Millisecond),
				[]string{"WithLeaseTiming", "RenewDeadline < Duration"}},
			{"lease without retries", timing(time.Second, 700*time.Millisecond, 0),
				[]string{"WithLeaseTiming", "0 < RetryPeriod"}},
			{"lease retried too seldom", timing(time.Second, 700*time.Millisecond, 650*time.Millisecond),
				[]string{"1.2*RetryPeriod < RenewDeadline"}},
			{"nil option", []Option{WithWorkers(1), nil}, []string{"option 2 is nil", "leave it away"}},
			{"nil source option", []Option{Owns(pages, nil)}, []string{"Owns(Page)", "source option 1 is nil"}},
			{"Owns nil", []Option{Owns[*page](nil)}, []string{"Owns(nil)", "a client is needed"}},
			{"Owns nil pointer", []Option{Owns(noClient)}, []string{"Owns(nil)", "a client is needed"}},
			{"Watches nil", []Option{Watches(nil, noPages)}, []string{"Watches", "a client and a function"}},
			{"Watches without mapper", []Option{Watches(pages, nil)}, []string{"Watches", "a client and a function"}},
			{"OwnsKube nil", []Option{OwnsKube(nil)}, []string{"OwnsKube(nil)", "an informer is needed"}},
			{"WatchesKube nil", []Option{WatchesKube(nil, noObjects)},
				[]string{"WatchesKube", "an informer and a function"}},
			{"WatchesKube without mapper", []Option{WatchesKube(pods, nil)},
				[]string{"WatchesKube", "an informer and a function"}},
			{"nil predicate", []Option{WithPrimary(WithPredicate(nil))}, []string{"WithPrimary", "WithPredicate(nil)"}},
			{"nil pointer predicate", []Option{Owns(pages, WithPredicate(noPredicate))},
				[]string{"Owns(Page)", "WithPredicate(nil)"}},
			{"nil deleter", []Option{OwnsKube(pods, WithDeleter(nil))}, []string{"OwnsKube", "WithDeleter(nil)"}},
			{"deleter of primaries", []Option{WithPrimary(WithDeleter(deleter))},
				[]string{"WithPrimary", "never deletes primaries"}},
			{"deleter of entities", []Option{Owns(pages, WithDeleter(deleter))},
				[]string{"Owns(Page)", "deleted through their client"}},
			{"deleter of watched entities", []Option{Watches(pages, noPages, WithDeleter(deleter))},
				[]string{"Watches(Page)", "WithDeleter"}},
			{"deleter of watched objects", []Option{WatchesKube(pods, noObjects, WithDeleter(deleter))},
				[]string{"WatchesKube", "never deleted"}},
			{"external nil", []Option{OwnsExternal(nil)}, []string{"OwnsExternal(nil)", "client is needed"}},
			{"external nil pointer", []Option{OwnsExternal(noDisks)}, []string{"OwnsExternal(nil)", "client is needed"}},
			{"external nil configured", []Option{OwnsExternal(external.Configure(nil, external.Config{}))},
				[]string{"OwnsExternal(nil)", "client is needed"}},
			{"external twice", []Option{OwnsExternal(&disks{}), OwnsExternal(&disks{})},
				[]string{"OwnsExternal Disk", "a kind of its own"}},
			{"external negative interval", []Option{
				OwnsExternal(external.Configure(&disks{}, external.Config{Interval: -1}))},
				[]string{"OwnsExternal(Disk)", "Interval", "must not be negative"}},
			{"external burst without rate", []Option{OwnsExternal(external.Configure(&disks{}, external.Config{Burst: 1}))},
				[]string{"OwnsExternal(Disk)", "Burst 1", "positive rate"}},
			{"external backoff upside down", []Option{
				OwnsExternal(external.Configure(&disks{}, external.Config{BackoffMin: 2, BackoffMax: 1}))},
				[]string{"OwnsExternal(Disk)", "BackoffMax"}},
			{"dry run of no sweep", []Option{WithoutTeardown(), WithSweepDryRun()},
				[]string{"WithSweepDryRun", "WithoutTeardown()", "take one of them away"}},
			{"window of no brake", []Option{WithBrakeWindow(time.Second), WithoutTeardown()},
				[]string{"WithBrakeWindow", "WithoutTeardown()"}},
			{"callback of no brake", []Option{WithOnBrake(func(BrakeState) {}), WithoutTeardown()},
				[]string{"WithOnBrake", "WithoutTeardown()"}},
			{"empty instance", []Option{WithInstance("")}, []string{"WithInstance", "must not be empty"}},
			{"instance of no records", []Option{WithInstance("here"), WithoutTeardown()},
				[]string{"WithInstance", "WithoutTeardown()"}},
			{"timing of no lease", append(timing(time.Second, 700*time.Millisecond, 200*time.Millisecond),
				WithoutTeardown()),
				[]string{"WithLeaseTiming", "WithoutTeardown()"}},
			{"deleter of no cascade", []Option{OwnsKube(pods, WithDeleter(deleter)), WithoutTeardown()},
				[]string{"WithDeleter", "WithoutTeardown()"}},
			{"all that is wrong at once", []Option{WithWorkers(0), WithCacheSyncTimeout(-1), nil},
				[]string{"WithWorkers", "WithCacheSyncTimeout", "option 3"}},
		}
		for _, test := range tests {
			c, err := New("sites", sites, noReconciler, test.opts...)
			if err == nil {
				t.Errorf("%s: no error", test.name)
				continue
			}
			refused(t, c, err, append(test.words, `New("sites")`)...)
		}
	})
}

func TestNewRefusesAControllerWithoutNameClientOrReconciler(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var noClient *entity.Client[*site]
		var noFunc ReconcilerFunc

		c, err := New("", sites, noReconciler)
		refused(t, c, err, "needs a name")
		c, err = New[*site]("sites", nil, noReconciler)
		refused(t, c, err, `New("sites")`, "client is nil")
		c, err = New("sites", noClient, noReconciler)
		refused(t, c, err, `New("sites")`, "client is nil")
		c, err = New("sites", sites, nil)
		refused(t, c, err, `New("sites")`, "reconciler is nil")
		c, err = New("sites", sites, noFunc)
		refused(t, c, err, `New("sites")`, "reconciler is nil")
	})
}

func TestPrimaryWithoutStatusBucketNeedsWithoutTeardown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", func(cfg *entity.Config) { cfg.StatusBucket = entity.NoStatusBucket })
		c, err := New("sites", sites, noReconciler)
		refused(t, c, err, "no status bucket", "WithoutTeardown()", "StatusBucket")

		var seen calls
		c, err = New("sites", sites, seen.reconciler(nil), WithoutTeardown())
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "a reconcile without a status bucket", func() bool {
			return seen.with("home", OperationPut) == 1
		})
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "a delete that is seen is reconciled", func() bool {
			return seen.with("home", OperationDelete) == 1
		})
		if err := c.ReleaseBrake(t.Context()); err == nil || !strings.Contains(err.Error(), "WithoutTeardown") {
			t.Errorf("ReleaseBrake where there is no brake: %v", err)
		}
	})
}

func TestEveryLimitOfAnOptionIsAccepted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pods := cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
		pages := w.pages()
		_, err := New("sites", w.sites(), noReconciler,
			WithWorkers(1), WithResyncInterval(0), WithReconcileTimeout(0), WithGracePeriod(-1), WithCacheSyncTimeout(1),
			WithBackoff(1, 1), WithBackoff(1, math.MaxInt64), WithDebounce(0, 0),
			WithDebounce(time.Second, time.Second),
			WithReconcileAllOn(make(chan struct{})), WithReconcileAllOn(make(chan struct{})),
			WithOnResult(func(ReconcileResult) {}), WithOnBrake(func(BrakeState) {}),
			WithErrorPolicy(func(string, error, int) Result { return Result{} }), WithOnSourceError(func(string, error) {}),
			WithEventRecorder(record.NewFakeRecorder(1)),
			WithLogConstructor(func(base logr.Logger, _ Request) logr.Logger { return base }),
			WithBrakeWindow(1), WithSweepDryRun(),
			WithLeaseTiming(LeaseTiming{time.Second, 700 * time.Millisecond, 200 * time.Millisecond}),
			WithPrimary(), WithPrimary(WithPredicate(PredicateFuncs{})), Owns(pages), Owns(w.client("Draft", "drafts")),
			Watches(pages, noPages),
			OwnsKube(pods), WatchesKube(pods, noObjects),
			OwnsExternal(external.Configure(&disks{},
				external.Config{Interval: 1, Timeout: 1, Rate: 0.1, BackoffMin: 1, BackoffMax: 1, Settle: 1})))
		must(t, err)
	})
}

func TestReconcilerRunsOneKeyAtATimeByDefault(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c, err := New("sites", w.sites(), noReconciler)
		must(t, err)
		if n := c.Stats().Workers; n != 1 {
			t.Errorf("%d workers by default, want 1", n)
		}
	})
}
