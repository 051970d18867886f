package service

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// The reasons of the events that say what was done for a request. They are about the primary, or the controller.
const (
	ReasonReconcile     = "ReconcileRequested"
	ReasonUnpark        = "UnparkRequested"
	ReasonResync        = "ResyncRequested"
	ReasonSuspend       = "SuspendRequested"
	ReasonResume        = "ResumeRequested"
	ReasonBrakeRelease  = "BrakeReleaseRequested"
	ReasonBrakeRestore  = "BrakeRestoreRequested"
	ReasonOrphansDelete = "OrphansDeleteRequested"
	ReasonOrphansAdopt  = "OrphansAdoptRequested"
)

// Done is the answer to "reconcile", "unpark", "suspend" and "resume".
type Done struct {
	Key string `json:"key"`
	// Changed tells whether the document was changed, by suspend or resume; or that the key was made due.
	Changed bool `json:"changed"`
}

// did notes in the log and as an event that something was done for a request; key is "" for the controller. Recorders
// take few events about one object, and those of the brake are about the controller, too: so of resyncs, which many may
// ask for, there is one event a minute.
func (r *request) did(ctx context.Context, key, reason, what string) {
	message := fmt.Sprintf("%s, as %s asked over the services API", what, r.from)
	klog.FromContext(ctx).Info("Done for a request", "key", key, "what", what, "from", r.from)
	if reason == ReasonResync && !r.mayTellOfResync() {
		return
	}
	if key == "" {
		r.engine.EventOfSelf(engine.EventNormal, reason, message)
		return
	}
	r.engine.EventOf(key, engine.EventNormal, reason, message)
}

// mayTellOfResync reports whether the last event of a resync is long ago.
func (c *served) mayTellOfResync() (may bool) {
	c.resyncs.Do(func() { may = true })
	return may
}

// useless says why to enqueue a key would do nothing, by its state.
var useless = map[controller.KeyState]string{
	controller.StateSuspended:  "its document asks not to be reconciled: resume it",
	controller.StateInvalid:    "its document is invalid: mend that",
	controller.StateUnreadable: "its record cannot be read: mend or delete the record",
	controller.StateHeld:       "the brake holds its delete: release the brake, or put the document back",
}

// enqueued makes a key due, if that can have an effect.
func (r *request) enqueued(
	ctx context.Context, reason, what string, check func(controller.Explanation) error,
) (any, error) {
	key, err := r.key()
	if err != nil {
		return nil, err
	}
	e := r.engine.Explainer().Explain(key)
	if e.State == controller.StateUnknown {
		return nil, refuse(codeNotFound, "there is neither a document nor a record of %s", printable.Quote(key))
	}
	if why := useless[e.State]; why != "" {
		return nil, refuse(codeConflict, "%s would not be reconciled: %s", printable.Quote(key), why)
	}
	if err := check(e); err != nil {
		return nil, err
	}
	r.engine.Enqueue(key, operation.Manual)
	r.did(ctx, key, reason, what)
	return &Done{Key: key, Changed: true}, nil
}

func reconcile(ctx context.Context, r *request) (any, error) {
	return r.enqueued(ctx, ReasonReconcile, "is reconciled", func(e controller.Explanation) error {
		if e.Parked {
			return refuse(codeConflict, "%s is parked, as its reconcile failed for good: unpark it to try again",
				printable.Quote(e.Key))
		}
		return nil
	})
}

func unpark(ctx context.Context, r *request) (any, error) {
	const what = "is tried again though it failed for good"
	return r.enqueued(ctx, ReasonUnpark, what, func(e controller.Explanation) error {
		if !e.Parked {
			return refuse(codeConflict, "%s is not parked: it is %s", printable.Quote(e.Key), e.State)
		}
		return nil
	})
}

// Resynced is the answer to "resync".
type Resynced struct {
	// Count is how many keys were made due.
	Count int `json:"count"`
}

func resync(ctx context.Context, r *request) (any, error) {
	if err := r.decode(&struct{}{}); err != nil {
		return nil, err
	}
	n := r.engine.EnqueueEverywhere(operation.Of(operation.Resync), r.prefix())
	r.did(ctx, "", ReasonResync, fmt.Sprintf("%d keys are reconciled (%v)", n, r.scope))
	return &Resynced{Count: n}, nil
}

// SuspendRequest is the request of "suspend".
type SuspendRequest struct {
	Key string `json:"key"`
	// Reason is for people: the document has it in the annotation nagi/suspend-reason until it is resumed. With "" a
	// reason that is there stays.
	Reason string `json:"reason,omitempty"`
}

func suspendTurn(r *request) (string, error) {
	var of SuspendRequest
	return r.keyOf(&of, &of.Key)
}

func suspend(ctx context.Context, r *request) (any, error) {
	var of SuspendRequest
	key, err := r.keyOf(&of, &of.Key)
	if err != nil {
		return nil, err
	}
	changed, err := r.primary.Suspend(ctx, key, of.Reason)
	if err != nil {
		return nil, err
	}
	if changed {
		what := "its document was suspended"
		if of.Reason != "" {
			what += " (" + printable.Message(of.Reason) + ")"
		}
		r.did(ctx, key, ReasonSuspend, what)
	}
	return &Done{Key: key, Changed: changed}, nil
}

func resume(ctx context.Context, r *request) (any, error) {
	key, err := r.key()
	if err != nil {
		return nil, err
	}
	changed, err := r.primary.Resume(ctx, key)
	if err != nil {
		return nil, err
	}
	if changed {
		r.did(ctx, key, ReasonResume, "its document was resumed")
	}
	return &Done{Key: key, Changed: changed}, nil
}
