package engine

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nats-io/nuid"
)

// elect calls lead whenever this replica holds the lease, until ctx ends. lead returns when its context has ended and
// nothing runs any more. Only then is the lease given back, or applied for again, so that two replicas never work at
// once. Without a status bucket there is no lease: lead is called once, with no term.
func (e *Engine) elect(ctx context.Context, lead func(context.Context, *lease.Term)) error {
	if e.records == nil {
		lead(ctx, nil)
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	cfg := lease.Config{
		Store:    record.LeaseStore{Records: e.records},
		Name:     e.statusBucket + "/" + record.KeyLease,
		Identity: fmt.Sprintf("%s_%d_%s", host, os.Getpid(), nuid.Next()),
		Timing:   lease.Timing(e.opts.Lease),
		Existed: func() bool { // only a replica that led writes anchors, and it never deletes the lease
			for range (brake.RecordAnchors{Records: e.records}).All() {
				return true
			}
			return false
		},
		Removed: e.leaseRemoved,
		Holder:  func(identity string) { e.leadership.holder.Store(&identity) },
	}
	lead = e.tellTerms(ctx, cfg.Identity, lead)
	if err := lease.WhileElected(ctx, lease.Candidate{
		Apply: func(ctx context.Context) error {
			applying := cfg
			applying.Report = e.reportLease(ctx)
			return lease.Run(ctx, applying, lead)
		},
		Health: e.health.Show, Holder: cfg.Holder,
	}); err != nil {
		return fmt.Errorf("controller %q: %w", e.name, err)
	}
	return nil
}

// reportLease reports why the lease cannot be read or written, while this replica applies for it or holds it.
func (e *Engine) reportLease(applying context.Context) func(context.Context, error) {
	return func(request context.Context, err error) {
		if err == nil && applying.Err() != nil {
			e.leaseHealth.Leave(request) // no more applications mend nothing
		} else {
			e.leaseHealth.Report(request, err)
		}
	}
}

// awaitRecords waits until the cache of records shows what the last holder of the lease wrote, and takes over its
// claim. That holder wrote to the same stream, before this replica wrote the lease at revision acquired.
func (e *Engine) awaitRecords(ctx context.Context, acquired uint64) error {
	informer := e.records.Informer()
	changes := informer.Status().StreamChanges
	for informer.Status().StreamChanges == changes && informer.Cursor() < acquired {
		slice, cancel := context.WithTimeout(ctx, time.Second)
		err := informer.WaitCursor(slice, acquired)
		cancel()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return e.claim.BeginTerm(ctx, e.seen, e.primary.StreamID)
}
