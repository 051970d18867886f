package connection_test

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/connection"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAConnectionThatIsClosedInAnOutageIsNotBack, and nothing that fails after it is put down to the outage.
func TestAConnectionThatIsClosedInAnOutageIsNotBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		nc, _ := natstest.Connect(t, server.URL())
		known := connection.Of(nc)
		server.Stop()
		time.Sleep(time.Second)
		if s := known.Look(); !s.Down || s.Closed || !s.Disturbed() || !known.TellDown() {
			t.Fatalf("in the outage: %+v", s)
		}
		nc.Close()
		for range 2 {
			if s := known.Look(); s.Down || !s.Back.IsZero() || !s.Closed || s.Disturbed() {
				t.Errorf("after it was closed: %+v", s)
			}
			if known.TellBack() || known.TellDown() {
				t.Error("the end of the outage is told, or another one")
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestAConnectionThatIsClosedAfterAnOutageDisturbsNothing: what fails then does not come back by itself.
func TestAConnectionThatIsClosedAfterAnOutageDisturbsNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		nc, _ := natstest.Connect(t, server.URL())
		known := connection.Of(nc)
		server.Stop()
		time.Sleep(time.Second)
		known.Look()
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := known.Look(); s.Down || !s.Disturbed() {
			t.Fatalf("a moment after the outage: %+v", s)
		}
		nc.Close()
		if s := known.Look(); !s.Closed || s.Disturbed() {
			t.Errorf("after it was closed: %+v", s)
		}
	})
}
