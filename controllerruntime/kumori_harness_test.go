package controllerruntime

import (
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

type none = *entity.None

// kumoriRuntime has two secondaries and one tertiary in NATS; its other slots are empty.
type kumoriRuntime = ControllerRuntime[*site, *page, *page, none, none, *theme, none, none, none]

// kumori are the arguments of a runtime. The zero value of each but the client is allowed.
type kumori struct {
	kind        string // default the client's
	clientset   kubernetes.Interface
	sites       entity.IEntityClient[*site]
	secondaries []cache.SharedIndexInformer
	tertiaries  []cache.SharedIndexInformer
	pages       entity.IEntityClient[*page]
	routes      entity.IEntityClient[*page]
	themes      entity.IEntityClient[*theme]
	externals   []external.IExternalClient
	resync      time.Duration
}

func (k kumori) runtime() *kumoriRuntime {
	if k.kind == "" {
		k.kind = k.sites.Kind()
	}
	return NewControllerRuntime[*site, *page, *page, none, none, *theme, none, none, none](
		"sites", k.kind, k.clientset, k.sites, k.secondaries, k.tertiaries,
		k.pages, k.routes, nil, nil, k.themes, nil, nil, nil, k.externals, k.resync)
}

// custom is a custom controller that embeds the runtime and writes SyncHandler only. It records its calls.
type custom struct {
	*kumoriRuntime
	seen calls
	sync func(key string) error // nil does nothing
}

func (k kumori) custom(sync func(key string) error) *custom {
	c := &custom{kumoriRuntime: k.runtime(), sync: sync}
	c.SetCustomController(c)
	return c
}

func (c *custom) SyncHandler(key string) error {
	c.seen.add(controller.Request{Key: key, Operations: c.Operations(key)})
	if c.sync == nil {
		return nil
	}
	return c.sync(key)
}

// heard records objects that a handler was given.
type heard struct {
	mu   sync.Mutex
	objs []any
}

func (h *heard) add(obj any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.objs = append(h.objs, obj)
}

func (h *heard) any(holds func(obj any) bool) func() bool {
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, obj := range h.objs {
			if holds(obj) {
				return true
			}
		}
		return false
	}
}

// listening overrides HandleSecondary and implements HandleTertiary. Its HandleSecondary enqueues nothing by itself.
type listening struct {
	*custom
	secondaries, tertiaries heard
	then                    func(obj any) // nil does nothing
}

func (k kumori) listening(then func(obj any)) *listening {
	l := &listening{custom: k.custom(nil), then: then}
	l.SetCustomController(l)
	return l
}

func (l *listening) HandleSecondary(obj any) {
	l.secondaries.add(obj)
	if l.then != nil {
		l.then(obj)
	}
}

func (l *listening) HandleTertiary(obj any) { l.tertiaries.add(obj) }

// kumoriRun is a runtime that runs, and is stopped at the end of the test.
type kumoriRun struct {
	t    *testing.T
	stop func()
	done chan struct{}
	errs chan error
}

func runKumori(t *testing.T, c IController) *kumoriRun {
	t.Helper()
	stop := make(chan struct{})
	r := &kumoriRun{t: t, stop: sync.OnceFunc(func() { close(stop) }), done: make(chan struct{}),
		errs: make(chan error, 1)}
	go func() {
		defer close(r.done)
		c.Run(2, stop, r.errs)
	}()
	t.Cleanup(r.halt)
	return r
}

// halt stops the runtime and fails the test if it had a fatal error.
func (r *kumoriRun) halt() {
	r.t.Helper()
	r.stop()
	within(r.t, "Run returns after the stop", r.done)
	select {
	case err := <-r.errs:
		r.t.Errorf("fatal error: %v", err)
	default:
	}
}
