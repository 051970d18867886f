package turn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestATurnIsHeldByOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := New()
		if err := free.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		began, taken := time.Now(), make(chan time.Duration)
		go func() {
			if err := free.Take(t.Context()); err != nil {
				t.Error(err)
			}
			taken <- time.Since(began)
			free.Give()
		}()
		time.Sleep(time.Hour)
		free.Give()
		if took := <-taken; took != time.Hour {
			t.Errorf("it was taken after %v, while another held it for an hour", took)
		}
	})
}

func TestWhoseContextEndsWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, why := New(), errors.New("why")
		if err := held.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		if err := held.Take(ctx); !errors.Is(err, why) {
			t.Errorf("it got %v, not the cause", err)
		}
		held.Give()
		if err := held.Take(ctx); err != nil {
			t.Errorf("a free turn: %v", err)
		}
	})
}
