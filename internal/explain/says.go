package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// wokenBy says what makes a key due earlier than its delay, or though it rests, by state.
var wokenBy = map[State]string{
	Retry:      "a change of the document or of what it owns or watches, Enqueue, the end of an outage",
	Name:       "the name that it wants being free, a change of the document, Enqueue",
	Requeue:    "a change of the document or of what it owns or watches, Enqueue",
	Looping:    "a change that somebody else makes",
	Parked:     "a change of the document or of what it owns or watches, Enqueue but for Resync or Retry, a restart",
	Invalid:    "a revision that decodes, the delete of the document",
	Suspended:  "a revision without the annotation nagi/suspend, the delete of the document",
	Held:       "the document being back, a release of the brake",
	API:        "the API answering again, a change of the document or of what it owns or watches, Enqueue",
	Turn:       "a change of the document or of what it owns or watches, Enqueue",
	OwnWrites:  "nothing earlier: it is looked at again every half second, and goes on after five at the latest",
	Debounced:  "a change of what it owns or watches, Enqueue",
	Delayed:    "a change of the document or of what it owns or watches, Enqueue",
	Deleting:   "what it owned being gone",
	Calm:       "a change of the document or of what it owns or watches, a resync, Enqueue",
	Unreadable: "its record being mended or deleted",
}

// sentence says in plain words what the state is.
func (e *Explanation) sentence() string {
	return e.first() + e.beside()
}

// recordAlone is for a key that has a record, and neither a document nor a teardown that is owed.
const recordAlone = "It has no document, and a record of one that was never reconciled: nothing is owed. The next " +
	"sweep removes the record, unless the brake is engaged."

func (e *Explanation) first() string {
	switch e.State {
	case Malformed:
		if e.meant != "" {
			return fmt.Sprintf("No document of this bucket can have such a key. Here keys are like %s: ask for that.",
				printable.Quote(e.meant))
		}
		return "No document of this bucket can have such a key; nothing is done about it."
	case Unknown:
		if e.recordAlone {
			return recordAlone
		}
		return "There is neither a document nor a record of this key, and nothing is due."
	case Stopped:
		return "The controller does not run here; nothing is done about any key."
	case Starting:
		return "The controller starts: its caches are not complete yet, or its term has not begun."
	case Standby:
		switch {
		case e.leaseless && e.Leader == "":
			return "This replica reconciles it without the lease, and knows of no replica that holds it now. What " +
				"comes of it is recorded by the one that leads: if another does, ask that one."
		case e.leaseless:
			return "This replica reconciles it without the lease, which " + e.Leader + " holds. What comes of it " +
				"there is recorded: ask the replica that leads."
		case e.Leader == "":
			return "This replica waits for the lease, and knows of no replica that holds it now. If another leads, " +
				"ask that one."
		}
		return "This replica waits for the lease, which " + e.Leader + " holds. Ask the replica that leads."
	case Elsewhere:
		return e.elsewhere()
	case Running:
		if e.Attempt == 0 {
			return fmt.Sprintf("A plan of it is made since %s (Controller.Plan, nagi plan). It is reconciled after "+
				"that, if it is due.", at(e.RunningSince))
		}
		return fmt.Sprintf("The reconciler runs since %s, attempt %d.", at(e.RunningSince), e.Attempt)
	case Handling:
		return "A worker has the key: its record is read or written, or what it owned is deleted. The reconciler " +
			"does not run."
	case Invalid:
		return e.invalid()
	case Unreadable:
		return "Its record cannot be read, so the key is not reconciled until the record is mended or deleted."
	case Suspended:
		if e.SuspendReason != "" {
			return "Its document asks not to be reconciled (annotation nagi/suspend): " + e.SuspendReason
		}
		return "Its document asks not to be reconciled (annotation nagi/suspend)."
	case Held:
		return "Its delete was not seen, and the brake holds it. Put the document back, and it is as before; a " +
			"release of the brake deletes what it owns."
	case Parked:
		return e.parked()
	}
	return e.waits()
}

func (e *Explanation) parked() string {
	says := fmt.Sprintf("The reconcile of %s failed for good: %s.", revision(e.ParkedRevision), e.Error)
	if !e.DueAt.IsZero() {
		says += fmt.Sprintf(" Something has happened since (%s), and it is tried again at %s.", e.Reasons, at(e.DueAt))
	}
	return says
}

func (e *Explanation) waits() string {
	switch e.State {
	case Ready:
		return fmt.Sprintf("It waits for a worker since %s (priority %s), because of %s.",
			at(e.ReadySince), e.Priority, e.Reasons) + e.turns()
	case API:
		return fmt.Sprintf("It waits since %s for the API of %s, which is away.", at(e.Since), e.AwaitsAPI)
	case Turn:
		return fmt.Sprintf("It waits for a turn at the API of %s, whose rate is limited, until %s.",
			e.AwaitsTurn, at(e.DueAt))
	case OwnWrites:
		return fmt.Sprintf("It waits since %s until the caches show what its last reconcile wrote.", at(e.Since))
	case Name:
		return fmt.Sprintf("It wants a name that somebody else has, and is tried again at %s.", at(e.DueAt))
	case Looping:
		return fmt.Sprintf("Its reconcile wakes itself by its own writes, and is delayed until %s.", at(e.DueAt))
	case Retry:
		return fmt.Sprintf("It failed %s, and is tried again at %s: %s.", times(e.Failures), at(e.DueAt), e.Error)
	case Requeue:
		if e.HoldsPrune {
			return fmt.Sprintf("It owns something that it no longer wants, which waits for the decision of the brake, "+
				"or for a release. It is looked at again at %s.", at(e.DueAt))
		}
		return fmt.Sprintf("Its last reconcile asked to be called again at %s.", at(e.DueAt))
	case Debounced:
		return fmt.Sprintf("It has changed, and is reconciled at %s unless it changes again before.", at(e.DueAt))
	case Deleting:
		return e.deleting()
	case Delayed:
		return fmt.Sprintf("Somebody asked for it with EnqueueAfter: it is due at %s.", at(e.UserDueAt))
	case Arriving:
		if e.recordAlone {
			return recordAlone
		}
		return "The caches are about to show its document or its record."
	case Unreconciled:
		return fmt.Sprintf("%s was not reconciled, and nothing is due: its event is on the way, or a predicate held "+
			"it back.", capital(revision(e.Revision)))
	}
	if len(e.Missing) > 0 {
		return fmt.Sprintf("Nothing is due%s. But whether it is as it should be is not known.", e.last())
	}
	return fmt.Sprintf("It is as it should be: nothing is due%s.", e.last())
}

// beside says what is true at the same time.
func (e *Explanation) beside() string {
	var b strings.Builder
	if e.State == Running || e.State == Handling {
		if !e.ReadySince.IsZero() {
			fmt.Fprintf(&b, " It is due again, because of %s.", e.Reasons)
		}
	}
	if e.State != Delayed && !e.UserDueAt.IsZero() {
		fmt.Fprintf(&b, " Somebody asked for it at %s, too.", at(e.UserDueAt))
	}
	if e.State != Retry && e.State != Parked && e.Failures > 0 {
		fmt.Fprintf(&b, " It failed %s: %s.", times(e.Failures), e.Error)
	}
	if e.Deleting && e.State != Deleting {
		b.WriteString(" " + e.deleting())
	}
	if e.HoldsPrune && e.State != Requeue {
		b.WriteString(" What it owns and no longer wants waits for the decision of the brake, or for a release.")
	}
	if !e.Expires.IsZero() && !e.Expired {
		fmt.Fprintf(&b, " Its document has a TTL, and ends at %s unless a write sets another one.", at(e.Expires))
	}
	if e.DocumentWarnings != "" {
		fmt.Fprintf(&b, " Of its document something is not read: %s.", e.DocumentWarnings)
	}
	if len(e.Missing) > 0 && e.State != Malformed {
		b.WriteString(" " + capital(e.missingNews()) + ".")
	}
	return b.String()
}

// turns says behind what a key waits that waits for a worker.
func (e *Explanation) turns() (says string) {
	if e.turn.Grouped {
		says = fmt.Sprintf(" With this priority %d of its group %s wait", e.GroupKeys, printable.Quote(e.Group))
		if e.turn.Others {
			says += ", and the group takes turns with others"
		}
		says += "."
	}
	if !e.RateAt.IsZero() {
		says += fmt.Sprintf(" The controller's rate of %.4g reconciles a second is used up: the next key, of all that "+
			"wait, is due at %s.", float64(time.Second)/float64(e.turn.Every), at(e.RateAt))
	}
	return says
}

// elsewhere is for a key at which another one works of the replicas that share the keys.
func (e *Explanation) elsewhere() string {
	says := fmt.Sprintf("No replica works at it now: none has its slot (%d) whose lease is there.", e.share.Slot)
	next := printable.Text(e.share.Next)
	switch {
	case e.confined && e.share.Member != "":
		return "Another replica works at it."
	case e.confined:
		return says
	case e.Member != "" && next != "":
		return fmt.Sprintf("Member %s works at it, and member %s is about to: its slot (%d) is handed over.",
			e.Member, next, e.share.Slot)
	case e.Member != "":
		return fmt.Sprintf("Member %s works at it, which has its slot (%d). Ask that one.", e.Member, e.share.Slot)
	case next != "":
		return says + fmt.Sprintf(" Member %s is to take it.", next)
	}
	return says
}

func (e *Explanation) deleting() string {
	says := e.gone() + ", and its teardown goes on"
	switch {
	case e.State == Deleting && e.DueAt.IsZero():
		says = e.gone() + ", and its teardown is owed: its event is on the way, or nobody was seen to delete it and " +
			"the brake decides"
	case e.State == Held || e.State == Parked || e.State == Standby || e.State == Elsewhere:
		says = e.gone() + ", and its teardown is owed"
	}
	if e.StillThereAll == 0 {
		return says + "."
	}
	return fmt.Sprintf("%s; of what it owned %d are still there, such as %s.", says, e.StillThereAll, e.StillThere[0])
}

// gone says that the document is.
func (e *Explanation) gone() string {
	switch {
	case !e.Expired:
		return "Its document is gone"
	case e.Expires.IsZero():
		return "Its document has expired by its TTL"
	}
	return fmt.Sprintf("Its document has expired: its TTL ended at %s", at(e.Expires))
}

func (e *Explanation) invalid() string {
	place := ""
	if e.Invalid.Path != "" {
		place = e.Invalid.Path + ": "
	}
	return fmt.Sprintf("%s is invalid: %s%s. It is not reconciled until that is mended.",
		capital(revision(e.Invalid.Revision)), place, e.Invalid.Reason)
}

func (e *Explanation) last() string {
	if e.ReconciledRevision == 0 {
		return ""
	}
	return "; " + revision(e.ReconciledRevision) + " is reconciled"
}

func revision(n uint64) string {
	if n == 0 {
		return "the teardown"
	}
	return fmt.Sprintf("revision %d", n)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// at is a time as a sentence has it.
func at(t time.Time) string { return cmp.Or(t, time.Time{}).UTC().Format("2006-01-02T15:04:05.000Z") }
