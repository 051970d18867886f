package engine

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		Existed:  e.leaseExisted,
		Removed:  e.leaseRemoved,
		Holder:   func(identity string) { e.leadership.holder.Store(&identity) },
		Barred:   e.barredByMembers,
		Shards:   e.opts.Shards,
	}
	if e.sharing != nil {
		cfg.Barred = nil
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

// leaseExisted reports whether a replica may work of which the lease tells nothing, that is absent or free.
func (e *Engine) leaseExisted(ctx context.Context, absent bool) (bool, error) {
	if absent {
		return e.holderExisted(ctx)
	}
	return e.leasePutBack(ctx)
}

// holderExisted reports whether a replica may work that held a lease of which nothing is left. Only one that led writes
// anchors and the id with which it led, and it never deletes the lease. Without them the stream may have been made
// anew.
func (e *Engine) holderExisted(ctx context.Context) (bool, error) {
	for range (brake.RecordAnchors{Records: e.records}).All() {
		return true, nil
	}
	if _, _, err := e.records.GetReserved(ctx, record.KeyLedWith); !apierrors.IsNotFound(err) {
		return true, err
	}
	return e.madeAnew(ctx)
}

// leasePutBack reports whether the lease was written before its stream was made, a moment ago: then it is of a backup.
// A server before 2.12 puts a stream back with the time when the one before was made, and that is not noticed.
func (e *Engine) leasePutBack(ctx context.Context) (bool, error) {
	written, err := e.records.ReservedWritten(ctx, record.KeyLease)
	if err != nil || written.IsZero() {
		return false, err
	}
	stream, err := e.records.StreamState(ctx)
	return stream.Age < e.opts.Lease.Duration && written.Before(stream.Created), err
}

// madeAnew reports whether the stream of the status bucket may have been made anew, a moment ago, while a replica works
// that has not noticed. In one that is older than the lease lasts that replica would have renewed its lease.
func (e *Engine) madeAnew(ctx context.Context) (bool, error) {
	records, err := e.records.StreamState(ctx)
	if err != nil || records.Age >= e.opts.Lease.Duration {
		return false, err
	}
	documents, err := e.primary.StreamState(ctx)
	if err != nil {
		return false, err
	}
	if documents.Age < e.opts.Lease.Duration && documents.Created.Sub(records.Created).Abs() < madeTogether {
		return false, nil // both are new, and of one age: a first start
	}
	// Each replica that works has a consumer of the documents, and one that is cut off had it until a moment ago. This
	// one has its own once it watches: before, the only one may be another's.
	if !e.awaitWatch(ctx) {
		return true, nil // it is not known
	}
	documents, err = e.primary.StreamState(ctx)
	return documents.Consumers > 1 || documents.Lingers < e.opts.Lease.Duration, err
}

const (
	// madeTogether is within how long a first start makes both buckets. Apart by more, one of them was made anew.
	madeTogether = time.Second
	// watchPatience is how long a cache that has listed may take to watch. A lease that is free waits so long at most.
	watchPatience = 2 * time.Second
	watchPause    = 5 * time.Millisecond
)

// awaitWatch waits until the cache of documents watches, and reports whether it does.
func (e *Engine) awaitWatch(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	for !e.primary.Watches() {
		if !pause(ctx, watchPause) {
			return false
		}
	}
	return true
}

// awaitRecords waits until the cache of records shows what the last holder of the lease wrote, and takes over its
// claim. That holder wrote to the same stream, before this replica wrote the lease at revision acquired.
func (e *Engine) awaitRecords(ctx context.Context, acquired uint64) error {
	if err := awaitShown(ctx, e.records.Informer(), e.records.StreamState, acquired); err != nil {
		return err
	}
	return e.claim.BeginTerm(ctx, e.seen, e.primary.StreamID)
}

// recordsCache is what awaitShown needs of natsinformer.Informer.
type recordsCache interface {
	Cursor() uint64
	WaitCursor(ctx context.Context, sequence uint64) error
	Status() natsinformer.Status
}

// awaitShown waits until a cache shows the stream that it is of, up to the revision acquired.
//
// A stream whose end has been before that revision for leaderBehind is not the one that had the lease: it was made
// anew, or put back from a backup. Then it is enough that the cache has listed it. The cache may show an older stream
// still, whose revisions say nothing. A stream from a backup may have the time of creation of the one before: the
// cursor of that one lies beyond its end.
func awaitShown(
	ctx context.Context, informer recordsCache, state func(context.Context) (entity.StreamState, error),
	acquired uint64,
) error {
	var endsBefore time.Time // since when the stream's end is before the revision acquired
	for ctx.Err() == nil {
		cursor := informer.Cursor() // before the stream's end is asked for, which never lies before it in one stream
		stream, err := state(ctx)
		status := informer.Status()
		switch {
		case err != nil || stream.LastSeq >= acquired:
			endsBefore = time.Time{}
		case endsBefore.IsZero():
			endsBefore = time.Now()
		}
		another := !endsBefore.IsZero() && time.Since(endsBefore) >= leaderBehind
		shown := err == nil && status.StreamCreated.Equal(stream.Created) && !status.Relisting &&
			cursor <= stream.LastSeq // else also where the leader is behind, for a moment
		if shown && (informer.Cursor() >= acquired || another) {
			return nil
		}
		slice, cancel := context.WithTimeout(ctx, recordsLook)
		if shown {
			_ = informer.WaitCursor(slice, acquired) // the next look tells
		} else {
			<-slice.Done()
		}
		cancel()
	}
	return context.Cause(ctx)
}

// leaderBehind is longer than a new leader of a stream lacks what the last one had.
const leaderBehind = 2 * time.Second

// recordsLook is the pause between two looks at whether the cache of records shows the stream that has the lease.
const recordsLook = 250 * time.Millisecond
