package controllerruntime

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// garbagePatience is how long GarbageSecondaries of a custom controller may run before that is reported, or the resync
// interval if that is shorter; and how long the end of a term, or of Run, waits for it.
const garbagePatience = 10 * time.Second

// garbageName names in Stats().Degraded what is reported.
const garbageName = "GarbageSecondaries"

// garbage calls GarbageSecondaries of the custom controller, which may block for ever: nothing but the next call waits
// for it. It returns when the call has, or soon after ctx, the term, has ended. sweep is what the default does; skip is
// called if it was not.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) garbage(ctx context.Context, sweep, skip func()) {
	select {
	case r.collecting <- struct{}{}: // one call at a time: an earlier term may have left one behind
	case <-ctx.Done():
		return
	}
	var swept atomic.Bool
	r.setSweep(func() {
		if swept.Store(true); ctx.Err() == nil {
			sweep()
		}
	})
	done := make(chan struct{})
	slow := time.AfterFunc(r.garbageSlow(), func() { r.reportGarbage(ctx, done) })
	go func() {
		if err := guard.Call(func() error { r.customController().GarbageSecondaries(); return nil }); err != nil {
			printable.Logger(klog.FromContext(ctx)).Error(err, "GarbageSecondaries panicked; it is called again")
		}
		r.setSweep(nil)
		<-r.collecting // before anybody learns of the end, who may look whether a call still runs
		close(done)
		if !slow.Stop() {
			r.reportGarbage(ctx, done)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		r.await(done)
	}
	if ctx.Err() == nil && !swept.Load() {
		skip()
	}
}

// reportGarbage reports a call that has not returned, or that it has.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) reportGarbage(
	ctx context.Context, done <-chan struct{},
) {
	r.engine.Health().Change(ctx, garbageName, func() error {
		select {
		case <-done:
			return nil
		default:
			return fmt.Errorf("controller %q: GarbageSecondaries has not returned after %v, and is not called again "+
				"before it does: secondaries whose owner is gone may stay", r.name, r.garbageSlow())
		}
	})
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) garbageSlow() time.Duration {
	if r.resyncInterval > 0 {
		return min(r.patience, r.resyncInterval)
	}
	return r.patience
}

// await waits for what has to return soon.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) await(done <-chan struct{}) {
	timer := time.NewTimer(r.patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// garbageLeftBehind is, after Run's end, an error if GarbageSecondaries still runs.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) garbageLeftBehind() error {
	select {
	case r.collecting <- struct{}{}:
		<-r.collecting
		return nil
	default:
		return fmt.Errorf("controller %q: GarbageSecondaries did not return within %v after the stop; it was left "+
			"behind, and may still write: let it return soon after stopCh is closed", r.name, r.patience)
	}
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) setSweep(sweep func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep = sweep
}
