package natstest

import (
	"context"
	"sync"
	"testing"
)

// Run runs what ends with its context, as the Run of a controller or a manager does, until stop is called or the test
// ends, and waits for its end. An error of run fails the test. A second call of stop does nothing.
//
//	stop := natstest.Run(t, c.Run)
func Run(t testing.TB, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			t.Errorf("what natstest.Run runs has failed: %v", err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}
