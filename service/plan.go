package service

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// planTimeout bounds a plan, which takes as long as a reconcile.
const planTimeout = 30 * time.Second

// planTurn has plans of one key wait for each other, and no other act for them.
func planTurn(r *request) (string, error) {
	key, err := r.key()
	return "plan " + key, err
}

// plan is an act, though it changes nothing: it runs the reconciler, and shows what it would write.
func plan(ctx context.Context, r *request) (any, error) {
	key, err := r.key()
	if err != nil {
		return nil, err
	}
	p, err := r.engine.Plan(ctx, key)
	switch {
	case errors.Is(err, engine.ErrNoPlans):
		return nil, refuse(codeNotThere, "%s", err.Error())
	case errors.Is(err, engine.ErrNoPlanYet):
		return nil, refuse(codeNotDone, "%s", err.Error())
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, engine.ErrPlanHangs):
		return nil, refuse(codeConflict, "%s is reconciled just now, and that takes more than %v: ask again when it "+
			"is over", printable.Quote(key), planTimeout)
	case err != nil:
		return nil, err
	}
	r.hideOthers(p)
	p.Fit(r.room)
	return p, nil
}

// hideOthers hides, from who asks about one namespace, what other objects have in them: only that they would change is
// told. What is behind an API is the primary's alone.
func (r *request) hideOthers(p *controller.Plan) {
	for i := range p.Changes {
		c := &p.Changes[i]
		if r.confined && c.System != dryrun.External && !strings.HasPrefix(c.Key, r.prefix()) {
			c.More, c.Fields = c.More+len(c.Fields), nil
		}
	}
}
