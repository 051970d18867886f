package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
)

// order notes what happens.
type order struct {
	mu     sync.Mutex
	events []string
}

func (o *order) note(event string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, event)
}

func (o *order) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

func TestCachesAreFilledBeforeTheRestStarts(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		m := open(t, Config{URL: s.URL()})
		c, bare := client(t, m, sites()), client(t, m, entity.Config{Kind: "Page", Bucket: "pages"}, WithoutCache())
		for i := range 300 {
			must(t, c.Create(t.Context(), newSite(fmt.Sprint("s", i), "x")))
		}
		seen := make(chan string, 1)
		must(t, m.Add(Func("looks", func(context.Context) error {
			seen <- fmt.Sprint(c.Informer().HasSynced(), c.Records().Informer().HasSynced(), len(c.Informer().GetStore().List()),
				bare.Informer().HasSynced())
			return nil
		})))
		must(t, start(t, m).wait())
		if saw := <-seen; saw != "true true 300 false" {
			t.Error(saw)
		}
	})
}

// slowInformers do not sync before they may.
type slowInformers struct{ synced chan struct{} }

func (slowInformers) Start(<-chan struct{}) {}
func (slowInformers) Shutdown()             {}
func (s slowInformers) WaitForCacheSync(stopCh <-chan struct{}) map[reflect.Type]bool {
	select {
	case <-s.synced:
	case <-stopCh:
	}
	return nil
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	response, err := http.Get(url)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}

// TestProbesAreAnsweredWhileCachesFill: a process that fills its caches for a minute lives, and is not ready.
func TestProbesAreAnsweredWhileCachesFill(t *testing.T) {
	isolated(t)
	m := open(t, Config{URL: startServer(t).URL()})
	sites, pages := client(t, m, sites()), client(t, m, entity.Config{Kind: "Page", Bucket: "pages"})
	must(t, m.JetStream().DeleteStream(t.Context(), "KV_pages"))
	c, err := controller.New("sites", sites, controller.ReconcilerFunc(
		func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }),
		controller.Watches(pages, func(context.Context, *site) ([]string, error) { return nil, nil }))
	must(t, err)
	slow := slowInformers{make(chan struct{})}
	must(t, m.AddInformers(slow))
	probe := probes.New()
	probe.Add("sites", c)
	probe.AddCheck("caches of the manager", m.Synced)
	listening := make(chan string, 1)
	server := &probes.Server{Address: ":0", Handlers: probe.Handlers(), Listening: func(_ string, address net.Addr) {
		listening <- address.String()
	}}
	must(t, m.Add(c, server))
	r := start(t, m)
	var at string
	select {
	case at = <-listening:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing listens while the caches fill")
	}
	if status, body := get(t, "http://"+at+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}
	natstest.Eventually(t, "/readyz says what is missing", func() bool {
		status, body := get(t, "http://"+at+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "caches of the manager") &&
			strings.Contains(body, "pages") && strings.Contains(body, "Kubernetes informers") &&
			!strings.Contains(body, "sites-status")
	})
	close(slow.synced)
	_, err = m.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "pages"})
	must(t, err)
	natstest.Eventually(t, "it is ready", func() bool {
		status, _ := get(t, "http://"+at+"/readyz")
		return status == http.StatusOK
	})
	if !c.Stats().Leading {
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
	}
	http.DefaultClient.CloseIdleConnections()
	must(t, r.stop())
}

// TestWhatStartsFirstIsStoppedWithTheRest, and its failure stops the filling of caches.
func TestWhatStartsFirstIsStoppedWithTheRest(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		slow := slowInformers{make(chan struct{})}
		must(t, m.AddInformers(slow))
		rest, started := blocking("rest")
		first := &firstOf{started: make(chan struct{}), end: make(chan error, 1)}
		must(t, m.Add(rest, first))
		r := start(t, m)
		first.wait(t)
		first.end <- errBroken
		mustSay(t, r.wait(), "*manager.firstOf", "broken")
		select {
		case <-started:
			t.Error("the rest was started")
		default:
		}

		m = open(t, Config{URL: startServer(t).URL()})
		first = &firstOf{started: make(chan struct{}), end: make(chan error, 1)}
		first.end <- nil // it is done before the caches are filled, and the others go on
		rest, started = blocking("rest")
		must(t, m.AddInformers(slow))
		must(t, m.Add(first, rest))
		r = start(t, m)
		first.wait(t)
		close(slow.synced)
		<-started
		must(t, r.stop())
	})
}

type firstOf struct {
	started chan struct{}
	end     chan error
}

func (f *firstOf) StartsFirst() bool { return true }
func (f *firstOf) wait(t *testing.T) {
	t.Helper()
	select {
	case <-f.started:
	case <-time.After(20 * time.Second):
		t.Fatal("it was not started while the caches fill")
	}
}
func (f *firstOf) Run(ctx context.Context) error {
	close(f.started)
	select {
	case err := <-f.end:
		return err
	case <-ctx.Done():
		return nil
	}
}

func TestWhatNobodyCanFillInTimeIsNamed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL(), CacheSyncTimeout: 500 * time.Millisecond})
		client(t, m, sites())
		must(t, m.JetStream().DeleteStream(t.Context(), "KV_sites"))
		runs, started := blocking("rest")
		must(t, m.Add(runs))
		err := start(t, m).wait()
		mustSay(t, err, "cache of Site", `"sites"`, "Config.CacheSyncTimeout")
		select {
		case <-started:
			t.Error("the rest was started")
		default:
		}
	})
}

func TestAGracefulStopIsNil(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m, err := newManager(silent(t.Context()), Config{URL: startServer(t).URL()})
		must(t, err)
		c := client(t, m, sites())
		var reconciled sync.Once
		done := make(chan struct{})
		ctl, err := controller.New("sites", c, controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) {
				reconciled.Do(func() { close(done) })
				return controller.Result{}, nil
			}))
		must(t, err)
		other, started := blocking("other")
		must(t, m.Add(ctl, other))
		r := start(t, m)
		must(t, c.Create(t.Context(), newSite("home", "Home")))
		<-started
		<-done
		must(t, r.stop())
		if !m.Conn().IsClosed() {
			t.Error("the connection was not closed")
		}
		must(t, m.Close(context.Background())) // does nothing
	})
}

func TestTheFirstFailureStopsAllAndIsNamed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		one, started := blocking("one")
		fails := Func("fails", func(context.Context) error { <-started; return errBroken })
		late := Func("late", func(ctx context.Context) error { <-ctx.Done(); return errors.New("could not say goodbye") })
		must(t, m.Add(one, fails, late))
		err := start(t, m).wait()
		mustSay(t, err, "fails: broken", "late: could not say goodbye")
		if !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "manager: fails: broken") ||
			strings.Contains(err.Error(), "one") {
			t.Error(err)
		}
	})
}

// starting is a manager that is starting until somebody ends that: the cache of one can never be filled.
func starting(t *testing.T) (m *Manager, r *run, rest <-chan struct{}) {
	t.Helper()
	isolated(t)
	m = open(t, Config{URL: startServer(t).URL(), CacheSyncTimeout: time.Hour})
	client(t, m, sites())
	must(t, m.JetStream().DeleteStream(t.Context(), "KV_sites"))
	one, rest := blocking("rest")
	must(t, m.Add(one))
	r = start(t, m)
	natstest.Eventually(t, "starting", func() bool { return m.isRunning() })
	return m, r, rest
}

// TestAFailureWhileOthersAreStartingStopsThem: the connection is closed.
func TestAFailureWhileOthersAreStartingStopsThem(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r, _ := starting(t)
		m.Conn().Close()
		mustSay(t, r.wait(), "connection to NATS: it was closed")
	})
}

func TestAStopInTheMiddleOfAStartIsGraceful(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, r, started := starting(t)
		must(t, r.stop())
		select {
		case <-started:
			t.Error("the rest was started")
		default:
		}
	})
}

// TestAServerThatIsAwayAtTheStartMayComeBack: it goes between New and Run.
func TestAServerThatIsAwayAtTheStartMayComeBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		m := open(t, Config{URL: s.URL()})
		cfg := sites()
		cfg.Storage = 0 // file
		c := client(t, m, cfg)
		must(t, c.Create(t.Context(), newSite("home", "Home")))
		s.Stop()
		natstest.Eventually(t, "disconnected", func() bool { return !m.Conn().IsConnected() })
		rest, started := blocking("rest")
		must(t, m.Add(rest))
		r := start(t, m)
		natstest.Eventually(t, "starting", func() bool { return m.isRunning() })
		must(t, s.Start())
		<-started
		if _, err := c.Lister().Get("home"); err != nil {
			t.Error(err)
		}
		must(t, r.stop())
	})
}

func TestOneThatIsDoneLeavesTheOthersRunning(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		done := make(chan struct{})
		rest, started := blocking("rest")
		must(t, m.Add(Func("migration", func(context.Context) error { close(done); return nil }), rest))
		r := start(t, m)
		<-done
		<-started
		must(t, m.Conn().FlushTimeout(10*time.Second))
		select {
		case <-r.done:
			t.Fatal("Run has ended with the first that was done")
		default:
		}
		must(t, r.stop())
	})
}

func TestRunEndsWhenAllAreDone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		done := func(context.Context) error { return nil }
		must(t, m.Add(Func("one", done), Func("two", done)))
		must(t, start(t, m).wait())
	})
}

func TestAPanicStopsAllAndHasItsStack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		rest, started := blocking("rest")
		must(t, m.Add(rest, Func("careless", func(context.Context) error { <-started; panic("ouch") })))
		mustSay(t, start(t, m).wait(), "careless: panic: ouch", "run_test.go")
	})
}

func TestAGoroutineThatEndsItselfIsAFailure(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		must(t, m.Add(Func("ended", func(context.Context) error { runtime.Goexit(); return nil })))
		mustSay(t, start(t, m).wait(), "ended: it ended its goroutine")
	})
}

func TestWhatMayNotBeAdded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		mustSay(t, m.Run(t.Context()), "nothing to run", "Add")
		rest, started := blocking("rest")
		var none *controller.Controller[*site]
		mustSay(t, m.Add(rest, nil), "number 2 is nil")
		mustSay(t, m.Add(none), "number 1 is nil")
		mustSay(t, m.Add(Func("x", nil)), "number 1 is nil")
		must(t, m.Add(rest)) // nothing of a call that failed was added
		mustSay(t, m.Add(rest), `"rest" was added before`)
		mustSay(t, m.Add(Func("rest", rest.Run)), `two with the name "rest"`)
		mustSay(t, m.AddInformers(nil), "number 1 is nil")
		mustSay(t, m.AddInformers(noWait{}), "WaitForCacheSync")
		mustSay(t, m.OnStop("x", nil), "a function is needed")
		r := start(t, m)
		<-started
		mustSay(t, m.AddInformers(noWait{}), "before Run")
		mustSay(t, m.Run(t.Context()), "runs once")
		mustSay(t, m.Close(t.Context()), "end the context of Run")
		must(t, r.stop())
		mustSay(t, m.Run(t.Context()), "make a new one")
		mustSay(t, m.OnStop("x", func(context.Context) error { return nil }), "closed")
	})
}

type noWait struct{}

func (noWait) Start(<-chan struct{}) {}
func (noWait) Shutdown()             {}

func TestTheGracePeriodHoldsForTheWhole(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		const grace = 10 * time.Second
		m, err := newManager(silent(t.Context()),
			Config{URL: startServer(t).URL(), GracePeriod: grace, WaitForServer: time.Minute})
		must(t, err)
		c := client(t, m, sites())
		reconciling, cause := make(chan struct{}), make(chan error, 1)
		// Its own grace period of 30 s must not count.
		ctl, err := controller.New("sites", c, controller.ReconcilerFunc(
			func(ctx context.Context, _ controller.Request) (controller.Result, error) {
				close(reconciling)
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return controller.Result{}, controller.TerminalError(ctx.Err())
			}))
		must(t, err)
		release := make(chan struct{})
		deaf := Func("deaf", func(context.Context) error { <-release; return nil })
		defer close(release)
		flushed := make(chan time.Time, 1)
		must(t, m.OnStop("hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
		must(t, m.OnStop("traces", func(context.Context) error { flushed <- time.Now(); return nil }))
		must(t, m.Add(ctl, deaf))
		r := start(t, m)
		must(t, c.Create(t.Context(), newSite("home", "Home")))
		<-reconciling
		began := time.Now()
		err = r.stop()
		took := time.Since(began)
		mustSay(t, err, "left behind: deaf", "hangs: ")
		if strings.Contains(err.Error(), "sites") || strings.Contains(err.Error(), "traces") {
			t.Errorf("what returned is named: %v", err)
		}
		if took < grace*8/10 || took > 3*grace {
			t.Errorf("it took %v, and the grace period is %v", took, grace)
		}
		if err := <-cause; !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "grace period") {
			t.Error(err)
		}
		<-flushed
		if !m.Conn().IsClosed() {
			t.Error("what was left behind may still write")
		}
	})
}

// TestALeaseThatIsNotGivenBackTakesNoTimeFromTheHooks: a controller that was left behind still leads, so nobody waits
// until the lease of the process is free.
func TestALeaseThatIsNotGivenBackTakesNoTimeFromTheHooks(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m, err := newManager(silent(t.Context()), Config{
			URL: startServer(t).URL(), GracePeriod: 10 * time.Second, Lease: longLease(), WaitForServer: time.Minute,
		})
		must(t, err)
		c := client(t, m, sites())
		reconciling, release, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
		ctl, err := controller.New("sites", c, controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) {
				close(reconciling)
				<-release
				return controller.Result{}, nil
			}))
		must(t, err)
		must(t, m.Add(Func("sites", func(ctx context.Context) error {
			defer close(returned)
			return ctl.Run(ctx)
		})))
		defer func() { close(release); <-returned }()
		hook := make(chan error, 1)
		must(t, m.OnStop("traces", func(ctx context.Context) error { hook <- ctx.Err(); return nil }))
		r := start(t, m)
		must(t, c.Create(t.Context(), newSite("home", "Home")))
		<-reconciling
		err = r.stop()
		mustSay(t, err, "left behind: sites")
		if strings.Contains(err.Error(), "lease") {
			t.Errorf("it is told twice: %v", err)
		}
		if err := <-hook; err != nil {
			t.Errorf("the context of the hook had ended: %v", err)
		}
	})
}

func TestTheEndComesInOrder(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		o := &order{}
		c := client(t, m, sites())
		for _, name := range []string{"first", "second"} {
			must(t, m.OnStop(name, func(context.Context) error {
				o.note(fmt.Sprintf("%s, connected %v, client closed %v", name, m.Conn().IsConnected(), c.Closed()))
				return nil
			}))
		}
		started := make(chan struct{})
		must(t, m.Add(Func("last words", func(ctx context.Context) error {
			close(started)
			<-ctx.Done()
			_, err := c.Lister().List(nil)
			o.note(fmt.Sprint("runnable ", err))
			return nil
		})))
		r := start(t, m)
		<-started
		must(t, r.stop())
		want := []string{
			"runnable <nil>", "second, connected true, client closed false", "first, connected true, client closed false",
		}
		if got := o.all(); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

// TestEventsOfTheStopArriveBeforeTheConnectionEnds.
func TestEventsOfTheStopArriveBeforeTheConnectionEnds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		m := open(t, Config{URL: s.URL()})
		events, err := m.NewRecorder(recorder.Config{Component: "test"})
		must(t, err)
		started := make(chan struct{})
		must(t, m.Add(Func("goes", func(ctx context.Context) error {
			close(started)
			<-ctx.Done()
			events.Event(newSiteOfKind("home"), corev1.EventTypeNormal, "Stopping", "the process ends")
			return nil
		})))
		r := start(t, m)
		<-started
		must(t, r.stop())
		_, js := natstest.Connect(t, s.URL())
		kept, err := recorder.List(t.Context(), js, recorder.Query{})
		must(t, err)
		if len(kept) != 1 || kept[0].Reason != "Stopping" {
			t.Errorf("%+v", kept)
		}
	})
}

func newSiteOfKind(name string) *site {
	s := newSite(name, "")
	s.Kind = "Site"
	return s
}

func TestAServerThatIsAwayDoesNotEndRun(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		m := open(t, Config{URL: s.URL()})
		rest, started := blocking("rest")
		must(t, m.Add(rest))
		r := start(t, m)
		<-started
		lost := m.Conn().StatusChanged(nats.RECONNECTING)
		defer m.Conn().RemoveStatusListener(lost)
		s.Stop()
		<-lost
		must(t, s.Start())
		natstest.Eventually(t, "connected again", m.Conn().IsConnected)
		select {
		case <-r.done:
			t.Fatal(r.err)
		default:
		}
		must(t, r.stop())
	})
}

// TestAStopWithTheServerAwayEnds, within the grace period.
func TestAStopWithTheServerAwayEnds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		m := open(t, Config{URL: s.URL()})
		rest, started := blocking("rest")
		must(t, m.Add(rest))
		r := start(t, m)
		<-started
		s.Stop()
		must(t, r.stop())
	})
}
