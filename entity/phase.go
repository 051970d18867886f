package entity

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase is what a record says of its primary, in one word. See Record.Phase.
type Phase string

// The phases. Each is about the latest revision that the controller has begun with.
const (
	// PhasePending is a primary that is about to be reconciled, or is being reconciled for the first time at its
	// revision.
	PhasePending Phase = "Pending"
	// PhaseSynced is reconciled, with success.
	PhaseSynced Phase = "Synced"
	// PhaseRetrying failed, or waits for something, and is tried again.
	PhaseRetrying Phase = "Retrying"
	// PhaseTerminal failed with an error that no retry can mend: it is parked until its document, or something that it
	// owns or reads, changes.
	PhaseTerminal Phase = "Terminal"
	// PhaseInvalid has a document that does not decode, or that no record can hold.
	PhaseInvalid Phase = "Invalid"
	// PhaseSuspended has the SuspendAnnotation.
	PhaseSuspended Phase = "Suspended"
	// PhaseDeleting has no document any more, and its teardown waits for something or fails.
	PhaseDeleting Phase = "Deleting"
	// PhaseUnknown is what a record of another version says in words that this one does not know.
	PhaseUnknown Phase = "Unknown"
)

// Phase derives the phase from the record's conditions and revisions, so it cannot contradict them. Each record that is
// written has it as the member "phase", for readers without Go.
//
// What the brake holds has the phase it had before: to hold deletes back writes no records. The reserved key
// "_nagi.brake" of the status bucket says that the brake is engaged.
func (r *Record) Phase() Phase {
	condition := meta.FindStatusCondition(r.Conditions, ConditionReconciled)
	switch {
	case meta.IsStatusConditionTrue(r.Conditions, ConditionDeleting):
		return PhaseDeleting
	case condition == nil:
		return PhasePending
	case condition.Status == metav1.ConditionTrue:
		if r.ObservedRevision < r.DocumentRevision {
			return PhasePending
		}
		return PhaseSynced
	}
	switch reason := condition.Reason; reason {
	case ReasonInvalid, ReasonRetrying, ReasonTerminal, ReasonSuspended:
		elsewhere := r.Invalid != nil && r.Invalid.Stream != r.Stream // the anchor is of a stream that is no more
		if uint64(condition.ObservedGeneration) < r.DocumentRevision && !elsewhere {
			return PhasePending
		}
		return Phase(reason)
	}
	return PhaseUnknown
}

// encodedRecord is a record as it is written.
type encodedRecord struct {
	*Record
	Phase Phase `json:"phase"`
}
