// Package leaks knows which goroutines nats-server itself leaves behind, for tests that look for leaks with goleak and
// stop members of a cluster.
package leaks

import "go.uber.org/goleak"

// OfServer returns options for goleak that ignore what nats-server 2.15.2 leaves behind. A member of a cluster that
// stops while it opens the Raft log of a stream or consumer never closes the file store of that log: one goroutine of
// the store stays, and one of the clock that all stores share. A server that was not closed has many others, and is
// still found.
func OfServer() []goleak.Option {
	const server = "github.com/nats-io/nats-server/v2/server"
	return []goleak.Option{
		goleak.IgnoreAnyFunction(server + ".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction(server + "/ats.Register.func1"),
	}
}
