package replica

import (
	"context"
	"time"

	nagi "github.com/nagi-runtime/nagi/controller"
)

// newController makes the controller with the code of this tree. testdata/old/controller.go does the same with the code
// before the rebuild. When this file changes, that one does not need to.
func newController(r *replica) (controller, error) {
	opts := []nagi.Option{
		nagi.Owns(r.pages), nagi.WithWorkers(4), nagi.WithResyncInterval(r.resync),
		nagi.WithBackoff(20*time.Millisecond, 200*time.Millisecond),
		nagi.WithLeaseTiming(nagi.LeaseTiming{Duration: r.duration, RenewDeadline: r.renew, RetryPeriod: r.retry}),
	}
	if r.cloud != "" {
		opts = append(opts, nagi.OwnsExternal(r.client()))
	}
	c, err := nagi.New("sites", r.sites, nagi.ReconcilerFunc(
		func(ctx context.Context, req nagi.Request) (nagi.Result, error) {
			again, err := r.reconcile(ctx, req.Key, req.Operations.String())
			return nagi.Result{RequeueAfter: again}, err
		}), opts...)
	if err != nil {
		return controller{}, err
	}
	return controller{
		run:       c.Run,
		state:     func() state { return stateOf(c.Stats()) },
		lastKnown: c.LastKnown,
		setStatus: nagi.SetStatus,
		createOrUpdate: func(ctx context.Context, p *page, mutate func(*page) error) error {
			_, err := nagi.CreateOrUpdate(ctx, r.pages, p, mutate)
			return err
		},
	}, nil
}

func stateOf(s nagi.Stats) state {
	return state{
		Leading: s.Leading, Idle: s.Ready == [3]int{} && s.Running == 0, Sweeps: s.Sweeps, TornDown: s.TornDown,
		Engaged: s.Brake.Engaged, Since: s.Brake.Since, Reason: s.Brake.Reason, Released: s.Brake.Released,
		Held: s.Brake.Held + s.Brake.Swept,
	}
}
