package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// mostNamed is how many objects an answer names.
const mostNamed = 10

// Explain says what becomes of a key, and what it owns behind APIs.
func (x *Explainer) Explain(key string) Explanation {
	e := x.explain(key)
	if e.State != Malformed {
		e.Outside = x.APIs.Owned(key, e.Leading)
	}
	return e
}

// explain is Explain for lists, without what each key owns.
func (x *Explainer) explain(key string) Explanation {
	if !x.WellFormed(key) {
		e := Explanation{Key: printable.Text(key), State: Malformed, meant: x.Meant(key)}
		e.Says = e.sentence()
		return e
	}
	f := x.look(key)
	stream := x.Primary.StreamID()
	e := Explanation{Key: key, Revision: f.view.Revision, Leading: f.lead.Leads, Leader: printable.Text(f.lead.Holder)}
	e.State, e.Since = f.stateOf(stream)
	e.leaseless = f.lead.Beside
	if f.shared {
		e.Member, e.share = printable.Text(f.share.Member), f.share
	}
	f.addDue(&e)
	if e.State == Ready {
		e.turn = x.Queue.TurnOf(key)
		e.Group, e.GroupKeys, e.RateAt = printable.Text(e.turn.Group), e.turn.Keys, e.turn.RateAt
	}
	f.addTrouble(&e, stream)
	f.addRecord(&e, stream)
	if last := x.Running.LastOf(key); e.ReconciledRevision > 0 || f.unrecorded && !last.At.IsZero() {
		if !last.At.IsZero() {
			e.ReconciledAt, e.Took = last.At, last.Took
		}
	}
	if f.failures() > 0 && f.keys.Trouble.AwaitsName {
		e.AwaitsNames = x.namesFor(key)
	}
	if e.Deleting = f.owed(); e.Deleting && x.Teardown != nil {
		e.StillThere, e.StillThereAll = x.Teardown.StillThere(key, mostNamed)
	}
	e.recordAlone = f.view.Presence == source.Absent && f.record != nil && !e.Deleting
	e.HoldsPrune = f.holdsPrune
	f.addExpiry(&e, time.Now())
	if warned := f.view.Warned; warned != nil {
		e.DocumentWarnings = printable.Message(warned.Message)
	}
	e.Missing = x.missing()
	e.WokenBy = wokenBy[e.State]
	e.Says = e.sentence()
	return e
}

// Meant is the key that the bucket can have where one was asked for that it cannot have: of a namespaced bucket
// "namespace/name" for "namespace.name", and the other way round; "" if there is none.
func (x *Explainer) Meant(key string) string {
	for _, other := range []string{strings.Replace(key, ".", "/", 1), strings.Replace(key, "/", ".", 1)} {
		if other != key && x.WellFormed(other) {
			return other
		}
	}
	return ""
}

// namesFor names what the key wants and another primary has.
func (x *Explainer) namesFor(key string) (names []string) {
	for s, object := range source.AwaitedNames(x.Sources, key) {
		names = append(names, s.String()+" "+printable.Quote(object))
	}
	slices.Sort(names)
	return names[:min(len(names), mostNamed)]
}

// addDue says what of the key is due, runs, or is delayed.
func (f *facts) addDue(e *Explanation) {
	q := &f.queue
	if q.Due != 0 {
		e.Priority, e.Reasons, e.ReadySince = q.Prio.String(), q.Due.String(), q.ReadyAt
	}
	if f.run.Key != "" {
		e.RunningSince, e.Attempt = f.run.Since, f.run.Attempt
	}
	if q.Wait.IsSet() {
		e.DueAt, e.Reasons = q.Wait.Due, q.Wait.Ops.String()
	}
	if q.User.IsSet() {
		e.UserDueAt = q.User.Due
	}
}

// addTrouble says what is wrong with the key, and what it waits for.
func (f *facts) addTrouble(e *Explanation, stream string) {
	k := &f.keys
	if e.Failures = f.failures(); e.Failures > 0 {
		e.Error, e.FailingSince = k.Trouble.Error, k.Trouble.Since
	}
	if e.Parked = f.staysParked(); e.Parked {
		e.Error, e.FailingSince = k.Trouble.Error, k.Trouble.Since
		e.ParkedRevision = f.view.Revision
	}
	switch {
	case f.view.Presence == source.Invalid:
		why := entity.WhyInvalid(f.view.Why)
		why.Revision, why.Stream = f.view.Refused, stream
		e.Invalid = &why
	case f.isUnrecordable():
		why := *f.record.Invalid
		e.Invalid = &why
	}
	if e.Suspended = f.view.Suspended(); e.Suspended {
		e.SuspendReason = printable.Message(f.view.Object.GetAnnotations()[entity.SuspendReasonAnnotation])
	}
	e.Held = f.held
	e.AwaitsWrites = !k.AwaitsWrites().IsZero()
	e.Looping = k.Looping
	switch resumed := f.queue.Running || f.queue.Due != 0; {
	case resumed || k.Awaits.Kind == "":
	case k.Awaits.Away:
		e.AwaitsAPI = k.Awaits.Kind
	default:
		e.AwaitsTurn = k.Awaits.Kind
	}
}

// awaitsName is how a condition begins that names the owner of something.
const awaitsName = record.WaitsFor + "a name"

// addRecord says what the record says. Messages are told where they say what is waited for: others may name owners.
func (f *facts) addRecord(e *Explanation, stream string) {
	if f.record == nil {
		return
	}
	if f.record.Stream == stream {
		e.ReconciledRevision = f.record.ObservedRevision
	}
	c := f.recorded()
	if c == nil {
		return
	}
	e.Recorded, e.ReconciledAt = printable.Text(c.Reason), c.LastTransitionTime.Time
	switch {
	case strings.HasPrefix(c.Message, awaitsName):
		e.RecordedMessage = awaitsName + " that somebody else has"
	case strings.HasPrefix(c.Message, record.WaitsFor):
		e.RecordedMessage = printable.Message(c.Message)
	}
}

// addExpiry says when the document ends, or has ended, by its TTL. Where its delete was not observed, the record knows
// the TTL.
func (f *facts) addExpiry(e *Explanation, now time.Time) {
	if f.view.Presence == source.Present {
		if f.view.Object != nil { // else another replica has it
			e.Expires, _ = entity.ExpiresAt(f.view.Object)
		}
		return
	}
	deleted := f.keys.Deleted
	if !e.Deleting || deleted != nil && !deleted.Expired {
		return
	}
	if f.record != nil {
		ends, err := time.Parse(time.RFC3339, f.record.DocumentExpires)
		if err == nil && (deleted != nil || !ends.After(now)) {
			e.Expires, e.Expired = ends, true
		}
	}
	if deleted != nil {
		e.Expired = true
	}
	if deleted != nil && deleted.Object != nil {
		if ends, ok := entity.ExpiresAt(deleted.Object); ok {
			e.Expires = ends
		}
	}
}
