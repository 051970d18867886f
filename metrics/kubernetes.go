package metrics

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	client "k8s.io/client-go/tools/metrics"
)

// restClient is what client-go tells of its requests, under the names of Kubernetes.
type restClient struct {
	requests, retries *prometheus.CounterVec
	latency, limited  *prometheus.HistogramVec
}

func newRestClient() *restClient {
	buckets := []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0}
	return &restClient{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total",
			Help: "Number of HTTP requests, partitioned by status code, method, and host.",
		}, []string{"code", "method", "host"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_request_retries_total",
			Help: "Number of request retries, partitioned by status code, verb, and host.",
		}, []string{"code", "verb", "host"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rest_client_request_duration_seconds",
			Help:    "Request latency in seconds. Broken down by verb and host.",
			Buckets: buckets,
		}, []string{"verb", "host"}),
		limited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rest_client_rate_limiter_duration_seconds",
			Help:    "Client side rate limiter latency in seconds. Broken down by verb, and host.",
			Buckets: buckets,
		}, []string{"verb", "host"}),
	}
}

var errTaken = errors.New("Kubernetes: client-go takes one receiver of its metrics in a process, and has another: " +
	"with controller-runtime, serve the metrics of its registry too; else call Kubernetes on one Metrics only")

// Kubernetes makes client-go tell of the requests of all Kubernetes clients of the process: rest_client_requests_total,
// and how long they take, wait and are repeated. Call it before the first client is made. client-go takes one receiver
// in a process; it is an error if there is another one.
func (m *Metrics) Kubernetes() error {
	client.Register(client.RegisterOpts{
		RequestResult: m.rest, RequestRetry: m.rest,
		RequestLatency: latency{m.rest.latency}, RateLimiterLatency: latency{m.rest.limited},
	})
	if client.RequestResult != client.ResultMetric(m.rest) {
		return errTaken
	}
	return nil
}

// Increment implements client-go's ResultMetric.
func (r *restClient) Increment(_ context.Context, code, method, host string) {
	r.requests.WithLabelValues(code, method, host).Inc()
}

// IncrementRetry implements client-go's RetryMetric.
func (r *restClient) IncrementRetry(_ context.Context, code, verb, host string) {
	r.retries.WithLabelValues(code, verb, host).Inc()
}

type latency struct{ histogram *prometheus.HistogramVec }

// Observe implements client-go's LatencyMetric.
func (l latency) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.histogram.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

func (r *restClient) all() []prometheus.Collector {
	return []prometheus.Collector{r.requests, r.retries, r.latency, r.limited}
}

func (r *restClient) describe(out chan<- *prometheus.Desc) {
	for _, c := range r.all() {
		c.Describe(out)
	}
}

func (r *restClient) collect(out chan<- prometheus.Metric) {
	for _, c := range r.all() {
		c.Collect(out)
	}
}
