package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAWriteThatIsNotNeededAnyMoreIsForgotten: the record could not be told of a failure, and says the truth again once the
// next attempt has succeeded. The writes that failed counted for ever, and the next one waited as long as after all of them.
func TestAWriteThatIsNotNeededAnyMoreIsForgotten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		f := &forgetting{world: newWorld(t)}
		f.sites = f.world.sites()
		var fails atomic.Bool
		var err error
		f.c, err = New("sites", f.sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			if fails.Load() {
				return Result{}, errors.New("the world is unwell")
			}
			return Result{}, nil
		}), slowRenewal, WithResyncInterval(0))
		must(t, err)
		f.run(f.c)
		must(t, f.sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, f.sites, "home", entity.ReasonSynced)
		f.limitBytes("sites-status", 100)
		fails.Store(true)
		f.c.Enqueue("home", OperationResync)
		natstest.Eventually(t, "its record cannot be written", func() bool { return f.c.Stats().RecordErrors > 0 })
		fails.Store(false)
		time.Sleep(2 * time.Second)
		e := f.c.Explain("home")
		if n := f.c.Stats().Remembered; n != 0 || e.Failures != 0 || e.Error != "" || e.State != StateCalm {
			t.Errorf("something is remembered of %d keys, and of home: %s: %d failures, %s", n, e.State, e.Failures, e.Error)
		}
	})
}
