package controllerruntime

import (
	"context"
	"slices"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/engine"
)

// attachLater keeps New from telling observers whom they observe: each call of WithOptions makes another controller,
// and only one of them runs. Run tells them.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) attachLater(o *engine.Options) {
	r.attachers = nil
	o.Observers = slices.Clone(o.Observers)
	for i, observer := range o.Observers {
		attacher, ok := observer.(controller.Attacher)
		if !ok {
			continue
		}
		r.attachers = append(r.attachers, attacher)
		o.Observers[i] = unattached{observer}
	}
}

// unattached is an observer that is an Attacher no more, and all else that it was.
type unattached struct{ controller.Observer }

// TakesCauses implements controller.CauseTaker.
func (u unattached) TakesCauses() bool {
	taker, ok := u.Observer.(controller.CauseTaker)
	return ok && taker.TakesCauses()
}

// BeginRun implements controller.RunObserver.
func (u unattached) BeginRun(ctx context.Context) context.Context {
	if o, ok := u.Observer.(controller.RunObserver); ok {
		return o.BeginRun(ctx)
	}
	return ctx
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) attach() {
	for _, attacher := range r.attachers {
		attacher.Attach(r.name, r.controller.Stats)
	}
	r.attachers = nil
}
