package apisource

import (
	"cmp"
	"context"
	"errors"
	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/loops"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// controller stands for the controller of the sources, and for the status bucket.
type controller struct {
	t      testing.TB
	set    *Set
	source *Source // of the API
	api    *api

	mu       sync.Mutex
	noticed  []string
	resumed  []queue.Item
	retried  []queue.Item
	missing  []string
	events   []string
	opened   int
	standsBy bool // Notice remembers nothing
	values   map[string][]byte
}

var _ Host = (*controller)(nil)

func (*controller) Trail(string) *loops.Trail { return nil }

func (*controller) Caused(string, *causes.Cause) {}

func (*controller) NotCaused(string, *causes.Cause) {}

// api is a client of resources of kind Disk.
type api struct {
	mu        sync.Mutex
	resources []external.Resource
	err       error
	lists     int
}

func (*api) Kind() string { return "Disk" }

func (a *api) List(context.Context) ([]external.Resource, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lists++
	return slices.Clone(a.resources), a.err
}

func (a *api) Delete(_ context.Context, id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.resources = slices.DeleteFunc(a.resources, func(r external.Resource) bool { return r.ID == id })
	}
	return a.err
}

func (a *api) set(err error, resources ...external.Resource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err, a.resources = err, resources
}

// inBubble runs f with a controller whose source has listed once, in a bubble of testing/synctest.
func inBubble(t *testing.T, config external.Config, f func(t *testing.T, c *controller)) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, config)
		if err := c.source.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer c.source.Stop()
		synctest.Wait()
		f(t, c)
	})
}

func newController(t testing.TB, config external.Config) *controller {
	t.Helper()
	config.Interval = cmp.Or(config.Interval, time.Hour)
	c := &controller{t: t, api: &api{}, values: map[string][]byte{}}
	c.set = NewSet(Config{
		Host: c, Kind: "Site", Bucket: "sites-status", Records: c, MayExist: func(string) bool { return true },
		Changed: func(context.Context, source.Source) {}, Malformed: func() {}, BreakerOpened: func() { c.opened++ },
	})
	inner, config, err := Check(external.Configure(c.api, config))
	if err != nil {
		t.Fatal(err)
	}
	c.source = c.set.New("Owns", inner, config)
	c.source.Handlers = Handlers{
		Events: sink{c}, Pushed: func(string) {},
		Missing: func(owner string) { c.note(func() { c.missing = append(c.missing, owner) }) },
	}
	if err := c.set.Add(c.source); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *controller) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// tell takes what was noted in one of the lists of the controller.
func tell[T any](c *controller, noted *[]T) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := *noted
	*noted = nil
	return taken
}

func (c *controller) Notice(key string, _ operation.Operations, _ queue.Priority) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noticed = append(c.noticed, key)
	return !c.standsBy
}

func (c *controller) WellFormed(key string) bool { return key != "malformed/" }
func (c *controller) InstanceID() string         { return "here" }

func (c *controller) Resume(it queue.Item) { c.note(func() { c.resumed = append(c.resumed, it) }) }

func (c *controller) RetryAfter(it queue.Item, _ time.Duration) {
	c.note(func() { c.retried = append(c.retried, it) })
}

func (c *controller) GetReserved(_ context.Context, name string) ([]byte, uint64, error) {
	if value, ok := c.values[name]; ok {
		return value, 1, nil
	}
	return nil, 0, apierrors.NewNotFound(schema.GroupResource{}, name)
}

func (c *controller) PutReserved(_ context.Context, name string, value []byte, _ uint64) (uint64, error) {
	c.values[name] = value
	return 1, nil
}

func (c *controller) DeleteReserved(_ context.Context, name string, _ uint64) error {
	delete(c.values, name)
	return nil
}

// sink notes the events of a source.
type sink struct{ c *controller }

func (s sink) Created(_ context.Context, obj metav1.Object, _ bool) { s.event("created", obj) }
func (s sink) Updated(_ context.Context, _, obj metav1.Object)      { s.event("updated", obj) }
func (s sink) Deleted(_ context.Context, obj any)                   { s.event("deleted", obj.(metav1.Object)) }

func (s sink) event(what string, obj metav1.Object) {
	s.c.note(func() { s.c.events = append(s.c.events, what+" "+obj.GetName()) })
}

var errAway = external.UnavailableOf("Disk", errors.New("as the test wishes"))

func disk(id, owner, version string) external.Resource {
	return external.Resource{ID: id, OwnerKey: owner, Version: version}
}
