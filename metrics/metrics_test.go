package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type spec struct {
	Title string `json:"title,omitempty"`
}

type site = entity.Object[spec, struct{}]

// world is a server, and clients on it.
type world struct {
	*testing.T
	js jetstream.JetStream
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w, _ := newWorldOn(t)
	return w
}

func newWorldOn(t *testing.T) (*world, *natstest.Server) {
	t.Helper()
	server := natstest.Start(t)
	_, js := natstest.Connect(t, server.URL())
	return &world{t, js}, server
}

func (w *world) client(kind, bucket string) *entity.Client[*site] {
	w.Helper()
	c, err := entity.NewClient[*site](w.Context(), w.js, entity.Config{
		Kind: kind, Bucket: bucket,
	})
	w.must(err)
	w.Cleanup(c.Close)
	return c
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// run runs a controller until stop is called, and at the latest until the test ends.
func (w *world) run(c interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		cancel()
		if stopped.CompareAndSwap(false, true) {
			if err := <-done; err != nil {
				w.Errorf("Run: %v", err)
			}
		}
	}
	w.Cleanup(stop)
	return stop
}

func (w *world) create(c *entity.Client[*site], names ...string) {
	w.Helper()
	for _, name := range names {
		w.must(c.Create(w.Context(), &site{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
}

// scraped is the text of a scrape.
type scraped string

func scrape(t *testing.T, h http.Handler) scraped {
	t.Helper()
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", r.Code, err, body)
	}
	return scraped(body)
}

// has reports whether there is a series with that value, such as `nagi_keys{controller="a",state="ready"} 0`.
func (s scraped) has(series string) bool {
	return strings.Contains("\n"+string(s), "\n"+series+"\n")
}

// finds reports whether there is any series of that name.
func (s scraped) finds(name string) bool {
	return regexp.MustCompile(`(?m)^` + name + `(\{| )`).MatchString(string(s))
}

func (s scraped) want(t *testing.T, series ...string) {
	t.Helper()
	for _, one := range series {
		if !s.has(one) {
			name, _, _ := strings.Cut(one, "{")
			t.Errorf("no %s; there is %q", one, regexp.MustCompile(`(?m)^`+name+`[{ ].*$`).FindAllString(string(s), -1))
		}
	}
}

// outcomes is a reconciler that does what the name of the key says.
func outcomes(_ context.Context, req controller.Request) (controller.Result, error) {
	name, _, _ := strings.Cut(req.Key, "-")
	switch name {
	case "fails":
		return controller.Result{}, errors.New("the text of the error")
	case "parks":
		return controller.Result{}, controller.TerminalError(errors.New("the text of the error"))
	case "panics":
		panic("the text of the panic")
	case "again":
		return controller.Result{RequeueAfter: time.Hour}, nil
	}
	return controller.Result{}, nil
}

var slowly = controller.WithBackoff(time.Hour, time.Hour)

// TestAControllerIsShownUnderTheNamesOfControllerRuntime: what happened, and what is the case.
func TestAControllerIsShownUnderTheNamesOfControllerRuntime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites")
		m := metrics.New()
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(outcomes), m.Controller(), slowly,
			controller.WithWorkers(3))
		w.must(err)
		scrape(t, m.Handler()).want(t,
			`controller_runtime_reconcile_total{controller="sites",result="success"} 0`,
			`leader_election_master_status{name="sites"} 0`)
		w.run(c)
		w.create(sites, "works", "fails", "parks", "panics", "again")
		natstest.Eventually(w, "all were reconciled", func() bool { return c.Stats().Reconciles == 5 })
		s := scrape(t, m.Handler())
		s.want(t,
			`controller_runtime_reconcile_total{controller="sites",result="success"} 1`,
			`controller_runtime_reconcile_total{controller="sites",result="error"} 3`,
			`controller_runtime_reconcile_total{controller="sites",result="requeue"} 0`,
			`controller_runtime_reconcile_total{controller="sites",result="requeue_after"} 1`,
			`controller_runtime_reconcile_errors_total{controller="sites"} 3`,
			`controller_runtime_terminal_reconcile_errors_total{controller="sites"} 1`,
			`controller_runtime_reconcile_panics_total{controller="sites"} 1`,
			`controller_runtime_reconcile_time_seconds_count{controller="sites"} 5`,
			`controller_runtime_max_concurrent_reconciles{controller="sites"} 3`,
			`controller_runtime_active_workers{controller="sites"} 0`,
			`workqueue_depth{controller="sites",name="sites",priority="0"} 0`,
			`workqueue_queue_duration_seconds_count{controller="sites",name="sites"} 5`,
			`workqueue_work_duration_seconds_count{controller="sites",name="sites"} 5`,
			`workqueue_longest_running_processor_seconds{controller="sites",name="sites"} 0`,
			`workqueue_unfinished_work_seconds{controller="sites",name="sites"} 0`,
			`leader_election_master_status{name="sites"} 1`,
			`nagi_keys{controller="sites",state="failing"} 2`,
			`nagi_keys{controller="sites",state="parked"} 1`,
			`nagi_keys{controller="sites",state="delayed"} 3`,
			`nagi_synced{controller="sites"} 1`,
			`nagi_brake_engaged{controller="sites"} 0`,
			`nagi_degraded{controller="sites",source="primary Site (bucket sites)"} 0`,
			`nagi_source_lag_messages{controller="sites",source="primary Site (bucket sites)"} 0`,
			`nagi_source_lag_seconds{controller="sites",source="primary Site (bucket sites)"} 0`,
			`nagi_source_lists_total{controller="sites",reason="first",source="primary Site (bucket sites)"} 1`,
		)
		for _, text := range []string{"the text of", "works", "parks"} {
			if strings.Contains(string(s), text) {
				t.Errorf("the scrape has %q: a key, or the text of an error", text)
			}
		}
	})
}

// TestWhatRunsAndWaitsIsShownWhileItDoes.
func TestWhatRunsAndWaitsIsShownWhileItDoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites")
		m := metrics.New()
		go_, began := make(chan struct{}), make(chan time.Time, 3)
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(
			func(context.Context, controller.Request) (controller.Result, error) {
				began <- time.Now()
				<-go_
				return controller.Result{}, nil
			}), m.Controller())
		w.must(err)
		w.run(c)
		natstest.Eventually(w, "it leads", func() bool { return c.Stats().Leading })
		w.create(sites, "one", "two", "three")
		natstest.Eventually(w, "one runs and two wait", func() bool { s := c.Stats(); return s.Running == 1 && s.Ready[0] == 2 })
		time.Sleep(time.Until((<-began).Add(3 * time.Second)))
		s := scrape(t, m.Handler())
		s.want(t,
			`controller_runtime_active_workers{controller="sites"} 1`,
			`workqueue_depth{controller="sites",name="sites",priority="0"} 2`,
			`workqueue_depth{controller="sites",name="sites",priority="-100"} 0`,
			fmt.Sprintf(`workqueue_adds_total{controller="sites",name="sites"} %d`, c.Stats().Adds),
			`nagi_keys{controller="sites",state="ready"} 2`,
			`workqueue_unfinished_work_seconds{controller="sites",name="sites"} 3`,
			`workqueue_longest_running_processor_seconds{controller="sites",name="sites"} 3`)
		close(go_)
		natstest.Eventually(w, "all are done", func() bool { return c.Stats().Reconciles == 3 })
	})
}

// TestCountersNeverGoBack when a controller stops and another one of its name begins; and its states end with it.
func TestCountersNeverGoBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := metrics.New()
		handler := m.Handler()
		var adds, failures uint64
		for round := 1; round <= 2; round++ {
			sites := w.client("Site", "sites")
			c, err := controller.New("sites", sites, controller.ReconcilerFunc(outcomes), m.Controller(), slowly)
			w.must(err)
			stop := w.run(c)
			w.create(sites, fmt.Sprint("fails-", round), fmt.Sprint("works-", round))
			natstest.Eventually(w, "they were reconciled", func() bool { return c.Stats().Reconciles >= 2 })
			stop()
			adds, failures = adds+c.Stats().Adds, failures+c.Stats().Failures
			for range 2 { // the first scrape after the end, and one that finds nobody
				scrape(t, handler).want(t,
					fmt.Sprintf(`nagi_terms_total{controller="sites"} %d`, round),
					fmt.Sprintf(`workqueue_adds_total{controller="sites",name="sites"} %d`, adds),
					fmt.Sprintf(`nagi_source_lists_total{controller="sites",reason="first",source=%q} %d`,
						"primary Site (bucket sites)", round),
					fmt.Sprintf(`controller_runtime_reconcile_errors_total{controller="sites"} %d`, failures))
			}
		}
	})
}

// TestAControllerThatHasEndedHasNoGauges: alerts are about what is, and a gauge of 0 would say that nobody leads. What
// it counted stays, and a replica beside it goes on.
func TestAControllerThatHasEndedHasNoGauges(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := metrics.New()
		registry := prometheus.NewPedanticRegistry()
		w.must(registry.Register(m))
		begin := func() func() {
			c, err := controller.New("sites", w.client("Site", "sites"), controller.ReconcilerFunc(outcomes), m.Controller())
			w.must(err)
			stop := w.run(c)
			natstest.Eventually(w, "it has synced", func() bool { return c.Stats().Synced })
			return stop
		}
		gauges := func() (names []string) {
			families, err := registry.Gather()
			w.must(err)
			for _, f := range families {
				if f.GetType() == dto.MetricType_GAUGE {
					names = append(names, f.GetName())
				}
			}
			return names
		}
		stopFirst, stopSecond := begin(), begin()
		stopFirst()
		if all := gauges(); len(all) < 10 {
			t.Errorf("while one runs there are the gauges %q", all)
		}
		stopSecond()
		if all := gauges(); len(all) > 0 {
			t.Errorf("of what has ended there are the gauges %q", all)
		}
		if !scrape(t, m.Handler()).finds("nagi_sweeps_total") {
			t.Error("what it counted is gone")
		}
	})
}

// TestSeveralControllersShareARegistry, also one that a client of the library brings, which checks what it collects.
func TestSeveralControllersShareARegistry(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := metrics.New()
		registry := prometheus.NewPedanticRegistry()
		w.must(registry.Register(m))
		sites, pages := w.client("Site", "sites"), w.client("Page", "pages")
		first, err := controller.New("sites", sites, controller.ReconcilerFunc(outcomes), m.Controller(), controller.Owns(pages))
		w.must(err)
		_, err = controller.New("pages\xff", pages, controller.ReconcilerFunc(outcomes), m.Controller())
		if err == nil {
			t.Fatal("a name that is no UTF-8 is taken")
		}
		second, err := controller.New("pages", pages, controller.ReconcilerFunc(outcomes), m.Controller())
		w.must(err)
		w.run(first)
		w.run(second)
		w.create(sites, "works")
		natstest.Eventually(w, "it was reconciled", func() bool { return first.Stats().Reconciles > 0 && second.Stats().Leading })
		families, err := registry.Gather()
		w.must(err)
		if len(families) < 30 {
			t.Errorf("only %d families", len(families))
		}
		for _, name := range []string{"sites", "pages"} {
			scrape(t, m.Handler()).want(t, fmt.Sprintf(`leader_election_master_status{name="%s"} 1`, name))
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			for _, p := range problems {
				if strings.HasPrefix(p.Metric, "nagi_") { // the others' names are as they are
					t.Errorf("%s: %s", p.Metric, p.Text)
				}
			}
		}
	})
}
