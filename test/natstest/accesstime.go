package natstest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server/ats"
)

// nats-server asks package ats which messages are too old for their bucket. A goroutine of that package keeps the time,
// from the first call of Register until the last one of Unregister, and ends by a channel that is made when the process
// starts: a goroutine of a bubble that waits for it is not durably blocked. So each bubble has a channel of its own.

//go:linkname atsDone github.com/nats-io/nats-server/v2/server/ats.done
var atsDone chan struct{}

//go:linkname atsUsers github.com/nats-io/nats-server/v2/server/ats.refs
var atsUsers atomic.Int64

// atsIsFree reports whether package ats may keep virtual time, and waits until its last goroutine has ended. It may not
// while a server runs outside.
func atsIsFree() bool {
	if atsUsers.Load() > 0 {
		return false
	}
	atsDone <- struct{}{} // it holds one, so this waits until the goroutine has taken the one that ends it
	<-atsDone
	return true
}

// useVirtualAccessTime lets package ats keep virtual time until the end of the test. It must be called in the bubble,
// before a server starts there.
func useVirtualAccessTime(t *testing.T) {
	outside := atsDone
	atsDone = make(chan struct{}, 1)
	ats.Register()
	t.Cleanup(func() {
		ats.Unregister() // the last one: all servers of the bubble have ended
		synctest.Wait()  // for its goroutine, which may not even have begun
		atsDone = outside
	})
}
