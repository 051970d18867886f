package natstest

import (
	"testing"
	"testing/synctest"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server/ats"
)

// atsDone is the channel by which package ats ends its goroutine. It is made when the process starts, so a goroutine of a
// bubble that waits for it is not durably blocked.
//
//go:linkname atsDone github.com/nats-io/nats-server/v2/server/ats.done
var atsDone chan struct{}

// virtualAccessTime lets nats-server's own clock (package ats) go with virtual time until the end of the test: with it a
// server finds out which messages are too old for their bucket. It must be called in the bubble, before any server starts
// there.
func virtualAccessTime(t *testing.T) {
	outside := atsDone
	atsDone = make(chan struct{}, 1)
	ats.Register()
	t.Cleanup(func() {
		ats.Unregister() // the last one: all servers of the bubble have ended
		synctest.Wait()  // for its goroutine, which may not even have begun
		atsDone = outside
	})
}
