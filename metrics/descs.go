package metrics

import (
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/prometheus/client_golang/prometheus"
)

// metric is one that is read at the scrape.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

var allDescs []*prometheus.Desc

func describe(kind prometheus.ValueType, name, help string, labels []string) metric {
	d := prometheus.NewDesc(name, help, labels, nil)
	allDescs = append(allDescs, d)
	return metric{d, kind}
}

func counter(name, help string, labels ...string) metric {
	return describe(prometheus.CounterValue, name, help, labels)
}

func gauge(name, help string, labels ...string) metric {
	return describe(prometheus.GaugeValue, name, help, labels)
}

func (m metric) send(out chan<- prometheus.Metric, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

// value is a metric that is one number of a controller.
type value struct {
	metric
	of func(*controller.Stats) float64
}

func seconds(d time.Duration) float64 { return d.Seconds() }

func secondsSince(t time.Time) float64 { return max(0, time.Since(t).Seconds()) }

// priorities are those of Stats.Ready, as numbers that order them. controller-runtime has 0 and -100.
var priorities = [...]string{"0", "-10", "-100"}

// What controller-runtime v0.25 shows too, with its names, labels and texts.
var (
	reconcileTotal = counter("controller_runtime_reconcile_total",
		"Total number of reconciliations per controller", "controller", "result")
	reconcileErrors = counter("controller_runtime_reconcile_errors_total",
		"Total number of reconciliation errors per controller", "controller")
	terminalErrors = counter("controller_runtime_terminal_reconcile_errors_total",
		"Total number of terminal reconciliation errors per controller", "controller")
	reconcilePanics = counter("controller_runtime_reconcile_panics_total",
		"Total number of reconciliation panics per controller", "controller")
	reconcileTimeouts = counter("controller_runtime_reconcile_timeouts_total",
		"Total number of reconciliation timeouts per controller", "controller")
	reconcileTime = gauge("controller_runtime_reconcile_time_seconds",
		"Length of time per reconciliation per controller", "controller")
	queueDuration = gauge("workqueue_queue_duration_seconds",
		"How long in seconds an item stays in workqueue before being requested", "name", "controller")
	workDuration = gauge("workqueue_work_duration_seconds",
		"How long in seconds processing an item from workqueue takes.", "name", "controller")
	depth = gauge("workqueue_depth",
		"Current depth of workqueue by workqueue and priority", "name", "controller", "priority")
	longest = gauge("workqueue_longest_running_processor_seconds",
		"How many seconds has the longest running processor for workqueue been running.", "name", "controller")

	queueValues = []value{
		{counter("workqueue_adds_total", "Total number of adds handled by workqueue", "name", "controller"),
			func(s *controller.Stats) float64 { return float64(s.Adds) }},
		{counter("workqueue_retries_total", "Total number of items added to the workqueue with a non-zero delay "+
			"(rate-limited requeues, explicit RequeueAfter or AddAfter calls)", "name", "controller"),
			func(s *controller.Stats) float64 { return float64(s.Delays) }},
		{gauge("workqueue_unfinished_work_seconds", "How many seconds of work has been done that is in progress and "+
			"hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of "+
			"stuck threads by observing the rate at which this increases.", "name", "controller"),
			func(s *controller.Stats) float64 { return seconds(s.Unfinished) }},
	}
)

func of(name, help string) metric      { return gauge(name, help, "controller") }
func countOf(name, help string) metric { return counter(name, help, "controller") }

// values are one number for each controller.
var values = []value{
	{of("controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller"),
		func(s *controller.Stats) float64 { return float64(s.Workers) }},
	{of("controller_runtime_active_workers", "Number of currently used workers per controller"),
		func(s *controller.Stats) float64 { return float64(s.Running) }},
	{gauge("leader_election_master_status", "Gauge of if the reporting system is master of the relevant lease, 0 "+
		"indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to "+
		"group by name.", "name"),
		func(s *controller.Stats) float64 { return boolean(s.Leading) }},

	{of("nagi_synced", "Whether all sources have synced since the controller began to run."),
		func(s *controller.Stats) float64 { return boolean(s.Synced) }},
	{of("nagi_oldest_ready_seconds", "How long the oldest key has waited that waits for a worker."),
		func(s *controller.Stats) float64 { return seconds(s.OldestReady) }},
	{of("nagi_groups_waiting", "Groups of keys that take turns and have keys that wait for a worker."),
		func(s *controller.Stats) float64 { return float64(s.Groups) }},
	{countOf("nagi_rate_waits_total", "How often a key had to wait for the rate though a worker was free."),
		func(s *controller.Stats) float64 { return float64(s.RateWaits) }},
	{of("nagi_brake_engaged", "Whether the brake holds deletes back until somebody releases it."),
		func(s *controller.Stats) float64 { return boolean(s.Brake.Engaged) }},
	{countOf("nagi_brake_engagements_total", "How often the brake engaged."),
		func(s *controller.Stats) float64 { return float64(s.BrakeEngaged) }},
	{of("nagi_teardowns_owed", "Primaries that are gone and not torn down yet, as far as this replica has begun."),
		func(s *controller.Stats) float64 { return float64(s.TeardownsOwed) }},
	{of("nagi_orphaned_objects", "Objects without an owner that the last sweep found."),
		func(s *controller.Stats) float64 { return float64(s.Orphaned) }},
	{countOf("nagi_torn_down_total", "Primaries whose teardown has ended."),
		func(s *controller.Stats) float64 { return float64(s.TornDown) }},
	{countOf("nagi_cascaded_total", "Objects that were deleted because their owner is gone."),
		func(s *controller.Stats) float64 { return float64(s.Cascaded) }},
	{countOf("nagi_pruned_total", "Objects that were deleted because a reconcile did not want them any more."),
		func(s *controller.Stats) float64 { return float64(s.Pruned) }},
	{countOf("nagi_sweeps_total", "Sweeps that have ended."),
		func(s *controller.Stats) float64 { return float64(s.Sweeps) }},
	{countOf("nagi_terms_total", "How often this replica began to lead."),
		func(s *controller.Stats) float64 { return float64(s.Terms) }},
	{countOf("nagi_record_write_errors_total", "Writes of records that failed."),
		func(s *controller.Stats) float64 { return float64(s.RecordErrors) }},
	{countOf("nagi_leader_read_errors_total", "Reads from the leader of the primaries' stream that failed."),
		func(s *controller.Stats) float64 { return float64(s.LeaderErrors) }},
	{countOf("nagi_mapper_errors_total", "Calls of mappers from objects to primaries that failed."),
		func(s *controller.Stats) float64 { return float64(s.MapperErrors) }},
	{countOf("nagi_own_write_waits_total", "How often a key was put back because a cache did not show its own writes."),
		func(s *controller.Stats) float64 { return float64(s.OwnWriteWaits) }},
	{countOf("nagi_loops_total", "How often a reconcile was found to wake itself."),
		func(s *controller.Stats) float64 { return float64(s.Loops) }},
	{countOf("nagi_malformed_keys_total", "Reports of keys of a shape that no primary can have."),
		func(s *controller.Stats) float64 { return float64(s.Malformed) }},
	{countOf("nagi_invalid_reports_total", "Reports of documents that do not decode."),
		func(s *controller.Stats) float64 { return float64(s.Invalid) }},
	{countOf("nagi_external_breaker_opened_total", "How often an external API went away."),
		func(s *controller.Stats) float64 { return float64(s.BreakerOpened) }},
}

// shardValues are of controllers whose replicas share the keys.
var shardValues = []struct {
	metric
	of func(*controller.ShardStats) float64
}{
	{of("nagi_shard_slots", "Slots of keys that this replica has."),
		func(s *controller.ShardStats) float64 { return float64(s.Held) }},
	{of("nagi_shard_slots_open", "Slots in which this replica may begin to work."),
		func(s *controller.ShardStats) float64 { return float64(s.Open) }},
	{of("nagi_shard_slots_moving", "Slots that another replica is to have than has them."),
		func(s *controller.ShardStats) float64 { return float64(s.Moving) }},
	{of("nagi_shard_slots_unowned", "Slots that no replica has whose lease is there."),
		func(s *controller.ShardStats) float64 { return float64(s.Unowned) }},
	{of("nagi_shard_members", "Replicas that share the keys, and whose leases are there."),
		func(s *controller.ShardStats) float64 { return float64(len(s.Members)) }},
	{of("nagi_shard_epoch", "The highest revision at which a slot was given to a replica: it grows with each "+
		"slot that moves, and goes back only where the status bucket was made anew or put back from a backup."),
		func(s *controller.ShardStats) float64 { return float64(s.Epoch) }},
	{countOf("nagi_shard_refused_writes_total", "Writes that were refused because their slot had moved."),
		func(s *controller.ShardStats) float64 { return float64(s.Refused) }},
}

// keyState is a state in which keys are.
type keyState struct {
	state string
	of    func(*controller.Stats) float64
}

var (
	keys = gauge("nagi_keys", "Keys by state. A key may be in several: one that is failing is delayed, too. Of "+
		"failing, parked, looping and teardown only the replica that leads tells.", "controller", "state")
	keyStates = []keyState{
		{"ready", func(s *controller.Stats) float64 { return float64(s.Ready[0] + s.Ready[1] + s.Ready[2]) }},
		{"running", func(s *controller.Stats) float64 { return float64(s.Running) }},
		{"delayed", func(s *controller.Stats) float64 { return float64(s.Delayed) }},
		{"failing", func(s *controller.Stats) float64 { return float64(s.Failing) }},
		{"parked", func(s *controller.Stats) float64 { return float64(s.Parked) }},
		{"looping", func(s *controller.Stats) float64 { return float64(s.Looping) }},
		{"held", func(s *controller.Stats) float64 { return float64(s.Brake.Held + s.Brake.Swept + s.Brake.Pruned) }},
		{"teardown", func(s *controller.Stats) float64 { return float64(s.TeardownsOwed) }},
		{"waiting", func(s *controller.Stats) (n float64) {
			for _, api := range s.External {
				n += float64(api.Waiting + api.TurnedAway)
			}
			return n
		}},
	}

	held = gauge("nagi_brake_held", "What the brake holds: deletes of primaries, owners of what a sweep found, and "+
		"primaries with something to prune.", "controller", "what")
	lagMessages = gauge("nagi_source_lag_messages", "How many messages of the bucket were not read yet.",
		"controller", "source")
	lagSeconds = gauge("nagi_source_lag_seconds", "How old the state is that the cache of the bucket shows; 0 where "+
		"nothing is known to be missing. The server's clock is compared with this one's, so it is off by as much as "+
		"they differ, and never less than 0.", "controller", "source")
	lists = counter("nagi_source_lists_total", "Full lists of a bucket: the first one, those of another stream, as "+
		"after a restore, and those because of a doubt.", "controller", "source", "reason")
	resumes = counter("nagi_source_resumes_total", "How often the watch of a bucket went on from where it was.",
		"controller", "source")
	invalid  = gauge("nagi_invalid_documents", "Keys of a bucket that exist and do not decode.", "controller", "source")
	degraded = gauge("nagi_degraded", "Whether a source, or another part of the controller, does not work now.",
		"controller", "source")
	available  = gauge("nagi_external_api_available", "Whether an external API answers.", "controller", "kind")
	apiWaiting = gauge("nagi_external_waiting_keys", "Keys that wait for an external API that is away.",
		"controller", "kind")
	apiTurnedAway = gauge("nagi_external_turned_away_keys", "Keys that come back for their turn under the rate limit.",
		"controller", "kind")

	events  = counter("nagi_events_total", "Events by what became of them.", "recorder", "destination", "outcome")
	dropped = counter("nagi_events_dropped_total", "Events for which there was no room, no server or no destination.",
		"recorder", "destination")
	pending = gauge("nagi_events_pending", "Events that wait to be sent.", "recorder", "destination")
)

func collectEvents(out chan<- prometheus.Metric, name string, s recorder.Stats) {
	name = label(name)
	for destination, c := range map[string]recorder.Counts{"nats": s.NATS, "kubernetes": s.Kubernetes} {
		for outcome, n := range map[string]uint64{
			"published": c.Published, "merged": c.Merged, "filtered": c.Filtered, "dropped": c.Dropped,
			"failed": c.Failed,
		} {
			events.send(out, float64(n), name, destination, outcome)
		}
		dropped.send(out, float64(c.Dropped), name, destination)
		pending.send(out, float64(c.Pending), name, destination)
	}
}
