// Package external is for resources behind an API that is neither NATS nor Kubernetes: buckets, DNS records, machines.
//
// It has two halves, and each is useful without the other.
//
// An [IExternalClient] lists and deletes. controller.OwnsExternal makes its resources secondaries: the runtime lists
// them on its own interval, compares each [Resource.Version] with the one it saw before, and enqueues the owner on any
// difference. It deletes the resources of a primary that goes, and sweeps those without an owner. [Configure] sets the
// interval, the rate limit and the rest.
//
// A [Driver] is for the reconcile itself. [Reconcile] observes, compares and applies. It writes an intent down before
// it calls the API, so that a crash at any point neither creates twice nor forgets:
//
//	result, err := external.Reconcile(ctx, driver, &desired)
//	if err != nil {
//		return controller.Result{}, err
//	}
//	return controller.Result{RequeueAfter: result.RequeueAfter}, nil
//
// Where the primary is gone, call external.ReconcileAbsent(ctx, driver).
//
// The runtime remembers the resources of a primary, such as open intents, in one reserved key of the status bucket. It
// keeps that key until the primary is gone.
//
// # When the API is away
//
// An error that [IsUnavailable] is not the fault of the primary whose reconcile met it. The runtime then stops calling
// the API for all primaries. One poll with backoff asks the API in place of all keys, which are handed back when it
// answers. No attempt counts as failed. Errors of a driver that come from the network count by themselves;
// [Unavailable] marks others, such as an answer 503.
//
// A poll is a List. If it succeeds and only the calls of a Driver fail, one key tries first after each poll, and the
// others wait until it got its answer. A key whose calls fail again, while those of another succeed or hardly any other
// fails, is itself at fault; its spec may name an endpoint that does not answer. It fails, and is retried, like any
// other.
package external
