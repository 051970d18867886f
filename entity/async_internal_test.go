package entity

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestTheStartOfACacheDoesNotWaitForAWrite that waits for its connection, which dials. A first read of the lister starts
// the cache, under a lock of all clients that share it.
func TestTheStartOfACacheDoesNotWaitForAWrite(t *testing.T) {
	nc, _, hang := natstest.ConnectAndHang(t, natstest.Start(t).URL())
	a := newAsyncWriter(nc)
	hang()
	go func() { _, _, _ = a.register("subject") }()
	natstest.AwaitLock(t, "entity.(*asyncWriter).register")
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.hold()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it waits for the lock of a write that waits for a dial")
	}
}
