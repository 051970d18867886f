package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheGracePeriodIsSpentInTenths: reconciles have eight, what does not return has nine, and what comes last has the
// rest.
func TestTheGracePeriodIsSpentInTenths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const grace = 20 * time.Second
		began := time.Now()
		d := newDeadlines(grace)
		defer d.Stop()
		for _, end := range []struct {
			of     context.Context
			tenths time.Duration
		}{{d.Cancel, 8}, {d.Leave, 9}} {
			<-end.of.Done()
			took, cause := time.Since(began), context.Cause(end.of)
			if took != grace*end.tenths/10 || !errors.Is(cause, errGraceOver) {
				t.Errorf("it ended after %v because of %v, want %d tenths", took, cause, end.tenths)
			}
		}
		err := d.Last("hook", func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Error("what comes last has no time")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if took := time.Since(began); took != grace || !errors.Is(err, errGraceOver) ||
			!strings.HasPrefix(err.Error(), "hook: ") {
			t.Errorf("the end came after %v: %v", took, err)
		}
	})
}

// TestWhatComesLastIsBounded, also within a grace period that is long or has no limit, and if it does not heed its
// context.
func TestWhatComesLastIsBounded(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"long": time.Hour, "without a limit": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDeadlines(grace)
				defer d.Stop()
				began, release := time.Now(), make(chan struct{})
				err := d.Last("hook", func(context.Context) error { <-release; return nil })
				close(release)
				if took := time.Since(began); took != lastPatience+returnMoment || !errors.Is(err, errLastPatience) ||
					!strings.Contains(err.Error(), "left behind") {
					t.Errorf("it was left behind after %v: %v", took, err)
				}
			})
		})
	}
}

// TestTheEndComesWithAContext that bounds it, and with it what comes last.
func TestTheEndComesWithAContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDeadlines(time.Hour)
		defer d.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d.BoundBy(ctx)
		began := time.Now()
		err := d.Last("hook", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		if took := time.Since(began); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended after %v: %v", took, err)
		}
	})
}
