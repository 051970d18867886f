package natsinformer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/tools/cache"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// What takes a SharedIndexInformer may set a handler for errors of its watch.
func TestAWatchErrorHandlerIsToldWhyNothingWorks(t *testing.T) {
	for name, set := range map[string]func(Informer, func(*cache.Reflector, error)) error{
		"without a context": func(i Informer, call func(*cache.Reflector, error)) error {
			return i.SetWatchErrorHandler(call)
		},
		"with a context": func(i Informer, call func(*cache.Reflector, error)) error {
			return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) {
				call(r, err)
			})
		},
	} {
		subtest(t, name, func(t *testing.T) {
			server := natstest.Start(t)
			js := connect(t, server.URL())
			var o, handled told
			r := startWith(t, js, Config{Bucket: "b", OnError: o.add}, func(i Informer) {
				must(t, set(i, func(*cache.Reflector, error) { t.Error("the first of two handlers was called") }))
				must(t, set(i, func(r *cache.Reflector, err error) {
					if r == nil {
						t.Error("there is no reflector")
					}
					handled.add(err)
				}))
			})
			handled.of(t, `bucket "b"`, "create it")
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			r.synced(t).follows(t, kv, "k", 1, prompt)
			if a, b := len(handled.all()), len(o.all()); a != 1 || b != 2 { // and that it works
				t.Errorf("the handler was called %d times, OnError %d times", a, b)
			}
			if err := set(r, nil); err == nil || !strings.Contains(err.Error(), "before Run") {
				t.Errorf("set after the start: %v", err)
			}
		})
	}
}

// It needs the reflector that a handler is given.
func TestTheWatchErrorHandlerOfClientGoMayBeSet(t *testing.T) {
	i := &informer{src: &source{health: &health{bucket: "b"}}}
	called := false
	must(t, i.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		called = true
	}))
	i.src.health.failed(t.Context(), errSilent)
	if !called {
		t.Error("it was not called")
	}
}

// A handler that wants a resync gets none, as with client-go's informers that do none.
func TestAHandlerWithAResyncPeriodIsToldOfChangesAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		before, after := &seen{}, &seen{}
		r := startWith(t, js, Config{Bucket: "b"}, func(i Informer) {
			_, err := i.AddEventHandlerWithResyncPeriod(before, time.Second)
			must(t, err)
		})
		r.synced(t)
		_, err := r.AddEventHandlerWithResyncPeriod(after, time.Second)
		must(t, err)
		r.follows(t, kv, "k", 2, prompt)
		time.Sleep(time.Hour)
		r.follows(t, kv, "k", 3, prompt)
		for _, s := range []*seen{before, after} {
			within(t, prompt, "the change is told", func() bool { return s.last("k").n == 3 })
			if events := s.of("k"); len(events) > 3 {
				t.Errorf("told of %+v", events)
			}
		}
	})
}
