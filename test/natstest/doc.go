// Package natstest runs real NATS servers inside a test, and breaks them on purpose.
//
// A controller is only as good as its behaviour on a bad day: the server restarts, the connection is cut or, worse,
// goes silent, the leader of a stream moves to another node. A mock shows none of that. Here every server is a complete
// nats-server with JetStream, embedded in the test's process. It listens on its own loopback port and stores to a
// temporary directory. A single one is up in a few milliseconds.
//
// # One server
//
//	func TestController(t *testing.T) {
//		srv := natstest.Start(t)                    // stopped and removed when the test ends
//		nc, js := natstest.Connect(t, srv.URL())    // reconnects for ever; closed when the test ends
//		...
//		srv.Restart()                               // same port, same store: clients come back by themselves
//	}
//
// A program without a testing.TB, an example or a TestMain, uses [New] and [Server.Close].
//
// Package reconciletest runs one reconcile by hand against such a server, for unit tests of reconcilers.
//
// # A cluster
//
// [StartCluster] runs several servers as one JetStream cluster and returns when a replicated stream can be created at
// once. Each member can be stopped and started again on its own store; [Cluster.StreamLeader] tells which one to hit.
//
// # A bad network
//
// [StartProxy] puts a TCP proxy in front of a server. It can cut connections, refuse them, delay every byte, and play
// the fault that finds most bugs: the half-open connection, on which nothing arrives any more and nothing says so.
//
//	p := natstest.StartProxy(t, srv.URL())
//	nc, js := natstest.Connect(t, p.URL())
//	p.Blackhole() // from here on bytes vanish in both directions
//	...
//	p.Resume()    // the stale connections are closed, new ones work
//
// # A message that is lost
//
// [Tamper] is a connection option that shows a test each message from the server before the client gets it. The test
// may swallow or change it: a delivery that is lost on the way, or an answer of a server that is behind.
//
// # A backup
//
// [TakeSnapshot] and [Snapshot.Restore] play an operator who restores a stream from a backup. Sequences go back, and
// later writes are gone without a message that says so: what a client read before is no longer true.
//
// # Ports
//
// A port belongs to its server or proxy until Close, whether or not something listens on it. Each test process takes
// whole blocks of ports, so no test of another one starts a server on the port of a server that is stopped, or of a
// proxy that refuses. The blocks lie below 32768, where the operating systems in use do not take ports for outgoing
// connections: a client that reconnects (a TCP connection to a free ephemeral port can by accident connect to itself)
// takes none away either.
package natstest
