package denials

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAConnectionThatDialsHoldsUpNoOther: a controller over another connection asks for its own denials with each
// session of an informer.
func TestAConnectionThatDialsHoldsUpNoOther(t *testing.T) {
	server := natstest.Start(t)
	dials, _, hang := natstest.ConnectAndHang(t, server.URL())
	other, _ := natstest.Connect(t, server.URL())
	hang()
	go Of(dials)
	natstest.AwaitLock(t, "denials.Of")
	done := make(chan struct{})
	go func() {
		defer close(done)
		Of(other)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("the denials of a connection wait for another connection, which dials")
	}
}
