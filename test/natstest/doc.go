// Package natstest runs real NATS servers inside a test, and breaks them on purpose.
//
// A controller is only as good as its behaviour on a bad day: the server restarts, the connection is cut or, worse,
// goes silent, the leader of a stream moves to another node. A mock shows none of that. Here every server is a complete
// nats-server with JetStream, embedded in the test's process. It listens on its own loopback port and stores to a
// temporary directory, or, in virtual time, has no port at all. A single one is up in a few milliseconds.
//
// # Virtual time
//
// [Test] runs a test in a bubble of testing/synctest, with everything in it: the server, the connections, and the
// controller. Time moves only when nothing works any more, so a test that waits for an hour takes no longer than what
// happens in that hour, and a number that is a promise can be asserted exactly:
//
//	func TestController(t *testing.T) {
//		natstest.Test(t, func(t *testing.T) {
//			srv := natstest.Start(t)                    // stopped and removed when the test ends
//			nc, js := natstest.Connect(t, srv.URL())    // reconnects for ever; closed when the test ends
//			... // make the client and the controller
//			t.Cleanup(client.Close)
//			stop := natstest.Run(t, c.Run)              // until the test ends
//			... // write a document
//			synctest.Wait()                             // all that can happen now has happened
//			time.Sleep(15*time.Second - 1)              // just before: not yet
//			time.Sleep(2)                               // just after; at one instant either of two timers may be first
//			srv.Restart()                               // same address, same store: clients come back by themselves
//		})
//	}
//
// It is a real server with a real store, and one day of an idle controller costs it some ten seconds, under the race
// detector five times as many: leases, heartbeats and timers of the day all run. What the test does not stop is a leak,
// and fails it. Where a connection is not made by [Connect], it needs the option [Dialer]: nats.Connect(srv.URL(),
// natstest.Dialer()), or manager.Config{URL: srv.URL(), Options: []nats.Option{natstest.Dialer()}}.
//
// What has no jitter is exact to the nanosecond: timeouts, RequeueAfter, a TTL. A backoff, a resync, the next try of a
// replica for the lease and of a client to reconnect have jitter, and are exact in their bounds.
//
// Time stands still while a goroutine waits for something outside of the bubble: a socket, a process, a channel that was
// made before, or a lock whose holder sleeps. After a minute Test prints which ones do. So there are no clusters, no
// listeners for HTTP, no processes that are killed, and no other servers than the one that is linked here. For those a
// test calls Start and the others without Test around it, and everything happens in real time and over TCP.
//
// # One server
//
// [Start] runs one, in virtual time or not, and [Server.Stop], [Server.Start] and [Server.Restart] play an outage. Users,
// accounts and permissions come as in a file of nats-server, by [WithConfigText]. A program without a testing.TB, an
// example or a TestMain, uses [New] and [Server.Close].
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
// [StartProxy] puts a proxy in front of a server. It can cut connections, refuse them, delay or hold back every byte, and
// play the fault that finds most bugs: the half-open connection, on which nothing arrives any more and nothing says so, in
// both directions or in one.
//
//	p := natstest.StartProxy(t, srv.URL())
//	nc, js := natstest.Connect(t, p.URL())
//	p.Blackhole(natstest.FromServer) // answers vanish from here on
//	...
//	p.Resume()                       // the stale connections are closed, new ones work
//
// # A message that is lost, late or doubled
//
// In virtual time [Proxy.Tamper] decides of each message what becomes of it:
//
//	p.Tamper(natstest.Nth(3, natstest.AnswersTo("$KV.websites.home"), natstest.Fate{Lost: true}))
//	p.Tamper(natstest.Each(natstest.To("$KV.>"), natstest.Fate{Late: 7 * time.Second}))
//
// The option [Tamper] shows a test each message from the server before one connection gets it, in virtual time or not.
//
// # A backup
//
// [TakeSnapshot] and [Snapshot.Restore] play an operator who restores a stream from a backup. Sequences go back, and
// later writes are gone without a message that says so: what a client read before is no longer true.
//
// # Ports
//
// Outside of virtual time a port belongs to its server or proxy until Close, whether or not something listens on it.
// Each test process takes whole blocks of ports, so no test of another one starts a server on the port of a server
// that is stopped, or of a proxy that refuses. The blocks lie below 32768, where the operating systems in use do not
// take ports for outgoing connections: a client that reconnects (a TCP connection to a free ephemeral port can by
// accident connect to itself) takes none away either.
package natstest
