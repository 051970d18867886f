package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// hangingAPI is a client whose calls can be made to ignore their context, and whose Delete can be made to do nothing.
type hangingAPI struct {
	*cloudtest.Listed
	hang    atomic.Pointer[chan struct{}] // List returns when it is closed
	hanging atomic.Int64                  // Lists under way
	most    atomic.Int64                  // of them at once
	idle    atomic.Bool                   // Delete answers and does nothing
	deletes atomic.Int64
}

func (s *hangingAPI) List(ctx context.Context) ([]external.Resource, error) {
	if until := s.hang.Load(); until != nil {
		s.most.Store(max(s.most.Load(), s.hanging.Add(1)))
		<-*until
		s.hanging.Add(-1)
	}
	return s.Listed.List(ctx)
}

func (s *hangingAPI) Delete(ctx context.Context, id string) error {
	s.deletes.Add(1)
	if s.idle.Load() {
		return nil
	}
	return s.Listed.Delete(ctx, id)
}

// stubbornly runs a controller over a hangingAPI until it leads.
func stubbornly(t *testing.T, timeout time.Duration, f func(t *testing.T, w *world, api *hangingAPI, c *Controller[*site])) {
	natstest.Test(t, func(t *testing.T) {
		w, api := newWorld(t), &hangingAPI{Listed: cloudtest.NewListed()}
		config := external.Config{Interval: 5 * time.Second, Timeout: timeout}
		idle := ReconcilerFunc(func(context.Context, Request) (Result, error) { return Result{}, nil })
		c, err := New("sites", w.sites(), idle, OwnsExternal(external.Configure(api, config)))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		f(t, w, api, c)
	})
}

func thingDegraded(c *Controller[*site]) string {
	if err := c.Stats().Degraded["OwnsExternal Thing"]; err != nil {
		return err.Error()
	}
	return ""
}

// callsDegraded is what is wrong with the calls of the things, while their news comes.
func callsDegraded(c *Controller[*site]) string {
	if err := c.Stats().Degraded["calls of OwnsExternal Thing"]; err != nil {
		return err.Error()
	}
	return ""
}

// newsComes fails the test if something says that the news of a source is missing.
func newsComes(t *testing.T, c *Controller[*site], key string) {
	t.Helper()
	if e := c.Explain(key); len(e.Missing) > 0 || strings.Contains(e.Says, "is not known") {
		t.Errorf("%s: %s %+v", key, e.Says, e.Missing)
	}
}

func TestAListThatIgnoresItsContextIsToldAMomentAfterItsTimeoutAndNoSecondBegins(t *testing.T) {
	const timeout = 10 * time.Second
	stubbornly(t, timeout, func(t *testing.T, w *world, api *hangingAPI, c *Controller[*site]) {
		release := make(chan struct{})
		api.hang.Store(&release)
		natstest.Eventually(t, "a list hangs", func() bool { return api.hanging.Load() == 1 })
		time.Sleep(timeout)
		if got := thingDegraded(c); got != "" {
			t.Fatalf("degraded before the list has had a moment to return: %s", got)
		}
		time.Sleep(2 * time.Second)
		got := thingDegraded(c)
		for _, want := range []string{"Thing", "List", "ignores its context", "has not returned since"} {
			if !strings.Contains(got, want) {
				t.Errorf("degraded is %q, which does not say %q", got, want)
			}
		}
		time.Sleep(10 * time.Minute)
		if n := api.most.Load(); n != 1 {
			t.Errorf("%d lists at once", n)
		}
		if s := c.Stats().External["Thing"]; !s.Away {
			t.Errorf("keys that need the API do not wait: %+v", s)
		}
		api.hang.Store(nil)
		close(release)
		time.Sleep(time.Second)
		if got := thingDegraded(c); got != "" || c.Stats().External["Thing"].Away {
			t.Errorf("the list has returned, and it is still degraded: %s", got)
		}
	})
}

func TestAHungListThatReturnsAnErrorIsAnAPIThatIsAwayForThatReason(t *testing.T) {
	const timeout = 10 * time.Second
	stubbornly(t, timeout, func(t *testing.T, w *world, api *hangingAPI, c *Controller[*site]) {
		release := make(chan struct{})
		api.hang.Store(&release)
		natstest.Eventually(t, "it is degraded", func() bool { return strings.Contains(thingDegraded(c), "ignores") })
		failure := errors.New("the disk of the API is full")
		api.Fails.Store(&failure)
		api.hang.Store(nil)
		close(release)
		natstest.Eventually(t, "it is degraded for the new reason", func() bool {
			return strings.Contains(thingDegraded(c), failure.Error()) && !strings.Contains(thingDegraded(c), "ignores")
		})
	})
}

func TestARunThatEndsWhileAListHangsNamesTheAPI(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, api := newWorld(t), &hangingAPI{Listed: cloudtest.NewListed()}
		idle := ReconcilerFunc(func(context.Context, Request) (Result, error) { return Result{}, nil })
		config := external.Config{Interval: 5 * time.Second, Timeout: time.Second}
		c, err := New("sites", w.sites(), idle, OwnsExternal(external.Configure(api, config)))
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		release := make(chan struct{})
		defer close(release)
		api.hang.Store(&release)
		natstest.Eventually(t, "a list hangs", func() bool { return api.hanging.Load() == 1 })
		stop()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "List of Thing") {
			t.Errorf("Run returned %v, which does not name the call that hangs", err)
		}
	})
}

func TestADeleteThatAnswersSuccessAndDoesNothingIsTheAPIsFault(t *testing.T) {
	stubbornly(t, time.Second, func(t *testing.T, w *world, api *hangingAPI, c *Controller[*site]) {
		sites := w.sites()
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, sites.Create(t.Context(), newSite("calm", "")))
		api.Resources.Store(&[]external.Resource{{ID: "thing-1", OwnerKey: "home", Version: "1"}})
		natstest.Eventually(t, "the thing is known", func() bool { return c.Stats().External["Thing"].Resources == 1 })
		natstest.Eventually(t, "the site is reconciled", func() bool { return c.Stats().Reconciles > 1 })
		api.idle.Store(true)
		must(t, sites.Delete(t.Context(), "home"))
		time.Sleep(5 * time.Second)
		if got := callsDegraded(c); got != "" {
			t.Errorf("an API may delete after its answer, and after 5s it is degraded already: %s", got)
		}
		time.Sleep(30 * time.Second)
		got := callsDegraded(c)
		for _, want := range []string{"Delete", "thing-1", "answered success", "still shows it", "times"} {
			if !strings.Contains(got, want) {
				t.Errorf("degraded is %q, which does not say %q", got, want)
			}
		}
		newsComes(t, c, "calm")
		if got := thingDegraded(c); got != "" {
			t.Errorf("the lists come, and the source is degraded: %s", got)
		}
		time.Sleep(time.Minute) // the pauses between two looks of a teardown grow to half a minute
		record, err := sites.Record(t.Context(), "home")
		if err != nil || !strings.Contains(conditionOf(record).Message, "thing-1") {
			t.Errorf("the record of the teardown does not name what stays: %v, %v", record, err)
		}
		api.idle.Store(false)
		natstest.Eventually(t, "the teardown ends", func() bool { return c.Stats().TornDown == 1 })
		natstest.Eventually(t, "it is well again", func() bool { return callsDegraded(c) == "" })
	})
}

func TestAResourceThatWasNotDeletedIsNoFaultOnceItsPrimaryIsBack(t *testing.T) {
	stubbornly(t, time.Second, func(t *testing.T, w *world, api *hangingAPI, c *Controller[*site]) {
		sites := w.sites()
		must(t, sites.Create(t.Context(), newSite("home", "")))
		api.Resources.Store(&[]external.Resource{{ID: "thing-1", OwnerKey: "home", Version: "1"}})
		natstest.Eventually(t, "the thing is known", func() bool { return c.Stats().External["Thing"].Resources == 1 })
		natstest.Eventually(t, "the site is reconciled", func() bool { return c.Stats().Reconciles > 0 })
		api.idle.Store(true)
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is degraded", func() bool { return callsDegraded(c) != "" })
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is well again", func() bool { return callsDegraded(c) == "" })
	})
}

// hangingDriver is a driver whose Apply ignores its context.
type hangingDriver struct {
	*cloudtest.Driver
	release chan struct{}
}

func (d hangingDriver) Apply(
	ctx context.Context, request external.ApplyRequest[cloudtest.Spec, cloudtest.Disk],
) (external.Outcome, error) {
	<-d.release
	return d.Driver.Apply(context.WithoutCancel(ctx), request)
}

func TestAnApplyThatIgnoresItsContextIsToldByItsNameUntilItReturns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newCloudWorld(t, withInterval(notInATest), func(w *cloudWorld) ReconcilerFunc {
			return func(ctx context.Context, req Request) (Result, error) {
				_, err := external.Reconcile(ctx, hangingDriver{w.driver, release}, cloudtest.Spec{Size: 1}, quickly...)
				return Result{}, err
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		degraded := func() string {
			if err := w.c.Stats().Degraded["calls of OwnsExternal Disk"]; err != nil {
				return err.Error()
			}
			return ""
		}
		time.Sleep(quick.Timeout + 2*time.Second)
		if got := degraded(); !strings.Contains(got, "Apply of Disk has not returned since") {
			t.Errorf("degraded is %q", got)
		}
		newsComes(t, w.c, "home")
		close(release)
		natstest.Eventually(t, "it is well again", func() bool { return degraded() == "" && w.reconciled("home") })
	})
}
