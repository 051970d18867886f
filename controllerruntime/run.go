package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/recorder/kuberecorder"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
)

// errPatience is how long Run, when all has ended, waits for a receiver on errCh.
const errPatience = 500 * time.Millisecond

// Run starts threadiness workers (at least 1) and blocks until stopCh is closed. Then it waits, without limit, for the
// workers to finish their current keys, and calls Clean. A fatal error ends Run; it is logged, with what to do, and
// sent to errCh if there is a receiver. So is what was wrong with the arguments of NewControllerRuntime and with the
// options. errCh may be nil and never blocks Run for more than a moment. Errors that are retried are not sent. A
// runtime runs once.
//
// For a GarbageSecondaries that blocks Run waits ten seconds after the last worker. Then it leaves the call behind, in
// its goroutine, calls Clean, and returns, with an error.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) Run(
	threadiness int, stopCh <-chan struct{}, errCh chan<- error,
) {
	err := r.run(wait.ContextForChannel(stopCh), threadiness)
	if err == nil {
		return
	}
	printable.Logger(klog.Background()).Error(err, "Run ends with an error: nothing is reconciled here any more; "+
		"mend what it says and start the process again", "controller", r.name)
	if errCh == nil {
		return
	}
	timer := time.NewTimer(errPatience)
	defer timer.Stop()
	select {
	case errCh <- err:
	case <-timer.C: // full, or without a receiver; the log has it
	}
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) run(ctx context.Context, threadiness int) error {
	custom, err := r.begin()
	if err != nil {
		return err
	}
	defer r.clean(custom)
	switch {
	case r.err != nil:
		return r.err
	case threadiness < 1:
		return fmt.Errorf("controller %q: threadiness is %d, at least 1 is needed", r.name, threadiness)
	}
	events, err := r.newRecorder()
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.recorder = events
	r.engine.Change(func(o *engine.Options) {
		o.Workers, o.RequireInstance = threadiness, r.strict
	})
	r.mu.Unlock()
	r.attach()
	return errors.Join(r.controller.Run(ctx), r.garbageLeftBehind())
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) begin() (IController, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if guard.IsNil(r.custom) {
		return nil, fmt.Errorf("controller %q: no custom controller: call SetCustomController before Run", r.name)
	}
	if r.began.Load() {
		return nil, fmt.Errorf("controller %q: Run was called before; a runtime runs once: make a new one", r.name)
	}
	r.began.Store(true)
	r.early = nil
	return r.custom, nil
}

// clean ends Run. The custom controller may still record events in its Clean.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) clean(custom IController) {
	if err := guard.Call(func() error { custom.Clean(); return nil }); err != nil {
		printable.Logger(klog.Background()).Error(err, "Clean panicked", "controller", r.name)
	}
	r.mu.Lock()
	events := r.recorder
	r.recorder = nil
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), recorderPatience)
	defer cancel()
	if err := events.Close(ctx); err != nil {
		printable.Logger(klog.Background()).Info("Events lost at the end", "controller", r.name, "err", err)
	}
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) reconcile(
	ctx context.Context, req controller.Request,
) (controller.Result, error) {
	r.mu.Lock()
	r.syncing[req.Key] = syncing{ctx, req.Operations}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.syncing, req.Key)
		r.mu.Unlock()
	}()
	return controller.Result{}, r.customController().SyncHandler(req.Key)
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) handleSecondary(obj any) {
	r.customController().HandleSecondary(obj)
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) handleTertiary(obj any) {
	if handler, ok := r.customController().(tertiaryHandler); ok {
		handler.HandleTertiary(obj)
	}
}

// handleTertiaryUpdate reports whether the custom controller wants updates of tertiaries with what they were before.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) handleTertiaryUpdate(oldObj, newObj any) bool {
	handler, ok := r.customController().(tertiaryUpdateHandler)
	if ok {
		handler.HandleTertiaryUpdate(oldObj, newObj)
	}
	return ok
}

// recorderPatience is how long Run waits, when it ends, for events on their way.
const recorderPatience = 2 * time.Second

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) newRecorder() (*recorder.Recorder, error) {
	cfg := recorder.Config{
		Component: r.name, Scheme: scheme.Scheme, JetStream: r.primary.EnginePort().JetStream(),
	}
	if !guard.IsNil(r.kubeClientset) {
		cfg.Kubernetes = kuberecorder.New(r.kubeClientset)
	}
	events, err := recorder.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("controller %q: make the event recorder: %w", r.name, err)
	}
	for _, kind := range r.engine.Kinds() {
		events.RegisterKind(kind)
	}
	var sample P
	events.RegisterKind(r.primary.Kind(), sample)
	return events, nil
}
