package controller

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/engine"
)

// Plan is what a reconcile would do, as [Controller.Plan] found out. The services API sends it as it is. Its fields:
//
//	Key          string
//	Revision     uint64        // of the document; 0 if it is gone
//	Operations   string        // with which the reconciler was called: Manual, or Delete
//	Changes      []PlanChange  // in the order of the writes
//	MoreChanges  int           // beside them, where an answer has no room for all
//	Error        string        // of the reconcile: what comes after the failure is not known
//	Waits        string        // what the primary would wait for after it
//	RequeueAfter string        // "5s": when it would be due again by itself
//	Notes        []string      // warnings, and what holds something up
type Plan = dryrun.Outcome

// PlanChange is what would happen to one object, all writes of it taken together. Its fields:
//
//	System string // NATS, Kubernetes or external
//	Kind   string // or the resource: "deployments.apps"
//	Bucket string // in NATS
//	Key    string
//	Status bool   // the status alone
//	Action string // create, update or delete
//	Fields []struct{ Path, From, To string } // 40 at most: values as JSON, cut after 200 bytes; secrets are hidden
//	More   int    // fields beside them
//	Why    string // where the runtime does it and not the reconciler
type PlanChange = dryrun.Change

// WithPlan allows plans: [Controller.Plan], the verb "plan" of package service, and nagi plan. It says of the
// reconciler that it writes through Nagi alone, with the context that it is given: clients of package entity,
// CreateOrUpdate, SetStatus, handles of package kube, and external.Reconcile. What it writes by other means, such as
// a client of its own for Kubernetes, PutAsync of records or an event, and what it enqueues, would be done by a plan,
// too; [Planning] tells it to leave that.
func WithPlan() Option {
	return func(o *engine.Options) error {
		o.Plans = true
		return nil
	}
}

// Plan calls the reconciler for a key as if it were due, and returns what it would create, change and delete in NATS,
// in Kubernetes and behind APIs, and what the runtime would delete after it: what the primary does not want any more
// (WithPrune), or, if its document is gone, all that it owns. Nothing is written. It needs WithPlan.
//
// Writes to NATS are compared with what the leader has, and refused as they would be there, but for rights and limits
// of the server. Writes to Kubernetes are dry runs of the API server, with its defaults, its validation and its
// webhooks; it asks for the same rights. Of a resource behind an API the driver is asked to Observe and to Diff, and
// not to Apply. What a reconcile decides after it has seen the result of a write, such as an id that an API gives, is
// not in the plan: the plan says what it would wait for.
//
// Get of a client of package entity reads, in the same reconcile, what it would have written. Lists and listers do not,
// nor do Get, List and OwnedBy of a Handle of package kube: they show what is there. Of a Kubernetes object that is
// written several times the plan shows the first write, and a note. One that it deletes and makes again, or whose
// namespace it makes, is shown as it would be sent: the API server cannot say more while the old one is there, or the
// namespace is not.
//
// Plan works whether this replica leads or not, once its caches are complete, and for suspended and parked keys, too.
// No worker has the key meanwhile: a plan waits for a reconcile that goes on, and the next one waits for the plan. The
// error is IsNotFound if the key has no document and nothing is owed. It is for the plan as a whole; an error of the
// reconcile is Plan.Error. ctx bounds it, and so does WithReconcileTimeout; it ends with Run, which does not wait for
// it. A reconciler that does not heed its context holds the key until it returns, and shows as a reconcile that is
// stuck. Plan may be called concurrently, and not with the context of a reconcile.
func (c *Controller[T]) Plan(ctx context.Context, key string) (*Plan, error) {
	plan, err := c.engine.Plan(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("controller %q: plan %s: %w", c.engine.Name(), key, err)
	}
	return plan, nil
}

// Planning reports whether ctx is that of a plan, for a reconciler that does something beside what Nagi writes for it:
// then it must not.
func Planning(ctx context.Context) bool { return dryrun.Of(ctx) != nil }
