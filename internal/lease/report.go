package lease

import (
	"context"
	"errors"

	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// outage is the time in which requests about the lease fail. Its errors share one reason, so that whoever compares
// reasons tells it once: a write fails with another text than the look after it, and a candidate only looks. An answer
// says more than that none came, so the first one is a reason of its own.
type outage struct {
	reason   string // "" if there is none
	answered bool   // the reason is an answer
}

// share returns err with the reason of the outage that it begins or belongs to.
func (o *outage) share(err error) error {
	answered := !isUnanswered(err)
	if o.reason == "" || answered && !o.answered {
		*o = outage{notify.Reason(err), answered}
	}
	return notify.Because(o.reason, err)
}

func isUnanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || hasNoResponder(err)
}

// hasNoResponder reports whether no server took the request: the stream is gone, has no leader, or JetStream is off.
func hasNoResponder(err error) bool { return errors.Is(err, nats.ErrNoResponders) }

// report reports why the lease cannot be read or written; nil, and a write that another one overtook, say that it can.
func (e *elector) report(ctx context.Context, err error) {
	if isOvertaken(err) {
		err = nil
	}
	if e.Report == nil || errors.Is(err, context.Canceled) || errors.Is(err, errExiting) {
		return // a request that was cut short, or was not made, tells nothing
	}
	if err == nil {
		e.outage = outage{}
	} else {
		err = e.outage.share(err)
	}
	e.Report(ctx, err)
}

// reportWaiting reports what there is to tell while this replica waits, see whyWaiting. That no replica holds the lease
// belongs to the outage after which it is so, and is no line of its own.
func (e *elector) reportWaiting(ctx context.Context, now version) {
	why := e.whyWaiting(now)
	if errors.Is(why, ErrNoHolder) {
		e.report(ctx, why)
		return
	}
	e.reportHolder(ctx, why)
}

// reportHolder reports what is odd about the key, which was read; nil if nothing is.
func (e *elector) reportHolder(ctx context.Context, odd error) {
	e.outage = outage{}
	if e.Report != nil {
		e.Report(ctx, odd)
	}
}

// reportRenewal reports a renewal that failed, and so did the look after it. A look that was answered says more than a
// write that was not: it finds that the stream is gone.
func (e *elector) reportRenewal(ctx context.Context, written, looked error) {
	switch {
	case isOvertaken(written), hasNoResponder(written) && !isUnanswered(looked):
		e.report(ctx, looked)
	case hasNoResponder(written):
		e.report(ctx, written)
	}
}

// isOvertaken reports whether a write failed because the key is at another revision.
func isOvertaken(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}
