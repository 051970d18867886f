package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAReplicaForgetsAKeyOfWhichNothingIsLeft: no document, and no record that says that a teardown is owed. No event
// tells of such a key any more, so what was remembered of it stayed for ever, and Explain said that its teardown was owed.
func TestAReplicaForgetsAKeyOfWhichNothingIsLeft(t *testing.T) {
	terminal := TerminalError(errors.New("never"))
	for name, test := range map[string]struct {
		teardown func(ctx context.Context, begun func(), let <-chan struct{}) error
		happens  func(t *testing.T, f *forgetting)
	}{
		"its record goes while its teardown runs, and then the term ends": {
			func(ctx context.Context, begun func(), _ <-chan struct{}) error {
				begun()
				<-ctx.Done()
				return ctx.Err()
			},
			func(t *testing.T, f *forgetting) {
				must(t, f.sites.Delete(t.Context(), "home"))
				receive(t, "its teardown runs", f.begun)
				f.recordGoes()
				f.losesTheLease(f.c)
			},
		},
		"its record goes while its teardown fails for good": {
			func(_ context.Context, begun func(), let <-chan struct{}) error {
				begun()
				<-let
				return terminal
			},
			func(t *testing.T, f *forgetting) {
				must(t, f.sites.Delete(t.Context(), "home"))
				receive(t, "its teardown runs", f.begun)
				f.recordGoes()
				close(f.let)
				time.Sleep(10 * time.Second)
			},
		},
		"its record goes after its teardown has failed for good": {
			func(context.Context, func(), <-chan struct{}) error { return terminal },
			func(t *testing.T, f *forgetting) {
				must(t, f.sites.Delete(t.Context(), "home"))
				natstest.Eventually(t, "its teardown is parked", func() bool { return f.c.Stats().Parked == 1 })
				f.recordGoes()
				time.Sleep(10 * time.Second)
			},
		},
		"another replica ends a teardown that has failed for good": {
			func(context.Context, func(), <-chan struct{}) error { return terminal },
			func(t *testing.T, f *forgetting) {
				must(t, f.sites.Delete(t.Context(), "home"))
				natstest.Eventually(t, "its teardown is parked", func() bool { return f.c.Stats().Parked == 1 })
				f.losesTheLease(f.c)
				f.recordGoes()
			},
		},
		"another replica tears down what this one could not record": {
			nil,
			func(t *testing.T, f *forgetting) {
				f.limitBytes("sites-status", 100)
				f.put("sites", "home", `{"spec":{"title":"`+strings.Repeat("x", 1000)+`"}}`)
				natstest.Eventually(t, "it fails", func() bool { return f.c.Stats().RecordErrors > 0 })
				f.losesTheLease(f.c)
				f.limitBytes("sites-status", -1)
				must(t, f.sites.Delete(t.Context(), "home"))
				f.recordGoes()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				f := &forgetting{world: newWorld(t), begun: make(chan struct{}, 1), let: make(chan struct{})}
				f.sites = f.world.sites()
				var err error
				f.c, err = New("sites", f.sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
					if !req.Operations.Has(OperationDelete) || test.teardown == nil {
						return Result{}, nil
					}
					return Result{}, test.teardown(ctx, func() { f.begun <- struct{}{} }, f.let)
				}), slowRenewal, WithResyncInterval(0))
				must(t, err)
				f.run(f.c)
				must(t, f.sites.Create(t.Context(), newSite("home", "one")))
				eventuallyReason(t, f.sites, "home", entity.ReasonSynced)
				test.happens(t, f)
				synctest.Wait()
				f.hasForgotten(t, "then")
				f.leaseTo("", time.Second)
				natstest.Eventually(t, "it leads", func() bool { return f.c.Stats().Leading })
				f.hasForgotten(t, "when it leads again")
			})
		})
	}
}

type forgetting struct {
	*world
	sites *entity.Client[*site]
	c     *Controller[*site]
	begun chan struct{}
	let   chan struct{}
}

// recordGoes deletes the record, as the replica does that has done what is owed, or somebody by hand.
func (f *forgetting) recordGoes() {
	f.t.Helper()
	must(f.t, f.kv("sites-status").Delete(f.t.Context(), "home"))
	time.Sleep(time.Second)
}

func (f *forgetting) hasForgotten(t *testing.T, when string) {
	t.Helper()
	if s, e := f.c.Stats(), f.c.Explain("home"); s.Remembered != 0 || e.State == StateDeleting || e.State == StateParked {
		t.Errorf("%s something is remembered of %d keys, and of home: %s: %s", when, s.Remembered, e.State, e.Says)
	}
}
