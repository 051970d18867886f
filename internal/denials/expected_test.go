package denials

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// TestADenialThatIsExpectedIsToldToNoOne, once: the next one of the same subject is told.
func TestADenialThatIsExpectedIsToldToNoOne(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"$KV.probe.x"}, nil)))
		theirs := make(chan error, 10)
		nc := connect(t, s, "user", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			theirs <- err
		}))
		d := Of(nc)
		d.Expect("$KV.probe.x")
		must(t, nc.Publish("$KV.probe.x", nil))
		must(t, nc.Flush())
		if err := nc.LastError(); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("the connection's last error is %v", err)
		}
		if d.lacks.Load() != 0 {
			t.Error("it counts as a right that is missing")
		}
		must(t, nc.Publish("$KV.probe.x", nil))
		must(t, nc.Flush())
		if err := <-theirs; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("the user's handler was told %v", err)
		}
		if len(theirs) > 0 {
			t.Errorf("the user's handler was told again: %v", <-theirs)
		}
	})
}

// TestAnExpectedDenialEndsItsRequestAtOnce, and what is expected no more is told.
func TestAnExpectedDenialEndsItsRequestAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(withRights([]string{"probe.x"}, nil)))
		theirs := make(chan error, 10)
		nc := connect(t, s, "user", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			theirs <- err
		}))
		d := Of(nc)
		for _, told := range []int{0, 1} {
			over := d.Expect("probe.x")
			if told > 0 {
				over()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			began := time.Now()
			_, err := d.Request(ctx, &nats.Msg{Subject: "probe.x"})
			cancel()
			if _, denied := errors.AsType[*Error](err); !denied || time.Since(began) > time.Second {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			synctest.Wait()
			if len(theirs) != told {
				t.Errorf("the user's handler was told %d times, want %d", len(theirs), told)
			}
		}
	})
}
