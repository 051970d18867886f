// Package metrics shows controllers to Prometheus.
//
//	m := metrics.New()
//	c, err := controller.New("sites", sites, reconciler, m.Controller())
//	…
//	http.Handle("/metrics", m.Handler())
//
// What controllers of controller-runtime show too has the same name, type, labels and buckets here, so their
// dashboards and alerts work: controller_runtime_…, workqueue_…, leader_election_master_status and, after
// [Metrics.Kubernetes], rest_client_…. What only Nagi has begins with nagi_. docs/dashboards and docs/alerts have a
// dashboard and alert rules.
//
// No label has a key, a namespace, or the text of an error: labels are names of controllers, sources, kinds and states.
//
// Where the names come from controller-runtime and Nagi differs, this is what they mean:
//
//   - result="requeue" is a reconcile whose key waits for an API that is away or busy. It is no error.
//   - workqueue_depth has three priorities: "0" are live changes of primaries, "-10" changes of what they own or watch,
//     "-100" background work, which is the number that controller-runtime has for it. A priority of one's own counts
//     with the next of these below it.
//   - workqueue_queue_duration_seconds and workqueue_work_duration_seconds count hand-outs that were reconciled.
//   - The histograms have their classic buckets only: each observation of a native histogram allocates.
package metrics

import (
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is a prometheus.Collector for all controllers of a process. New makes one. All methods may be called
// concurrently. A scrape reads the controllers' Stats, and sends no request to a server.
//
// Counters never go back: what a controller has counted stays after its end, and one that is made later with the same
// name goes on from there. Two that run at once under one name, as replicas in a test, are added up. Gauges end with
// the last controller of their name, so that no alert fires for what does not run any more.
type Metrics struct {
	rest *restClient

	mu        sync.Mutex
	byName    map[string]*series
	recorders map[string]Recorder
}

var _ prometheus.Collector = (*Metrics)(nil)

// Recorder is what the metrics read of a recorder.Recorder.
type Recorder interface{ Stats() recorder.Stats }

// New returns metrics without a controller. It registers nothing.
func New() *Metrics {
	return &Metrics{
		rest: newRestClient(), byName: map[string]*series{}, recorders: map[string]Recorder{},
	}
}

// Controller is the option with which controller.New attaches the controller. Each controller needs a call of its own.
func (m *Metrics) Controller() controller.Option {
	return controller.WithObserver(&observer{metrics: m})
}

// Recorder shows what becomes of the events of a recorder, under a name that it has in no other call.
func (m *Metrics) Recorder(name string, r Recorder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recorders[name] = r
}

// Handler serves the metrics of the controllers, of the process and of Go, from a registry of its own.
func (m *Metrics) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
}

// attach begins to show a controller, and returns what its observer counts in.
func (m *Metrics) attach(name string, stats func() controller.Stats) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.byName[name]
	if s == nil {
		s = newSeries(name)
		m.byName[name] = s
	}
	s.running = append(s.running, stats)
	return s
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.rest.describe(out)
	for _, d := range allDescs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.rest.collect(out)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		s := m.byName[name]
		total := s.read()
		s.collect(out, &total)
	}
	for _, name := range slices.Sorted(maps.Keys(m.recorders)) {
		collectEvents(out, name, m.recorders[name].Stats())
	}
}
