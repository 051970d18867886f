package controller

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Stats are the counts and states of a controller at one moment. Counters start at 0 in New and only grow.
type Stats struct {
	// Reconciles counts attempts. Failures are those that returned an error or panicked, but for what waits for an API
	// and what a stop or the loss of the lease cut short; Terminals are the failures that parked their key.
	// ReconcileTime is the sum of all attempts' durations.
	Reconciles, Failures, Terminals uint64
	ReconcileTime                   time.Duration
	// Running is the number of attempts under way now, Workers how many there can be. LongestRunning is the attempt
	// that has run for longest; zero if none runs.
	Running, Workers int
	LongestRunning   LongestRunning
	// Ready is the number of keys that wait for a worker, by priority: live changes of primaries, changes of
	// secondaries, and background work (initial list, resync, requeues). A Priority that has no name counts as the next
	// one below it that has, and as background if there is none. Delayed is the number of pending delays.
	// OldestReady is how long the oldest ready key has waited. Groups is how many groups have keys among them, with
	// WithFairness. RateWaits counts keys that had to wait for WithRate though a worker was free.
	Ready       [3]int
	Delayed     int
	OldestReady time.Duration
	Groups      int
	RateWaits   uint64
	// Remembered is how much the controller keeps of single keys beside its caches: runs that are due or delayed,
	// failures, deletes whose teardown is owed, and the like. It is 0 where all is reconciled and nothing waits.
	Remembered int
	// Failing is the number of keys whose last attempt failed, Parked the number of keys parked by a terminal error.
	// These, Looping, TeardownsOwed, Brake and what sweeps found are 0 while this replica does not lead: the one that
	// does has its own.
	Failing, Parked int
	// Looping is the number of keys whose reconcile wakes itself by its own writes, again and again, and is delayed.
	// Loops counts how often that was noticed; an event on the primary says what keeps changing.
	Looping int
	Loops   uint64
	// Leading tells whether this replica works now. Terms counts how often it began to.
	Leading bool
	Terms   uint64
	// Degraded holds what does not work now, by name: sources, the records if they cannot be written, the lease, the
	// brake while it holds deletes, and more. Each error is a *Problem, which says since when; its text says why, and
	// what to do. It is empty if all is well. What keeps keys from being reconciled shows here within two seconds of
	// being knowable, and goes when it is mended.
	Degraded map[string]error
	// Brake is the state of the brake. BrakeEngaged counts how often it engaged.
	Brake        BrakeState
	BrakeEngaged uint64
	// TornDown counts primaries whose teardown has ended. Cascaded counts secondaries that the runtime deleted for
	// them.
	// Pruned counts those that a reconcile did not want any more; see WithPrune.
	TornDown, Cascaded, Pruned uint64
	// Sweeps counts sweeps that have ended. Orphaned is how many objects without an owner the last one found. Those
	// that name a hash of the owner's key alone stay: a hash does not tell whether such an owner is really gone.
	Sweeps   uint64
	Orphaned int
	// NeverWas is how many of Orphaned name an owner that, as far as anybody can tell, never was: it has neither a
	// document nor a record, and the leader no marker of its delete; or it is no key that the bucket can have. They are
	// never deleted, no reconciler is called for them unless their owner is enqueued by hand, and the brake does not
	// hold them. The log names each once. If they carry a revision which tells that the bucket was restored, Degraded
	// says so.
	NeverWas int
	// CrossNamespace is how many objects the last sweep found that name an owner in another namespace, in a source
	// without WithOwnersInOtherNamespaces. They are never deleted, no primary is reconciled for them, and the log names
	// each once.
	CrossNamespace int
	// Unmarked is how many objects the last sweep found that a handle of this controller has written and that name no
	// owner any more, or none that can be made out: its labels and annotations were taken off. They are never
	// deleted, and the log names them. What a handle wrote outside of a reconcile, for no owner, counts too.
	Unmarked int
	// Contradicting is how many objects the last sweep found whose labels name another owner or installation than their
	// annotations, which name a primary of this controller. They are never deleted, and the log names them.
	Contradicting int
	// Unproven is how many objects the last sweep found that name an owner of this controller, and carry no valid proof
	// of that though WithOwnerProof wants one. They are never deleted, and the log names them. A reconcile that writes
	// one proves it. ProvenByOlder is how many carry a proof by another secret than the first: while there are any, the
	// older secrets are needed. LeftUnproven counts objects that a teardown left at its end because they carried no
	// valid proof.
	Unproven, ProvenByOlder int
	LeftUnproven            uint64
	// Foreign counts encounters with objects that name an owner of this kind and are not deleted: they are of another
	// installation or of none, they are in another namespace, or their labels name another owner than their
	// annotations.
	Foreign uint64
	// Uncovered counts encounters with objects of a primary that a Kubernetes informer does not show, because it is
	// confined to other namespaces or labels. When the primary goes, only the process that wrote them knows of them.
	Uncovered uint64
	// Unlisted counts teardowns that ended though the API server refused, for half a minute, to list what they may have
	// left: what the cache did not show, nothing deletes. The log says which right is missing.
	Unlisted uint64
	// Malformed counts reports of keys of a wrong shape, Invalid reports of documents that do not decode.
	Malformed, Invalid uint64
	// MapperErrors counts failed calls of the functions given to Watches and WatchesKube, RecordErrors failed writes of
	// records. LeaderErrors counts failed reads from the leader of the primaries' stream; without such a read nothing
	// is deleted.
	MapperErrors, RecordErrors, LeaderErrors uint64
	// External holds the state of the external clients, by kind. BreakerOpened counts how often one of their APIs went
	// away.
	External      map[string]ExternalStats
	BreakerOpened uint64
	// Adds counts how often a key became due that was not due already, Delays how often one was added with a delay.
	// Unfinished is how long the attempts under way have run so far, all together.
	Adds, Delays uint64
	Unfinished   time.Duration
	// OwnWriteWaits counts how often a key was put back because the caches did not show its own last writes yet.
	OwnWriteWaits uint64
	// TeardownsOwed is how many primaries are gone and not torn down, as far as this replica has begun with them.
	TeardownsOwed int
	// Shards is how replicas share the keys, see WithShards; nil if they do not.
	Shards *ShardStats
	// Sources are the caches in NATS, by the name of the source.
	Sources map[string]SourceStats
	// Synced tells whether all sources have synced since Run began, Ended whether Run has returned.
	Synced, Ended bool
}

// SourceStats is how a cache in NATS is doing. Its fields:
//
//	Bucket  string
//	Invalid int           // how many keys exist that do not decode
//	Behind  uint64        // how many messages the server had that were not taken yet, when it last said so
//	Lag     time.Duration // how old the state is that the cache shows; 0 where nothing is known to be missing
//	// Full lists, the first one among them; those of them because the stream was another one, and because something
//	// did not fit; and how often the watch went on from where it was.
//	Lists, StreamChanges, Doubts, Resumes uint64
type SourceStats = source.Stats

// Problem is an error of Stats.Degraded. Its fields are Since, when it was first known, and Err, the reason, to which
// it unwraps.
type Problem = health.Problem

// LongestRunning is an attempt under way: its key, since when it runs, and its number, which counts from 1.
type LongestRunning struct {
	Key     string
	Since   time.Time
	Attempt int
}

// BrakeState tells whether the brake holds deletes back, since when, and why. It is kept as JSON under "_nagi.brake" in
// the status bucket, so that it survives restarts.
type BrakeState struct {
	Engaged bool `json:"engaged"`
	// Engagement is the id of this engagement; each has another. An operator's request for a release names it and how
	// many deletes are held, which is Held + Swept + Pruned: Stats.Degraded has the command.
	Engagement string    `json:"engagement,omitempty"`
	Since      time.Time `json:"since"`
	Reason     string    `json:"reason,omitempty"`
	// Held is how many deletes of primaries wait for a release. Swept is how many owners of orphaned secondaries do.
	Held  int `json:"held,omitempty"`
	Swept int `json:"swept,omitempty"`
	// Pruned is how many primaries have something to prune that waits for a release; see WithPrune.
	Pruned int `json:"pruned,omitempty"`
	// Released is true after a release, until what was held has gone.
	Released bool `json:"released,omitempty"`
}

// ExternalStats is the state of one external client.
type ExternalStats struct {
	// Resources is how many resources the last list showed.
	Resources int
	// Away tells whether the API is away, since when, and why. Waiting is the number of keys that wait for it.
	Away    bool
	Since   time.Time
	Reason  string
	Waiting int
	// TurnedAway is the number of keys that come back for their turn under the rate limit.
	TurnedAway int
}

// statsOf reads the counts and states of an engine.
func statsOf(e *engine.Engine) Stats {
	c, queue := e.Counters(), e.QueueCounts()
	failing, parked, owed := e.KeyCounts()
	longest, unfinished := e.Longest()
	s := Stats{
		Reconciles: c.Reconciles.Load(), Failures: c.Failures.Load(), Terminals: c.Terminals.Load(),
		ReconcileTime: time.Duration(c.ReconcileNanos.Load()),
		Running:       int(c.Running.Load()), Workers: e.Workers(),
		Delayed: queue.Delayed, OldestReady: queue.Oldest, Remembered: e.Remembered(),
		Groups: queue.Groups, RateWaits: e.RateWaits(), Failing: failing, Parked: parked,
		Leading: e.Leads(), Terms: c.Terms.Load(),
		BrakeEngaged: c.BrakeEngaged.Load(),
		TornDown:     c.TornDown.Load(), Cascaded: c.Cascaded.Load(), Pruned: c.Pruned.Load(),
		Sweeps:       c.Sweeps.Load(),
		LeftUnproven: c.LeftUnproven.Load(),
		Foreign:      c.Foreign.Load(), Uncovered: c.Uncovered.Load(), Unlisted: c.Unlisted.Load(),
		Malformed: c.Malformed.Load(), Invalid: c.Invalid.Load(),
		MapperErrors: c.MapperErrors.Load(), RecordErrors: c.RecordErrors.Load(), LeaderErrors: c.LeaderErrors.Load(),
	}
	s.Looping, s.Loops = e.Looping(), c.Loops.Load()
	s.Adds, s.Delays = e.QueueTotals()
	s.Unfinished, s.OwnWriteWaits = unfinished, c.OwnWriteWaits.Load()
	s.TeardownsOwed, s.Sources, s.Shards = owed, e.SourceStats(), shardStatsOf(e.ShardStats())
	s.Synced, s.Ended = e.Phase()
	s.LongestRunning = LongestRunning{Key: longest.Key, Since: longest.Since, Attempt: longest.Attempt}
	if swept := c.Ownerless.Load(); swept != nil {
		s.Orphaned, s.Unmarked, s.Contradicting = swept.Orphaned, swept.Unmarked, swept.Contradicting
		s.Unproven, s.ProvenByOlder = swept.Unproven, swept.ProvenByOlder
		s.NeverWas, s.CrossNamespace = swept.NeverWas, swept.CrossNamespace
	}
	for prio, depth := range queue.Ready {
		s.Ready[len(s.Ready)-1-prio] = depth
	}
	s.Brake = BrakeState(e.BrakeState())
	if !s.Leading && !e.Shares() {
		s.forgetTerm()
	}
	s.Degraded = e.Health().Degraded()
	s.BreakerOpened = c.BreakerOpened.Load()
	for kind, api := range e.APIStats() {
		if s.External == nil {
			s.External = map[string]ExternalStats{}
		}
		s.External[kind] = ExternalStats{
			Resources: api.Resources, Away: api.Away, Since: api.Since, Reason: api.Reason,
			Waiting: api.Waiting, TurnedAway: api.TurnedAway,
		}
	}
	return s
}

// forgetTerm leaves out what is the leader's to say.
func (s *Stats) forgetTerm() {
	s.Failing, s.Parked, s.Looping, s.TeardownsOwed = 0, 0, 0, 0
	s.Brake = BrakeState{}
	s.Orphaned, s.NeverWas, s.CrossNamespace = 0, 0, 0
	s.Unmarked, s.Contradicting, s.Unproven, s.ProvenByOlder = 0, 0, 0, 0
}
