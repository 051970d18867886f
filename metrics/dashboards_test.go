package metrics_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// known are the series that the Grafana dashboards of kubebuilder's plugin ask for (controller-runtime-metrics.json and
// controller-resources-metrics.json), and the alerts that are written for controller-runtime, with the labels by which
// they group. Those of the target of a scrape (job, namespace, pod, instance) Prometheus adds.
var known = []struct{ name, labels string }{
	{"controller_runtime_active_workers", "controller"},
	{"controller_runtime_reconcile_total", "controller result"},
	{"controller_runtime_reconcile_errors_total", "controller"},
	{"controller_runtime_reconcile_time_seconds_bucket", "controller le"},
	{"controller_runtime_reconcile_time_seconds_sum", "controller"},
	{"controller_runtime_reconcile_time_seconds_count", "controller"},
	{"controller_runtime_max_concurrent_reconciles", "controller"},
	{"controller_runtime_terminal_reconcile_errors_total", "controller"},
	{"controller_runtime_reconcile_panics_total", "controller"},
	{"controller_runtime_reconcile_timeouts_total", "controller"},
	{"workqueue_depth", "name controller priority"},
	{"workqueue_adds_total", "name controller"},
	{"workqueue_queue_duration_seconds_bucket", "name controller le"},
	{"workqueue_work_duration_seconds_bucket", "name controller le"},
	{"workqueue_unfinished_work_seconds", "name controller"},
	{"workqueue_longest_running_processor_seconds", "name controller"},
	{"workqueue_retries_total", "name controller"},
	{"leader_election_master_status", "name"},
	{"process_cpu_seconds_total", ""},
	{"process_resident_memory_bytes", ""},
}

// TestTheWellKnownDashboardsFindTheirSeries.
func TestTheWellKnownDashboardsFindTheirSeries(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites")
		m := metrics.New()
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(outcomes), m.Controller())
		w.must(err)
		w.run(c)
		w.create(sites, "works")
		natstest.Eventually(w, "it was reconciled", func() bool { return c.Stats().Reconciles > 0 })
		s := scrape(t, m.Handler())
		for _, series := range known {
			found := regexp.MustCompile(`(?m)^` + series.name + `(?:\{(.*)\})? `).FindStringSubmatch(string(s))
			if found == nil {
				t.Errorf("no series of %s", series.name)
				continue
			}
			var labels []string
			for _, pair := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(found[1], -1) {
				labels = append(labels, pair[1])
			}
			for _, label := range strings.Fields(series.labels) {
				if !strings.Contains(" "+strings.Join(labels, " ")+" ", " "+label+" ") {
					t.Errorf("%s has the labels %v, and not %s", series.name, labels, label)
				}
			}
			if want := len(strings.Fields(series.labels)); len(labels) != want {
				t.Errorf("%s has the labels %v, want %s", series.name, labels, series.labels)
			}
		}
	})
}

// TestEventsAreShown by what became of them.
func TestEventsAreShown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, err := recorder.New(recorder.Config{}) // which has nowhere to send them
		w.must(err)
		m := metrics.New()
		m.Recorder("sites", r)
		r.Event(&site{}, "Normal", "Reason", "message") // of no object: refused
		obj := &site{}
		obj.Kind, obj.Name = "Site", "home"
		r.Event(obj, "Normal", "Reason", "message")
		w.must(r.Close(t.Context()))
		scrape(t, m.Handler()).want(t,
			`nagi_events_dropped_total{destination="nats",recorder="sites"} 1`,
			`nagi_events_total{destination="kubernetes",outcome="published",recorder="sites"} 0`)
	})
}

// TestWhatDoesNotWorkIsShownByItsName, and goes back to 0: the server is away for a while.
func TestWhatDoesNotWorkIsShownByItsName(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, server := newWorldOn(t)
		sites := w.client("Site", "sites")
		m := metrics.New()
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(outcomes), m.Controller())
		w.must(err)
		w.run(c)
		natstest.Eventually(w, "it leads", func() bool { return c.Stats().Leading })
		const primary = `{controller="sites",source="primary Site (bucket sites)"}`
		scrape(t, m.Handler()).want(t, `nagi_degraded`+primary+` 0`, `nagi_source_lag_seconds`+primary+` 0`)
		server.Stop()
		const connection = `{controller="sites",source="connection to NATS"}`
		natstest.Eventually(w, "the connection is degraded, and the lag of the source grows", func() bool {
			s := scrape(t, m.Handler())
			return s.has(`nagi_degraded`+connection+` 1`) && !s.has(`nagi_source_lag_seconds`+primary+` 0`)
		})
		w.must(server.Start())
		natstest.Eventually(w, "it works again, and the metrics say so", func() bool {
			s := scrape(t, m.Handler())
			return s.has(`nagi_degraded`+connection+` 0`) && s.has(`nagi_source_lag_seconds`+primary+` 0`)
		})
	})
}
