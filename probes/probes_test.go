package probes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/test/natstest"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type site = entity.Object[struct{}, struct{}]

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replica is a controller on a server, as a process of its own would have it.
func replica(t *testing.T, server *natstest.Server, r controller.ReconcilerFunc) (
	*controller.Controller[*site], *entity.Client[*site],
) {
	t.Helper()
	_, js := natstest.Connect(t, server.URL())
	sites, err := entity.NewClient[*site](t.Context(), js, entity.Config{Kind: "Site", Bucket: "sites"})
	must(t, err)
	t.Cleanup(sites.Close)
	c, err := controller.New("sites", sites, r, controller.WithStuckAfter(50*time.Millisecond))
	must(t, err)
	return c, sites
}

func run(t *testing.T, c *controller.Controller[*site]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func get(t *testing.T, h http.Handler) (int, probes.Answer) {
	t.Helper()
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/", nil))
	var answer probes.Answer
	must(t, json.Unmarshal(r.Body.Bytes(), &answer))
	if (r.Code == http.StatusOK) != answer.OK || r.Header().Get("Content-Type") != "application/json" {
		t.Errorf("status %d, %v, for %+v", r.Code, r.Header(), answer)
	}
	return r.Code, answer
}

// TestALostServerIsNotReadyAndAlive, and a reconcile that is stuck too; each with its reason.
func TestALostServerIsNotReadyAndAlive(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		leave := make(chan struct{})
		left := sync.OnceFunc(func() { close(leave) })
		defer left()
		c, sites := replica(t, server, func(context.Context, controller.Request) (controller.Result, error) {
			<-leave
			return controller.Result{}, nil
		})
		p := probes.New()
		p.Add("sites", c)
		handlers := p.Handlers()
		alive := func() {
			t.Helper()
			if code, answer := get(t, handlers["/healthz"]); code != http.StatusOK {
				t.Errorf("not alive: %+v", answer)
			}
		}
		ready := func() bool { code, _ := get(t, handlers["/readyz"]); return code == http.StatusOK }
		reason := func(what string) bool {
			_, answer := get(t, handlers["/readyz"])
			for _, problem := range answer.Problems {
				if problem.What == what {
					return problem.Controller == "sites" && problem.Reason != ""
				}
			}
			return false
		}
		if alive(); !reason("synced") {
			t.Error("ready before it has synced")
		}
		run(t, c)
		natstest.Eventually(t, "it is ready", ready)
		alive()
		must(t, sites.Create(t.Context(), &site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}))
		natstest.Eventually(t, "a reconcile is stuck", func() bool { return reason("stuck reconcile") })
		alive()
		left()
		natstest.Eventually(t, "it is ready again", ready)
		server.Stop()
		natstest.Eventually(t, "the server is missed", func() bool { return reason("connection to NATS") })
		natstest.Eventually(t, "the lease is over", func() bool { return !c.Stats().Leading })
		alive()
		must(t, server.Start())
		natstest.Eventually(t, "it is ready again", ready)
		alive()
	})
}

// TestAStandbyIsReady, and a controller whose Run has returned is neither ready nor alive.
func TestAStandbyIsReady(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		nothing := func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }
		first, _ := replica(t, server, nothing)
		second, _ := replica(t, server, nothing)
		stop := run(t, first)
		natstest.Eventually(t, "the first leads", func() bool { return first.Stats().Leading })
		run(t, second)
		p := probes.New()
		p.Add("sites", second)
		natstest.Eventually(t, "the second is ready", func() bool { return p.Ready().OK })
		if second.Stats().Leading || !p.Alive().OK {
			t.Error("it leads, or is not alive")
		}
		p.Add("sites", first)
		if !p.Alive().OK || !p.Ready().OK {
			t.Error("the leader is not ready")
		}
		stop()
		if a, r := p.Alive(), p.Ready(); a.OK || r.OK || a.Problems[0].What != "run" {
			t.Errorf("after its end: %+v, %+v", a, r)
		}
	})
}

// states is a controller that says of itself what a test wants.
type states controller.Stats

func (s states) Stats() controller.Stats { return controller.Stats(s) }

// TestOnlyAnEngineThatIsStuckIsNotAlive: the term is over, and for half a minute something has not returned.
func TestOnlyAnEngineThatIsStuckIsNotAlive(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for what, want := range map[string]struct {
			since time.Duration
			alive bool
		}{
			"end of the term":             {31 * time.Second, false},
			"end of the term ":            {time.Hour, true}, // another one
			"stuck reconcile":             {time.Hour, true},
			"lease (bucket sites-status)": {time.Hour, true},
			"brake":                       {time.Hour, true},
		} {
			p := probes.New()
			p.Add("sites", states{Synced: true, Degraded: map[string]error{
				what: &controller.Problem{Since: time.Now().Add(-want.since), Err: errors.New("a reason")},
			}})
			if got := p.Alive().OK; got != want.alive {
				t.Errorf("%s: alive %v", what, got)
			}
			if p.Ready().OK {
				t.Errorf("%s: ready", what)
			}
		}
		p := probes.New()
		p.Add("sites", states{Synced: true, Degraded: map[string]error{
			"end of the term": &controller.Problem{Since: time.Now(), Err: errors.New("it goes on for a moment")},
		}})
		if !p.Alive().OK {
			t.Error("a moment after the end of a term it is not alive")
		}
	})
}

// TestReasonsAreCleanAndBounded: parts of them are what others wrote.
func TestReasonsAreCleanAndBounded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := probes.New()
		p.Add("sites", states{Synced: true, Degraded: map[string]error{
			"records": errors.New("key \x1b[31m\u202e" + strings.Repeat("x", 100_000)),
		}})
		reason := p.Ready().Problems[0].Reason
		if len(reason) > 10_000 || strings.ContainsAny(reason, "\x1b\u202e") {
			t.Errorf("%d bytes: %.100q", len(reason), reason)
		}
	})
}

// serve runs a server and returns where it listens, and stop, which ends it.
func serve(t *testing.T, s *probes.Server, listeners int) (where map[string]string, stop func()) {
	t.Helper()
	type open struct{ what, address string }
	opened := make(chan open, 2)
	s.Listening = func(what string, address net.Addr) { opened <- open{what, address.String()} }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	where = map[string]string{}
	for range listeners {
		select {
		case o := <-opened:
			where[o.what] = o.address
		case err := <-done:
			t.Fatalf("Run: %v", err)
		}
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	t.Cleanup(stop)
	return where, stop
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	must(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	must(t, err)
	return r.StatusCode, string(body)
}

// TestListenersAreOnLoopbackAndApart, and end with the context.
func TestListenersAreOnLoopbackAndApart(t *testing.T) {
	s := &probes.Server{Address: ":0", ProfilesAddress: ":0", Handlers: probes.New().Handlers()}
	where, stop := serve(t, s, 2)
	for what, address := range where {
		if host, _, err := net.SplitHostPort(address); err != nil || !net.ParseIP(host).IsLoopback() {
			t.Errorf("%s are served on %s", what, address)
		}
	}
	handlers, profiles := "http://"+where["handlers"], "http://"+where["profiles"]+"/debug/pprof/"
	if code, body := fetch(t, handlers+"/healthz"); code != http.StatusOK || !strings.Contains(body, `"ok":true`) {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := fetch(t, handlers+"/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("profiles beside the probes: %d", code)
	}
	if _, body := fetch(t, profiles+"goroutine?debug=1"); !strings.Contains(body, "goroutine profile") {
		t.Errorf("%.100s", body)
	}
	for path, want := range map[string]int{
		"profile?seconds=0.1": http.StatusOK, "trace?seconds=0.1": http.StatusOK, "heap": http.StatusOK,
		"":                       http.StatusOK,
		"profile?seconds=999999": http.StatusBadRequest, "nothing": http.StatusNotFound,
	} {
		if code, body := fetch(t, profiles+path); code != want || body == "" {
			t.Errorf("%s: %d, %d bytes", path, code, len(body))
		}
	}
	stop()
	for _, address := range where {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("%s is open after the end", address)
		}
	}
}

// TestAPortInUseIsAClearError, and leaves no listener open.
func TestAPortInUseIsAClearError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	err = (&probes.Server{Address: ":0", ProfilesAddress: taken.Addr().String()}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "profiles") {
		t.Errorf("%v", err)
	}
	if err := (&probes.Server{Address: "8080"}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"8080"`) {
		t.Errorf("%v", err)
	}
}

// TestWithoutAnAddressNothingListens: Run only waits for its end.
func TestWithoutAnAddressNothingListens(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, stop := serve(t, &probes.Server{Handlers: probes.New().Handlers()}, 0)
		stop()
	})
}

// TestAConnectionThatSendsNothingIsClosedWithTheServer, and does not hold up its end.
func TestAConnectionThatSendsNothingIsClosedWithTheServer(t *testing.T) {
	where, stop := serve(t, &probes.Server{Address: ":0"}, 1)
	conn, err := net.Dial("tcp", where["handlers"])
	must(t, err)
	defer conn.Close()
	began := time.Now()
	stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// TestAnOptionalSourceThatIsAwayIsToldAndReady: else no rollout would go on for as long as an edge is away.
func TestAnOptionalSourceThatIsAwayIsToldAndReady(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		client := func(kind string, cfg entity.Config) *entity.Client[*site] {
			cfg.Kind, cfg.Bucket = kind, strings.ToLower(kind)
			client, err := entity.NewClient[*site](t.Context(), js, cfg)
			must(t, err)
			t.Cleanup(client.Close)
			return client
		}
		edge := client("Page", entity.Config{BindOnly: true, OpenLater: true})
		c, err := controller.New("sites", client("Site", entity.Config{}), controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil },
		), controller.Owns(edge, controller.WithOptional()))
		must(t, err)
		p := probes.New()
		p.Add("sites", c)
		if answer := p.Ready(); answer.OK {
			t.Errorf("ready before it runs: %+v", answer)
		}
		run(t, c)
		natstest.Eventually(t, "it is ready, and says what is away", func() bool {
			answer := p.Ready()
			return answer.OK && len(answer.Problems) == 1 && answer.Problems[0].What == "Owns Page (bucket page)" &&
				answer.Problems[0].Since != nil
		})
	})
}

// TestSettingsThatBecameUnsafeAreToldByAReadyReplica: they may lose data one day, and keep no key from being reconciled.
func TestSettingsThatBecameUnsafeAreToldByAReadyReplica(t *testing.T) {
	unsafe := fmt.Errorf("bucket %q: %w", "sites", entity.ErrUnsafeSettings)
	p := probes.New()
	p.AddCheck("settings", func() error { return unsafe })
	answer := p.Ready()
	if !answer.OK || len(answer.Problems) != 1 || answer.Problems[0].Reason != unsafe.Error() {
		t.Errorf("the answer is %+v", answer)
	}
}

// ended is a controller whose Run has returned.
type ended struct{}

func (ended) Stats() controller.Stats { return controller.Stats{Ended: true} }

func TestWhatIsRemovedFailsNoProbe(t *testing.T) {
	p := probes.New()
	p.Add("sites", ended{})
	p.Remove("another")
	if p.Alive().OK || p.Ready().OK {
		t.Error("a controller that has ended fails no probe")
	}
	p.Remove("sites")
	if alive, ready := p.Alive(), p.Ready(); !alive.OK || !ready.OK {
		t.Errorf("%+v, %+v", alive, ready)
	}
}
