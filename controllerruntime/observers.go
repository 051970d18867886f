package controllerruntime

import (
	"slices"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/engine"
)

// attachLater keeps New from telling observers whom they observe: each call of WithOptions makes another controller,
// and only one of them runs. Run tells them.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) attachLater(o *engine.Options) {
	r.attachers = nil
	o.Observers = slices.Clone(o.Observers)
	for i, observer := range o.Observers {
		attacher, ok := observer.(controller.Attacher)
		if !ok {
			continue
		}
		r.attachers = append(r.attachers, attacher)
		if taker, ok := observer.(controller.CauseTaker); ok {
			o.Observers[i] = struct{ controller.CauseTaker }{taker}
		} else {
			o.Observers[i] = struct{ controller.Observer }{observer}
		}
	}
}

func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) attach() {
	for _, attacher := range r.attachers {
		attacher.Attach(r.name, r.controller.Stats)
	}
	r.attachers = nil
}
