package controller

import (
	"iter"
	"reflect"

	"github.com/nagi-runtime/nagi/internal/explain"
)

// KeyState is what a key does now, in one word: StateMalformed and the constants beside it.
type KeyState = explain.State

// The states of keys. Of several things that are true at once the state is the one that decides what happens next.
const (
	StateMalformed    = explain.Malformed    // the bucket cannot have such a key
	StateUnknown      = explain.Unknown      // there is no document, nothing is owed, and nothing is due
	StateStopped      = explain.Stopped      // Run was not called, or has ended
	StateStarting     = explain.Starting     // the caches are not complete, or the term has not begun
	StateStandby      = explain.Standby      // another replica works: see Leader
	StateElsewhere    = explain.Elsewhere    // with WithShards: another replica works at it, see Member
	StateRunning      = explain.Running      // Reconcile is called: see RunningSince
	StateHandling     = explain.Handling     // a worker writes its record, or deletes what it owned
	StateInvalid      = explain.Invalid      // its document does not decode: see Invalid
	StateUnreadable   = explain.Unreadable   // its record cannot be read, and nothing happens until it is mended
	StateSuspended    = explain.Suspended    // its document asks not to be reconciled
	StateHeld         = explain.Held         // the brake holds its delete
	StateParked       = explain.Parked       // it failed for good: see Error and ParkedRevision; DueAt if an event came
	StateReady        = explain.Ready        // it waits for a worker: see ReadySince, Priority, Group and RateAt
	StateAPI          = explain.API          // it waits for an external API that is away: see AwaitsAPI
	StateTurn         = explain.Turn         // it waits for a turn under a rate limit: see AwaitsTurn
	StateOwnWrites    = explain.OwnWrites    // it waits until the caches show what its last reconcile wrote
	StateName         = explain.Name         // it wants a name that another's object has, and is tried again: see DueAt
	StateLooping      = explain.Looping      // its own writes wake it again and again, and it is delayed
	StateRetry        = explain.Retry        // it failed, and is tried again: see DueAt, Failures and Error
	StateRequeue      = explain.Requeue      // the last reconcile asked for it with RequeueAfter: see DueAt
	StateDebounced    = explain.Debounced    // it changed a moment ago, and has to be quiet first: see DueAt
	StateDeleting     = explain.Deleting     // its document is gone, and its teardown goes on: see StillThere
	StateDelayed      = explain.Delayed      // only an EnqueueAfter is pending: see UserDueAt
	StateArriving     = explain.Arriving     // the caches are about to show its document or its record
	StateUnreconciled = explain.Unreconciled // nothing is due: its event is on the way, or a predicate held it back
	StateCalm         = explain.Calm         // its document is reconciled as it is, and nothing is due
)

// Explanation says why a key is where it is. The services API sends it as it is. Fields that say nothing are zero;
// several may be set at once. Texts are printable and bounded. They name no owner of what others have, and hold no
// values of documents, but for what a reconciler puts into its errors. Its fields:
//
//	Key      string
//	State    KeyState
//	Since    time.Time // of the state, where that is known
//	Says     string    // the same in plain words
//	Revision uint64    // of the document that decoded last
//
//	Priority, Reasons        string    // of a run that is due: live, secondary, background or "7"; "Put|Secondary"
//	ReadySince, RunningSince time.Time // a run is due (of a key that runs the next one); Reconcile is called
//	Group                    string    // of a key that waits for a worker, with WithFairness
//	GroupKeys                int       // how many keys of it wait with that priority, this one too
//	RateAt                   time.Time // when WithRate lets the next key go, of all that wait
//	Attempt                  int       // of the call under way; counts from 1
//	DueAt, UserDueAt         time.Time // the end of a delay: retry, requeue, quiet and the like; of an EnqueueAfter
//	WokenBy                  string    // what makes it due before DueAt
//
//	Failures                           int // in a row: attempts, or writes of its record
//	Error                              string
//	FailingSince                       time.Time
//	Parked                             bool
//	ParkedRevision                     uint64 // 0 for a teardown
//	Invalid                            *entity.InvalidDocument
//	Suspended, Held, Looping, Deleting bool
//	SuspendReason                      string // what its document says why
//	AwaitsWrites                       bool
//	AwaitsAPI, AwaitsTurn              string   // the kind of the API that is away, or whose rate is limited
//	AwaitsNames                        []string // with their sources, ten at most
//	StillThere                         []string // what it owned, by the caches, ten at most
//	StillThereAll                      int      // how many they are
//	Outside                            []OutsideOwned // what it owns behind each API; Explain alone says it
//	HoldsPrune                         bool     // what it does not want waits for the brake
//	DocumentWarnings                   string   // what of its document is not read
//	Expires                            time.Time // the end of its document by its TTL; also once that has come
//	Expired                            bool      // its document is gone, and its TTL is over
//	Missing                            []struct { Source string; Since time.Time; Why string } // no news from them
//
//	Leading bool   // this replica works
//	Leader  string // who held the lease when it was read last: host, process, a random part
//	Member  string // with WithShards: the name of the replica that works at the key
//
//	Recorded, RecordedMessage string        // of the record's condition: the reason; what is waited for
//	ReconciledRevision        uint64        // the last one
//	ReconciledAt              time.Time     // else when the condition last changed
//	Took                      time.Duration // of keys reconciled lately
type Explanation = explain.Explanation

// OutsideOwned says what a key owns behind one API, as this replica knows it: it asks nothing. Its fields:
//
//	Kind      string    // of the resources, as IExternalClient calls them
//	ListedAt  time.Time // when the last list began that succeeded; zero before the first
//	AwaySince time.Time // the API is away
//	Resources []struct { // by ID, a hundred at most, as that list has them
//		ID, Version string
//		DeletedAt   time.Time // when the API answered that it deletes the resource, which its list still has
//	}
//	All       int // how many they are
//	Open      []struct { // of a replica that works: changes of external.Reconcile that were not seen to be done
//		Resource  string          // the kind, or the kind and the name of external.Name
//		Action    external.Action
//		Since     time.Time       // when the API was last called, or answered
//		Operation string          // the API's handle of the operation under way
//	}
type OutsideOwned = explain.OutsideOwned

// Explain says what becomes of a key, and why. It asks no server, and may be called at any time, by several goroutines.
func (c *Controller[T]) Explain(key string) Explanation { return c.engine.Explainer().Explain(key) }

// Keys explains the keys that are in one of the states, in the order of the alphabet; without states all that are
// known. No lock is held while it goes on. A key that comes meanwhile may be missing; one that has left the state is
// left out. What it costs is what it shows: of more than a thousand keys that would have to be looked at in vain, or
// that are due, delayed or failing, a list is kept, and keys that came since it was made are missing. It is made again
// as soon as that takes no more than a fiftieth of the time.
func (c *Controller[T]) Keys(states ...KeyState) iter.Seq[Explanation] {
	return c.KeysAfter("", states...)
}

// KeysAfter is Keys from behind a key on, to go on where a page has ended.
func (c *Controller[T]) KeysAfter(key string, states ...KeyState) iter.Seq[Explanation] {
	return c.engine.Explainer().Each(key, states...)
}

// TopKeys returns the n first of Keys in an order, such as OldestFirst: the ten that wait longest for a worker are
// c.TopKeys(10, OldestFirst, StateReady), the ten that fail most c.TopKeys(10, MostFailingFirst). In these two orders
// no others than those n are explained. The oldest that are ready, debounced, or delayed by RequeueAfter or
// EnqueueAfter are known without a look at the rest. Otherwise it looks at all keys that may be in the states; if these
// are more than a thousand, a ranking is kept as Keys keeps lists, for fifty times as long as it took to make it. Until
// it is made anew, keys are missing that came into the states since, or came back into them, and a key that has failed
// more often since may be behind its place, or missing.
// Any other order is given an explanation of each key, at each call. A nil order means OldestFirst. It is safe for
// concurrent use.
func (c *Controller[T]) TopKeys(n int, order func(a, b Explanation) int, states ...KeyState) []Explanation {
	x := c.engine.Explainer()
	switch {
	case order == nil, isOrder(order, OldestFirst):
		return x.TopOldest(n, states...)
	case isOrder(order, MostFailingFirst):
		return x.TopFailing(n, states...)
	}
	return explain.Top(c.Keys(states...), n, order)
}

// isOrder reports whether two orders are the same function.
func isOrder(a, b func(a, b Explanation) int) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// OldestFirst orders by how long keys have been in their state; those of which that is not known come last.
func OldestFirst(a, b Explanation) int { return explain.OldestFirst(a, b) }

// MostFailingFirst orders by how often keys failed in a row.
func MostFailingFirst(a, b Explanation) int { return explain.MostFailingFirst(a, b) }
