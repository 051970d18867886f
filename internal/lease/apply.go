package lease

import (
	"context"
	"time"
)

// apply tries until the lease is taken, or ctx ends.
func (e *elector) apply(ctx context.Context) (won version, ok bool) {
	var seen version
	for ctx.Err() == nil {
		if won, ok := e.try(ctx, &seen); ok {
			return won, true
		}
		pause(ctx, e.Timing.retry(e.random()))
	}
	return version{}, false
}

// try takes the lease if it is free. seen is the version that the last try saw, the zero version before the first.
func (e *elector) try(ctx context.Context, seen *version) (won version, ok bool) {
	now, err := e.load(ctx)
	if err != nil {
		e.absent = time.Time{}
		e.report(ctx, err)
		if seen.revision == 0 && seen.marker == 0 {
			*seen = version{} // meanwhile the key may have come and gone
		}
		return version{}, false
	}
	if hides, err := e.mayHide(ctx, now); err != nil {
		e.report(ctx, err)
		return version{}, false
	} else if hides {
		e.leaveAlone, e.hides = max(e.leaveAlone, e.Timing.Duration), now.revision
	}
	if !seen.at.IsZero() && now.is(*seen) {
		now.at = seen.at
	}
	*seen = now
	switch {
	case now.record.HolderIdentity != "" || now.garbled != nil:
		e.absent = time.Time{}
	case e.absent.IsZero():
		e.absent = now.at
	}
	if time.Since(now.at) < e.wait(now) {
		e.reportWaiting(ctx, now)
		return version{}, false
	}
	e.absent = time.Time{}
	if e.isBarred(ctx) {
		return version{}, false
	}
	won, err = e.take(ctx, now)
	if err == nil && e.isBarred(ctx) {
		e.giveBack(ctx)
		return version{}, false
	}
	return won, err == nil
}

// mayHide asks of a lease that is absent or free whether a holder may work on of which it tells nothing, unless this
// replica knows.
func (e *elector) mayHide(ctx context.Context, now version) (bool, error) {
	absent := now.revision == 0
	known := absent && e.leaveAlone != 0 || !absent && (now.record.RenewTime.IsZero() || e.isOfABackup(now))
	if known || e.Existed == nil || e.AbsentIsFree || now.garbled != nil || now.record.HolderIdentity != "" {
		return false, nil
	}
	return e.Existed(ctx, absent)
}

// isBarred reports whether this replica must not lead now, and tells why.
func (e *elector) isBarred(ctx context.Context) bool {
	if e.Barred == nil {
		return false
	}
	why, err := e.Barred(ctx)
	switch {
	case err != nil:
		e.report(ctx, err)
	case why != nil:
		e.reportHolder(ctx, why)
	}
	return why != nil || err != nil
}

// wait is for how long the key must stay as it is before this replica takes it.
func (e *elector) wait(now version) time.Duration {
	switch holder := now.record.HolderIdentity; {
	case now.revision == 0 && e.AbsentIsFree:
		return 0
	case now.revision == 0, now.garbled != nil, holder == "" && e.isOfABackup(now):
		return e.leaveAlone
	case holder == "" || holder == e.Identity:
		return 0
	}
	return now.record.duration()
}

// isOfABackup reports whether a free lease is one that was given back before the last holder of whom is known took it.
// One that an operator has put tells no time of a renewal.
func (e *elector) isOfABackup(now version) bool {
	before := now.revision < e.highest || now.revision == e.hides
	return before && !e.AbsentIsFree && !now.record.RenewTime.IsZero()
}
