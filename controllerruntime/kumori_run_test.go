package controllerruntime

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// cleaning overrides Clean.
type cleaning struct {
	*custom
	cleaned atomic.Int32
	clean   func()
}

func (k kumori) cleaning(sync func(key string) error) *cleaning {
	c := &cleaning{custom: k.custom(sync)}
	c.SetCustomController(c)
	return c
}

func (c *cleaning) Clean() {
	c.cleaned.Add(1)
	if c.clean != nil {
		c.clean()
	}
}

func TestKumoriRunWithoutCustomControllerSendsAnErrorAndReturns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		errs := make(chan error, 1)
		kumori{sites: w.sites()}.runtime().Run(1, nil, errs)
		if err := <-errs; !strings.Contains(err.Error(), "SetCustomController") {
			t.Errorf("error %q does not say SetCustomController", err)
		}
	})
}

func TestKumoriStopWaitsForCurrentItemsAndThenCleansOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		entered, release := make(chan string, 10), make(chan struct{})
		var inside, late atomic.Int32
		c := kumori{sites: sites}.cleaning(func(key string) error {
			inside.Add(1)
			defer inside.Add(-1)
			entered <- key
			<-release
			return nil
		})
		c.clean = func() { late.Add(inside.Load()) }
		r := runKumori(t, c) // with two workers
		for _, key := range []string{"a", "b", "c"} {
			must(t, sites.Create(t.Context(), newSite(key, "one")))
		}
		<-entered
		<-entered
		r.stop()
		natstest.Eventually(t, "the runtime is stopping", func() bool {
			select {
			case <-r.done:
				t.Fatal("Run returned while items were being synced")
			default:
			}
			return c.engine.Explainer().Explain("d").State == controller.StateStopped
		})
		if n := c.cleaned.Load(); n != 0 {
			t.Errorf("Clean was called %d times while workers were at it", n)
		}
		if grace := optionsOf(c.engine).GracePeriod; grace >= 0 {
			t.Errorf("the wait is limited to %v", grace)
		}
		close(release)
		r.halt()
		if cleaned, late := c.cleaned.Load(), late.Load(); cleaned != 1 || late != 0 {
			t.Errorf("Clean was called %d times, with %d items being synced; want once, after the last", cleaned, late)
		}
		if n := len(entered); n != 0 {
			t.Errorf("%d more items were begun after the stop", n)
		}
	})
}

func TestKumoriCleansOnceAlsoWhenRunFails(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := kumori{sites: w.sites(), kind: "Page"}.cleaning(nil)
		for range 2 {
			errs := make(chan error, 1)
			c.Run(1, nil, errs)
			<-errs
		}
		if n := c.cleaned.Load(); n != 1 {
			t.Errorf("Clean was called %d times, want once", n)
		}
	})
}

func TestKumoriPanicInCleanDoesNotEndTheProcess(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := kumori{sites: w.sites()}.cleaning(nil)
		c.clean = func() { panic("in Clean") }
		runKumori(t, c).halt()
		if n := c.cleaned.Load(); n != 1 {
			t.Errorf("Clean was called %d times, want once", n)
		}
	})
}

func TestKumoriRunsOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c := kumori{sites: sites}.cleaning(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is synced", func() bool { return c.seen.count("home") == 1 })
		errs := make(chan error, 1)
		c.Run(1, nil, errs)
		if err := <-errs; !strings.Contains(err.Error(), "Run was called before") {
			t.Errorf("error %q", err)
		}
		if n := c.cleaned.Load(); n != 0 {
			t.Errorf("Clean was called %d times while the first Run still runs", n)
		}
	})
}

func TestKumoriThreadinessMustBePositive(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		errs := make(chan error, 1)
		kumori{sites: w.sites()}.custom(nil).Run(0, nil, errs)
		if err := <-errs; !strings.Contains(err.Error(), "threadiness is 0") {
			t.Errorf("error %q", err)
		}
	})
}

func TestKumoriErrChNeverBlocksTheRuntime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		broken := kumori{sites: w.sites(), kind: "Page"}
		full := make(chan error, 1)
		full <- nil
		for name, errs := range map[string]chan error{"nil": nil, "full": full, "unread": make(chan error)} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				broken.custom(nil).Run(1, nil, errs)
			}()
			within(t, "Run returns, with an error channel that is "+name, done)
		}
	})
}

func TestKumoriErrorReachesAReaderWhoComesAtTheSameTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		broken := kumori{sites: w.sites(), kind: "Page"}
		for range 20 {
			errs := make(chan error) // no room: who sends without waiting for the reader loses it
			go broken.custom(nil).Run(1, nil, errs)
			if err := <-errs; err == nil {
				t.Fatal("no error")
			}
		}
	})
}

func TestKumoriErrChGetsWhatFailsLater(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := kumori{sites: w.sites()}.custom(nil)
		runKumori(t, first)
		natstest.Eventually(t, "the first leads", func() bool { return first.Stats().Leading })
		// The status bucket belongs to the first one, whose name is another.
		sites := w.sites()
		second := &custom{kumoriRuntime: NewControllerRuntime[*site, *page, *page, none, none, *theme, none, none, none](
			"others", "Site", nil, sites, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, 0)}
		second.SetCustomController(second)
		errs := make(chan error, 1)
		second.Run(1, nil, errs)
		if err := <-errs; !strings.Contains(err.Error(), `belongs to controller "sites"`) {
			t.Errorf("error %q", err)
		}
	})
}

func TestKumoriErrChIsForFatalErrorsOnly(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c := kumori{sites: sites}.custom(func(string) error { return errors.New("no") })
		r := runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "it fails and is retried", func() bool { return c.seen.count("home") >= 3 })
		r.halt() // fails the test if an error was sent
	})
}

func TestKumoriStoppedBeforeItRunsEndsWithoutError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := runKumori(t, kumori{sites: w.sites()}.custom(nil))
		r.halt()
	})
}
