package lifecycle

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// Term is a time in which this replica works. Its context is cancelled when the lease is lost, or when the grace period
// of a stop is over.
type Term struct {
	Ctx     context.Context
	RunCtx  context.Context // Run's; when it ends what runs goes on, but nothing new starts
	HandOut context.Context // ends with Ctx or RunCtx, maybe a moment later
	Lease   Lease           // nil without a status bucket, and Beside
	Beside  bool            // another replica leads, or none does, and this one works without the lease
	Logger  klog.Logger
	Began   time.Time // when the work did
}

// Lease says until when work may start.
type Lease interface {
	// Over asks the clock, and OverAt a caller that has just read it.
	Over() bool
	OverAt(now time.Time) bool
}

// Waited is how long what is due since then has waited for a worker: before the term there was none.
func (t *Term) Waited(since, now time.Time) time.Duration {
	if since.Before(t.Began) {
		since = t.Began
	}
	return now.Sub(since)
}

// Over tells whether no new reconcile may start now. It asks the clock, too: after a pause of the process the end of
// the lease may not have reached Ctx yet.
func (t *Term) Over() bool { return t.ended() || t.Lease != nil && t.Lease.Over() }

// OverAt is Over for a caller that has just read the clock.
func (t *Term) OverAt(now time.Time) bool { return t.ended() || t.Lease != nil && t.Lease.OverAt(now) }

func (t *Term) ended() bool { return t.Ctx.Err() != nil || t.RunCtx.Err() != nil }
