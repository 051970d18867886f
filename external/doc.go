// Package external is for resources behind an API that is neither NATS nor Kubernetes: buckets, DNS records, machines.
//
// There are two halves, and each is useful without the other.
//
// An [IExternalClient] lists and deletes. Given to controller.OwnsExternal it makes the resources secondaries: the
// runtime lists them on its own interval, compares each [Resource.Version] with what it saw, and enqueues the owner on any
// difference; it deletes what a primary owned when it goes, and sweeps what has no owner. [Configure] sets the interval,
// the rate limit and the rest.
//
// A [Driver] is for the reconcile itself. [Reconcile] observes, compares and applies, and writes down what it is about to
// do before it does it, so that a crash at any point neither creates twice nor forgets:
//
//	result, err := external.Reconcile(ctx, driver, &desired)
//	if err != nil {
//		return controller.Result{}, err
//	}
//	return controller.Result{RequeueAfter: result.RequeueAfter}, nil
//
// and, where the primary is gone, external.ReconcileAbsent(ctx, driver).
//
// What is remembered of the resources, such as an intent that is open, is one reserved key of the status bucket for each
// primary that has any, until the primary is gone.
//
// # When the API is away
//
// An error that [IsUnavailable] is no fault of the primary whose reconcile met it. The runtime then stops calling the API
// for anybody, polls it once with backoff, and hands the waiting keys back when it answers. No attempt is counted as
// failed. The errors of a driver that come from the network count by themselves; [Unavailable] marks others, such as an
// answer 503.
//
// A poll is a List. If it succeeds and only the calls of a Driver fail, one key tries first after each poll, and the others
// stay until it got its answer. A key whose calls fail again, though another's succeed or hardly any other fails, is at fault
// itself, as one whose spec names an endpoint where nobody answers: it fails, and is retried, like any other.
package external
