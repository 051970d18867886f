package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"k8s.io/klog/v2"
)

type observersValue struct{}

// TestTheAftermathHasTheLifeOfItsTerm, with its cause, and not that of the reconcile, which has ended; and the values
// that observers gave the reconcile.
func TestTheAftermathHasTheLifeOfItsTerm(t *testing.T) {
	lost := errors.New("lease lost")
	term, endTerm := context.WithCancelCause(t.Context())
	defer endTerm(nil)
	reconcile, endReconcile := context.WithCancelCause(reconcilectx.With(term, nil))
	ctx := Aftermath(term, reconcile, context.WithValue(reconcile, observersValue{}, "value"))
	if Aftermath(term, reconcile, reconcile) != term {
		t.Error("it is more than its term, though no observer gave the reconcile anything")
	}
	endReconcile(errors.New("the reconcile's timeout"))
	if ctx.Err() != nil || context.Cause(ctx) != nil {
		t.Errorf("it ended with its reconcile: %v, %v", ctx.Err(), context.Cause(ctx))
	}
	if ctx.Value(observersValue{}) != "value" || ctx.Value(reconcilectx.Key{}) != nil {
		t.Errorf("it has the values %v and %v", ctx.Value(observersValue{}), ctx.Value(reconcilectx.Key{}))
	}
	const children = 100
	before := runtime.NumGoroutine()
	var all []context.Context
	for range children {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		all = append(all, child)
	}
	if more := runtime.NumGoroutine() - before; more >= children {
		t.Errorf("%d goroutines for %d contexts", more, children)
	}
	endTerm(lost)
	for _, c := range append(all, ctx) {
		if <-c.Done(); context.Cause(c) != lost {
			t.Errorf("it ended because of %v", context.Cause(c))
		}
	}
}

// witness notes with which of its contexts it was told of an end.
type witness struct {
	name  string
	begin func(context.Context) context.Context
	ends  *[]string
}

func (w witness) Begin(ctx context.Context, _ Beginning) context.Context { return w.begin(ctx) }

func (w witness) End(ctx context.Context, _ Ending) {
	value, _ := ctx.Value(observersValue{}).(string)
	*w.ends = append(*w.ends, w.name+" of "+value)
}

// runWitness is an observer that wants to know when Run begins.
type runWitness struct {
	witness
	run func(context.Context) context.Context
}

func (w runWitness) BeginRun(ctx context.Context) context.Context { return w.run(ctx) }

// TestRunHasTheContextOfItsObservers, but for what panics or is no child of the one that was given.
func TestRunHasTheContextOfItsObservers(t *testing.T) {
	as := func(name string) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			before, _ := ctx.Value(observersValue{}).(string)
			return context.WithValue(ctx, observersValue{}, before+name)
		}
	}
	all := AttemptObservers{witness{}}
	for _, run := range []func(context.Context) context.Context{
		as("a"), func(context.Context) context.Context { panic("oh") }, as("b"),
		func(context.Context) context.Context { return context.Background() },
		func(context.Context) context.Context { return nil },
		func(ctx context.Context) context.Context { return ctx }, as("c"),
	} {
		all = append(all, runWitness{run: run})
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	got := all.BeginRun(ctx)
	if value := got.Value(observersValue{}); value != "abc" {
		t.Errorf("it has %v, want what the three gave it", value)
	}
	if cancel(); got.Err() == nil {
		t.Error("it does not end with Run's context")
	}
	if got := (AttemptObservers{witness{}, runWitness{run: func(ctx context.Context) context.Context { return ctx }}}).BeginRun(
		ctx); got != ctx {
		t.Error("observers that give it nothing make another one of it")
	}
}

// TestAnObserverWhoseBeginPanickedIsNotToldOfTheEnd: it has begun nothing, and in the context are others' values.
func TestAnObserverWhoseBeginPanickedIsNotToldOfTheEnd(t *testing.T) {
	var ends []string
	as := func(name string) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context { return context.WithValue(ctx, observersValue{}, name) }
	}
	panics := func(context.Context) context.Context { panic("oh") }
	all := AttemptObservers{
		witness{"a", as("a"), &ends}, witness{"b", panics, &ends}, witness{"c", panics, &ends}, witness{"d", as("d"), &ends},
	}
	var o ObservedAttempt
	ctx := all.Begin(klog.NewContext(t.Context(), logr.Discard()), &o, Beginning{})
	if got := ctx.Value(observersValue{}); got != "d" {
		t.Errorf("the reconcile's context is that of %v", got)
	}
	o.End(&Ending{})
	if want := []string{"d of d", "a of a"}; !slices.Equal(ends, want) {
		t.Errorf("told %q, want %q", ends, want)
	}
}
