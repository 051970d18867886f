package metrics

import (
	"maps"
	"strings"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/prometheus/client_golang/prometheus"
)

// series are the metrics of the controllers of one name.
type series struct {
	name string // as a label
	observed
	running []func() controller.Stats
	past    controller.Stats // the counters of those that have ended
	longest float64          // of the last read: seconds
	told    map[string]bool  // what was degraded some time
}

func newSeries(name string) *series {
	s := &series{name: label(name), told: map[string]bool{}}
	s.queued, s.took = newDurations(queueBuckets), newDurations(reconcileBuckets, queueBuckets)
	return s
}

// longestLabel is more than any name has that a program gives. Names are the user's own, but not their length.
const longestLabel = 256

// label is a name as a label: what is no UTF-8 would make every scrape fail.
func label(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), longestLabel)], "\uFFFD")
}

// read adds up the controllers that run and what those counted that have ended. Of the latter nothing else is kept.
func (s *series) read() controller.Stats {
	s.longest = 0
	total := copyOf(&s.past)
	total.Synced = true // unless one that runs is not
	kept := s.running[:0]
	for _, stats := range s.running {
		now := stats()
		if now.Ended {
			addCounters(&s.past, &now)
			addCounters(&total, &now)
			continue
		}
		kept = append(kept, stats)
		addCounters(&total, &now)
		addStates(&total, &now)
		if since := now.LongestRunning.Since; !since.IsZero() {
			s.longest = max(s.longest, secondsSince(since))
		}
	}
	clear(s.running[len(kept):])
	s.running = kept
	return total
}

func copyOf(past *controller.Stats) controller.Stats {
	c := *past
	c.Sources = maps.Clone(past.Sources)
	if past.Shards != nil {
		shards := *past.Shards
		c.Shards = &shards
	}
	return c
}

func addCounters(to, s *controller.Stats) {
	for _, c := range []struct{ to, more *uint64 }{
		{&to.Terms, &s.Terms}, {&to.Adds, &s.Adds}, {&to.Delays, &s.Delays}, {&to.Loops, &s.Loops},
		{&to.OwnWriteWaits, &s.OwnWriteWaits}, {&to.BrakeEngaged, &s.BrakeEngaged}, {&to.TornDown, &s.TornDown},
		{&to.Cascaded, &s.Cascaded}, {&to.Pruned, &s.Pruned}, {&to.Sweeps, &s.Sweeps}, {&to.Foreign, &s.Foreign},
		{&to.Malformed, &s.Malformed}, {&to.Invalid, &s.Invalid}, {&to.MapperErrors, &s.MapperErrors},
		{&to.RecordErrors, &s.RecordErrors}, {&to.LeaderErrors, &s.LeaderErrors},
		{&to.BreakerOpened, &s.BreakerOpened}, {&to.LeftUnproven, &s.LeftUnproven}, {&to.RateWaits, &s.RateWaits},
	} {
		*c.to += *c.more
	}
	if s.Shards != nil {
		shardsOf(to).Refused += s.Shards.Refused
	}
	for name, more := range s.Sources {
		if to.Sources == nil {
			to.Sources = map[string]controller.SourceStats{}
		}
		sum := to.Sources[name]
		sum.Lists += more.Lists
		sum.StreamChanges += more.StreamChanges
		sum.Doubts += more.Doubts
		sum.Resumes += more.Resumes
		to.Sources[name] = sum
	}
}

func shardsOf(to *controller.Stats) *controller.ShardStats {
	if to.Shards == nil {
		to.Shards = &controller.ShardStats{}
	}
	return to.Shards
}

// addShards adds how replicas share the keys. What all of them know each tells.
func addShards(to *controller.ShardStats, s *controller.ShardStats) {
	to.Held, to.Open = to.Held+s.Held, to.Open+s.Open
	to.Moving, to.Unowned, to.Epoch = max(to.Moving, s.Moving), max(to.Unowned, s.Unowned), max(to.Epoch, s.Epoch)
	if len(s.Members) > len(to.Members) {
		to.Members = s.Members
	}
}

// addStates adds what is the case now. Of two that say different things the worse one counts.
func addStates(to, s *controller.Stats) {
	for _, c := range []struct{ to, more *int }{
		{&to.Running, &s.Running}, {&to.Workers, &s.Workers}, {&to.Delayed, &s.Delayed},
		{&to.Failing, &s.Failing}, {&to.Parked, &s.Parked}, {&to.Looping, &s.Looping}, {&to.Orphaned, &s.Orphaned},
		{&to.TeardownsOwed, &s.TeardownsOwed}, {&to.Brake.Held, &s.Brake.Held}, {&to.Brake.Swept, &s.Brake.Swept},
		{&to.Brake.Pruned, &s.Brake.Pruned}, {&to.Ready[0], &s.Ready[0]}, {&to.Ready[1], &s.Ready[1]},
		{&to.Ready[2], &s.Ready[2]}, {&to.Groups, &s.Groups},
	} {
		*c.to += *c.more
	}
	if s.Shards != nil {
		addShards(shardsOf(to), s.Shards)
	}
	to.OldestReady = max(to.OldestReady, s.OldestReady)
	to.Unfinished += s.Unfinished
	to.Leading = to.Leading || s.Leading
	to.Synced = to.Synced && s.Synced
	to.Brake.Engaged = to.Brake.Engaged || s.Brake.Engaged
	for name, err := range s.Degraded {
		if to.Degraded == nil {
			to.Degraded = map[string]error{}
		}
		to.Degraded[name] = err
	}
	for name, more := range s.Sources {
		if to.Sources == nil {
			to.Sources = map[string]controller.SourceStats{}
		}
		sum := to.Sources[name]
		sum.Behind, sum.Lag = max(sum.Behind, more.Behind), max(sum.Lag, more.Lag)
		sum.Invalid = max(sum.Invalid, more.Invalid)
		to.Sources[name] = sum
	}
	for kind, more := range s.External {
		if to.External == nil {
			to.External = map[string]controller.ExternalStats{}
		}
		sum := to.External[kind]
		sum.Resources = max(sum.Resources, more.Resources)
		sum.Waiting, sum.TurnedAway = sum.Waiting+more.Waiting, sum.TurnedAway+more.TurnedAway
		sum.Away = sum.Away || more.Away
		to.External[kind] = sum
	}
}

// mostDegraded is how many names of what was degraded some time are shown as healthy later.
const mostDegraded = 100

// send sends a metric. Of controllers that have all ended there are counters only: a gauge says what is.
func (s *series) send(out chan<- prometheus.Metric, m metric, value float64, labels ...string) {
	if m.kind == prometheus.CounterValue || len(s.running) > 0 {
		m.send(out, value, labels...)
	}
}

// collect sends the metrics of a controller.
func (s *series) collect(out chan<- prometheus.Metric, total *controller.Stats) {
	s.collectResults(out)
	s.send(out, reconcileErrors, float64(s.results[failure].Load()), s.name)
	s.send(out, terminalErrors, float64(s.terminals.Load()), s.name)
	s.send(out, reconcilePanics, float64(s.panics.Load()), s.name)
	s.send(out, reconcileTimeouts, float64(s.timeouts.Load()), s.name)
	for i, priority := range priorities {
		s.send(out, depth, float64(total.Ready[i]), s.name, s.name, priority)
	}
	s.send(out, longest, s.longest, s.name, s.name)
	for _, v := range queueValues {
		s.send(out, v.metric, v.of(total), s.name, s.name)
	}
	for _, v := range values {
		s.send(out, v.metric, v.of(total), s.name)
	}
	if total.Shards != nil {
		for _, v := range shardValues {
			s.send(out, v.metric, v.of(total.Shards), s.name)
		}
	}
	for _, v := range keyStates {
		s.send(out, keys, v.of(total), s.name, v.state)
	}
	s.send(out, held, float64(total.Brake.Held), s.name, "deletes")
	s.send(out, held, float64(total.Brake.Swept), s.name, "swept")
	s.send(out, held, float64(total.Brake.Pruned), s.name, "pruned")
	s.collectSources(out, total)
	for kind, api := range total.External {
		s.send(out, available, boolean(!api.Away), s.name, label(kind))
		s.send(out, apiWaiting, float64(api.Waiting), s.name, label(kind))
		s.send(out, apiTurnedAway, float64(api.TurnedAway), s.name, label(kind))
	}
}

// collectResults sends what the observers have counted of the reconciles.
func (s *series) collectResults(out chan<- prometheus.Metric) {
	s.queued.send(out, queueDuration.desc, queueBuckets, s.name, s.name)
	s.took.send(out, workDuration.desc, queueBuckets, s.name, s.name)
	s.took.send(out, reconcileTime.desc, reconcileBuckets, s.name)
	for i, name := range resultNames {
		s.send(out, reconcileTotal, float64(s.results[i].Load()), s.name, name)
	}
}

func (s *series) collectSources(out chan<- prometheus.Metric, total *controller.Stats) {
	now := map[string]bool{} // by label: two names may become one
	for name := range s.told {
		now[name] = false
	}
	for name, source := range total.Sources {
		name = label(name)
		now[name] = false
		s.send(out, lagMessages, float64(source.Behind), s.name, name)
		s.send(out, lagSeconds, source.Lag.Seconds(), s.name, name)
		s.send(out, invalid, float64(source.Invalid), s.name, name)
		s.send(out, lists, float64(source.Lists-source.StreamChanges-source.Doubts), s.name, name, "first")
		s.send(out, lists, float64(source.StreamChanges), s.name, name, "stream_changed")
		s.send(out, lists, float64(source.Doubts), s.name, name, "doubt")
		s.send(out, resumes, float64(source.Resumes), s.name, name)
	}
	for name := range total.Degraded {
		name = label(name)
		if len(s.told) < mostDegraded {
			s.told[name] = true
		}
		now[name] = true
	}
	for name, is := range now {
		s.send(out, degraded, boolean(is), s.name, name)
	}
}

func boolean(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
