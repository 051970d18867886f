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

// OwnsExternal makes the resources of a client, behind an API that is neither NATS nor Kubernetes, secondaries of the primary.
// They are listed on an interval of their own; one whose version differs from what was seen, that appeared or vanished,
// enqueues its owner with OperationExternal. Cascade and sweep delete those whose owner is gone. external.Configure gives
// the client another interval, a rate limit and more.
//
// While the API is away its primaries are not punished: a reconcile that fails with external.ErrUnavailable, or a list that
// fails, opens the client's breaker. Keys then wait in it without an attempt counted, external.Reconcile fails at once, and
// the API is polled, with backoff, once for all. When it answers the keys are due again. A key whose calls alone fail is not
// taken for the API's fault (see package external). A key that would wait long for its turn under a rate limit comes back
// later; one at a time, which has begun, holds a worker.
//
// A teardown deletes at once what is in NATS and Kubernetes, and what an API has when that has been listed anew: somebody else
// may own by now what an older list shows. It ends when each API has been listed. While an operation goes on that was begun
// for the primary, nothing else of its API is deleted.
//
// A replica that does not lead lists and watches too, so that it can take over warm: a rate limit holds for each replica, and
// for each controller that has the client.
//
// What was begun for a primary by external.Reconcile and not seen to be done is settled before its teardown ends. Only the
// driver can ask for an operation that goes on: call external.ReconcileAbsent in the reconcile of the delete.
//
// The resources must be listed once before anything is reconciled; if that fails for WithCacheSyncTimeout, Run fails.
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
				Events: e.EventsOf(s, nil, e.Owners, OperationExternal), Pushed: due, Missing: due,
			}
			return s, e.APIs.Add(s)
		})
		return nil
	}
}
