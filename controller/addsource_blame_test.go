package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestWhatASourceWithForeignObjectsSaysGoesWithIt: the objects of another installation that it showed.
func TestWhatASourceWithForeignObjectsSaysGoesWithIt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		o := newOrphaned(t)
		var seen calls
		c, err := New("sites", o.sites, seen.reconciler(func(context.Context, Request) (Result, error) {
			return Result{}, nil
		}), WithLeaseTiming(longLease))
		must(t, err)
		o.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		const installation = "installation (bucket sites-status)"
		s := added(t, c, Owns(o.pages))
		natstest.Eventually(t, "they are told", func() bool { return c.Stats().Degraded[installation] != nil })
		must(t, s.Remove(t.Context()))
		isOnly(t, c)
	})
}

// TestARunThatEndsWhileAListOfASourceThatGoesHangsNamesTheAPI, and so does the removal that waits for it.
func TestARunThatEndsWhileAListOfASourceThatGoesHangsNamesTheAPI(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, api := newWorld(t), &hangingAPI{Listed: cloudtest.NewListed()}
		idle := ReconcilerFunc(func(context.Context, Request) (Result, error) { return Result{}, nil })
		c, err := New("sites", w.sites(), idle)
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		s := added(t, c, OwnsExternal(external.Configure(api, external.Config{
			Interval: 5 * time.Second, Timeout: time.Second,
		})))
		release := make(chan struct{})
		defer close(release)
		api.hang.Store(&release)
		natstest.Eventually(t, "a list hangs", func() bool { return api.hanging.Load() == 1 })
		soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.Remove(soon); err == nil || !strings.Contains(err.Error(), "List of Thing") {
			t.Errorf("Remove returned %v, which does not name the call that hangs", err)
		}
		stop()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "List of Thing") {
			t.Errorf("Run returned %v, which does not name the call that hangs", err)
		}
	})
}

// TestAnAPIIsNotBlamedForOneThatWasTakenAway by an error that does not say of which it is.
func TestAnAPIIsNotBlamedForOneThatWasTakenAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(context.Context, Request) (Result, error) {
			return Result{}, external.Unavailable(errors.New("502 of the one that is gone"))
		}), OwnsExternal(cloudtest.NewListed()), WithBackoff(time.Second, time.Second))
		must(t, err)
		w.run(c)
		cloud := cloudtest.New(t)
		driver := cloudtest.NewDriver(cloud.Server.URL)
		t.Cleanup(driver.HTTP.CloseIdleConnections)
		s := added(t, c, OwnsExternal(cloudtest.Client{Driver: driver}))
		must(t, s.Remove(ctx))
		must(t, sites.Create(ctx, newSite("home", "")))
		natstest.Eventually(t, "it is tried again", func() bool { return seen.count("home") > 3 })
		if s := c.Stats(); s.External["Thing"].Away || s.External["Thing"].Waiting > 0 || s.BreakerOpened > 0 {
			t.Errorf("the API that is left is blamed: %+v", s.External["Thing"])
		}
	})
}
