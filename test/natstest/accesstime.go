package natstest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server/ats"
)

// nats-server asks package ats which messages are too old for their bucket. A goroutine of that package keeps the time,
// from the first call of Register until the last one of Unregister. It cannot live in a bubble, because it ends by a
// channel that is made when the process starts, and who waits for that is not durably blocked. So in virtual time another
// goroutine keeps the time, and package ats takes itself for in use.

//go:linkname atsDone github.com/nats-io/nats-server/v2/server/ats.done
var atsDone chan struct{}

//go:linkname atsUsers github.com/nats-io/nats-server/v2/server/ats.refs
var atsUsers atomic.Int64

//go:linkname atsTime github.com/nats-io/nats-server/v2/server/ats.utime
var atsTime atomic.Int64

// atsPhase is when the time is kept in each interval. A server that has written a message at the same nanosecond of an
// interval, or just behind it, looks again and again in steps of so few nanoseconds until the interval is over. So no
// test should do something at that time by design.
const atsPhase = 61_803_399 * time.Nanosecond

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

// useVirtualAccessTime makes package ats keep virtual time until the end of the test. It must be called in the bubble,
// before a server starts there.
func useVirtualAccessTime(t *testing.T) {
	atsUsers.Add(1)
	atsTime.Store(time.Now().UnixNano())
	ended := make(chan struct{})
	var keeping sync.WaitGroup
	keeping.Go(func() {
		for next := time.NewTimer(atsPhase); ; next.Reset(ats.TickInterval) {
			select {
			case <-next.C:
				atsTime.Store(time.Now().UnixNano())
			case <-ended:
				next.Stop()
				return
			}
		}
	})
	t.Cleanup(func() { // the last one: all servers of the bubble have ended
		close(ended)
		keeping.Wait()
		atsUsers.Add(-1)
	})
}
