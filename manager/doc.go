// Package manager runs several controllers in one process, over one connection to NATS and shared caches. With it the
// main of a production controller is some twenty lines:
//
//	func main() {
//		ctx, cancel := controller.SignalContext(context.Background())
//		defer cancel()
//		if err := run(ctx); err != nil {
//			klog.Fatal(err)
//		}
//	}
//
//	func run(ctx context.Context) error {
//		m, err := manager.New(ctx, manager.Config{Name: "sites", WaitForServer: time.Minute})
//		if err != nil {
//			return err
//		}
//		defer m.Close(context.Background()) // after Run it does nothing
//		sites, err := manager.Client[*Site](ctx, m, entity.Config{Kind: "Site", Bucket: "sites"})
//		if err != nil {
//			return err
//		}
//		c, err := controller.New("sites", sites, &reconciler{sites}, controller.WithWorkers(8))
//		if err := errors.Join(err, m.Add(c)); err != nil {
//			return err
//		}
//		return m.Run(ctx)
//	}
//
// It compiles: see the example of [Manager.Run].
//
// # Where it connects
//
// As the nats command line does. The first of these that says something is taken, as a whole:
//
//  1. Config.URL, or Config.Context: a context of the nats command line, by name.
//  2. The environment: NATS_URL, or NATS_CONTEXT. Both together are an error.
//  3. The context that the nats command line has selected (nats context select).
//  4. nats://127.0.0.1:4222.
//
// A context gives all that it has: servers, user, TLS, inbox prefix, JetStream domain. What Config says beside it is
// added; if both say something, and not the same, that is an error. A context that looks its user up with nsc, or holds
// a user_jwt, is refused. NATS_URL is never combined with the user of a selected context: it would get another server's
// credentials.
//
// The connection reconnects for ever. A peer that is dead without a word is found within six seconds. Credentials files
// are read again each time. A server that refuses the user later is asked again, and the log says so.
//
// # One cache for each bucket
//
// [Client] makes clients that the manager closes. All clients of one bucket share one cache, and each reads at once
// what another wrote. Each of two controllers over one bucket names a StatusBucket of its own.
//
// # Start and stop
//
// [Manager.Run] says in which order, and what happens if something fails. [Manager.Add] and [Manager.Remove] let
// controllers come and go while it runs. Sizes of time: Config.GracePeriod, 25 s
// unless set, is for the whole stop; Kubernetes gives a process 30.
//
// # Who leads
//
// Each controller holds a lease of its own, as without a manager: several processes may share the controllers between
// them. With Config.Lease all controllers of a process lead together. What is no controller runs in each process. A
// standby tells in Explain who leads. A lease that cannot be read or written, or whose key holds something else, shows
// in Stats.Degraded of each controller of the process, as "lease (bucket …)", and so in probes and metrics.
// So do a holder that does not renew, and one that runs other controllers: two programs share the lease by mistake.
//
// # What it may do in NATS
//
// [Manager.Permissions] has what all controllers, the lease and the recorders of the process need. With Config.Only the
// program prints the permissions of each role, or makes its buckets, and exits.
package manager
