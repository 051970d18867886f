package controller

import (
	"fmt"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
)

// OwnsExternal makes the resources of client secondaries of the primary. They are behind an API that is neither NATS
// nor Kubernetes. The client lists them on an interval of its own. A resource that appears, vanishes or has another
// version enqueues its owner with OperationExternal. Cascade and sweep delete the resources whose owner is gone.
// external.Configure gives the client another interval, a rate limit and more.
//
// All resources must be listed once before anything is reconciled. If that does not succeed within
// WithCacheSyncTimeout, Run fails.
//
// While the API is away, primaries are not charged for it. A reconcile that fails with external.ErrUnavailable, or a
// failed list, opens the client's breaker. The keys then wait without an attempt counted, and external.Reconcile fails
// at once. The API is polled with backoff, once for all keys. When it answers, the keys are due again. A key whose
// calls fail alone is not taken for the API's fault (see package external).
//
// Under a rate limit a key that would wait long for its turn comes back later; of those that have begun, one at a time
// holds a worker. The limit holds for each replica, and for each controller that has the client: a replica that does
// not lead lists and watches too, so that it can take over warm.
//
// A teardown deletes at once what is in NATS and Kubernetes. It deletes the resources of an API after a new list,
// because another primary may own by now what an older list shows. It ends when each API has been listed. While an
// operation that was begun for the primary still goes on, nothing else of that API is deleted. What external.Reconcile
// began for the primary, and did not see done, is settled before the teardown ends. Only the driver can ask for an
// operation that goes on: call external.ReconcileAbsent in the reconcile of the delete.
func OwnsExternal(client external.IExternalClient) Option {
	return func(o *engine.Options) error {
		inner, config, err := apisource.Check(client)
		if err != nil {
			return fmt.Errorf("OwnsExternal(%s): %w", apisource.KindOf(inner), err)
		}
		o.Sources = append(o.Sources, func(e *engine.Engine) (source.Source, error) {
			s := e.APIs.New("OwnsExternal", inner, config)
			due := func(owner string) { e.Notice(owner, operation.Of(OperationExternal), queue.Secondary) }
			s.Handlers = apisource.Handlers{
				Events: e.EventsOf(s, nil, e.OwnersIn(s), OperationExternal), Pushed: due, Missing: due,
			}
			return s, nil
		})
		return nil
	}
}
