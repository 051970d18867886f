// Package lease lets one of several replicas work at a time, over one key of a key-value store.
//
// The rules:
//
//   - The key holds a record: its holder, and how long the others wait for one that does not renew. Each write states
//     the revision that it replaces, so of two writes at once one fails.
//   - A replica takes the lease if the record names no holder or this replica, or if the record did not change for the
//     duration that it states, of which an hour is believed at most. The replica counts by its own clock, from when it
//     first saw this revision. So the clocks of replicas need not agree.
//   - A key that never was is taken at once. A key that vanished is left to its holder, who creates it again, for the
//     longest duration that was seen: the holder may not know yet. It vanished if this replica saw it, if there is a
//     delete marker, or if something else tells that there was a holder. In a stream that may have been made anew a
//     moment ago it counts as vanished, too, for [Config.Existed] says so. So does a free lease that was put back
//     from a backup.
//   - The holder renews every RetryPeriod. Its term ends min(Duration, RenewDeadline+RetryPeriod) after it sent the
//     last write that succeeded. The others count from when they saw that write, which is later.
//   - A renewal that fails is followed by a look at the record at once. If it names another holder, or none, the term
//     ends. If the key is absent the holder creates it again; it does so at once where it is told. If the record names
//     this replica at another revision, an answer was lost, and the holder renews at that revision.
//   - What is no record, such as a reply of the server that a client had sent to the key, frees nothing. The holder
//     writes its record over it, as long as its term lasts. The others wait for the longest duration that was seen,
//     from when they first saw this revision. What comes again and again keeps them waiting, and is reported.
//   - What bars a replica is asked for before it takes the lease, and after. So of one that takes the lease, and then
//     asks, and one that says that it works, and then looks at the lease, at least one knows of the other.
//   - A replica applies again only after the work of its last term has returned.
//   - At the end the holder gives the lease back, so that another takes it at once.
//
// The record is the one that client-go's leader election writes, so that replicas with either code take turns. One rule
// is stricter here: client-go compares what the key holds, and its times are in whole seconds, so it misses renewals
// within one second. This package compares revisions, too.
package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Store is the key that holds the lease. Errors are apimachinery's. Its revisions are to be those of the stream that
// has what the holder writes: a new holder waits until its cache has reached the revision at which it won.
type Store interface {
	// Load reads the key live. IsNotFound if it is absent; the revision is then that of its delete marker, or 0 if it
	// has none.
	Load(ctx context.Context) (value []byte, revision uint64, err error)
	// Store writes the key if it, or its delete marker, is at this revision, and returns the new one. Revision 0
	// creates the key. IsConflict or IsAlreadyExists if the key is at another revision.
	Store(ctx context.Context, value []byte, revision uint64) (uint64, error)
}

// Config says who applies, and for what.
type Config struct {
	Store    Store
	Name     string // names the key in errors, such as bucket/key
	Identity string // of this replica and this call of Run; no other may have it
	Timing   Timing
	// Controllers returns the names of what leads with the lease, as of now. The record has them, so that a replica
	// that runs others can tell; see [ErrOtherControllers]. It may be nil, and name none.
	Controllers func() []string
	// Existed tells of a key that is absent, or says that the lease is free, whether a holder may work on of which the
	// key tells nothing. While it fails, the lease is not taken. It may be nil.
	Existed func(ctx context.Context, absent bool) (bool, error)
	// AbsentIsFree says that an absent key is free at once, also one that has vanished. It is for a lease beside which
	// something else keeps the holders apart: the last one may not know yet.
	AbsentIsFree bool
	// Barred tells why this replica must not lead now; nil if it may. It is asked before the lease is taken, and once
	// more when it was: then the lease is given back, also where err says that it is not known. It may be nil.
	Barred func(ctx context.Context) (why, err error)
	// Shards is into how many slots the keys are divided that several replicas share, while one of them leads; 0 if
	// the one that leads works alone. The record has it, see [HeldAlone].
	Shards int
	// Removed may tell that the key was seen to vanish: the holder looks at once. It may be nil.
	Removed <-chan struct{}

	// Holder is told who holds the lease, each time that the key was read or written; "" if no replica does. It may be
	// nil.
	Holder func(identity string)

	// Report is called after requests, by one goroutine at a time: nil if the lease was written, or is another's, else
	// why it cannot be read or written, or one of ErrOtherControllers, ErrNotRenewed and ErrNoHolder. A read
	// before a write tells nothing. The last report is nil, so that no stale error remains. It may be nil.
	Report func(ctx context.Context, err error)
}

// Run calls lead whenever this replica holds the lease, until ctx ends. Then it gives the lease back. It fails at once
// if cfg is wrong.
//
// Each term calls lead once. The context of lead ends with ctx, or when the lease is lost. lead must return soon after
// that, and nothing may work on when it has: only then is the lease given back, or applied for again. If lead returns
// earlier, the lease stays held.
func Run(ctx context.Context, cfg Config, lead func(context.Context, *Term)) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	e := elector{Config: cfg, random: rand.Float64}
	e.run(ctx, lead)
	return nil
}

func (c *Config) validate() error {
	switch {
	case c.Store == nil:
		return errors.New("lease: no store")
	case c.Identity == "":
		return errors.New("lease: no identity")
	}
	if err := c.Timing.Validate(); err != nil {
		return fmt.Errorf("lease: timing %+v: %w", c.Timing, err)
	}
	return nil
}

type elector struct {
	Config
	random func() float64 // in [0, 1)
	// leaveAlone is for how long a key that is absent is left to its holder: 0 if there never was one.
	leaveAlone time.Duration
	outage     outage
	// highest is the revision at which the key named a holder last. A free lease below it is of a backup: that holder
	// may work on. hides is the revision of a free lease of which Config.Existed says so.
	highest, hides uint64
	// absent is since when the key was seen absent or free, at whatever revisions, and no holder since.
	absent time.Time

	term    atomic.Pointer[Term] // the one that goes on; nil: none does
	exiting atomic.Bool          // the process ends at once: nothing is written any more but by leave
}

func (e *elector) run(ctx context.Context, lead func(context.Context, *Term)) {
	defer e.know(ctx)()
	for {
		won, ok := e.apply(ctx)
		if !ok {
			break
		}
		e.hold(ctx, won, lead)
		e.term.Store(nil)
	}
	ending := context.WithoutCancel(ctx)
	e.giveBack(ending)
	e.report(ending, nil)
}

// version is one revision of the key.
type version struct {
	record   record
	garbled  error  // why the key holds no record; nil if it does, and if it is absent
	value    []byte // as read; nil if written by this replica
	revision uint64 // 0 if the key is absent
	marker   uint64 // the revision of the delete marker of an absent key
	// at is when the record's duration begins to count: before the request for a version that this replica wrote, after
	// the answer for one that it read.
	at time.Time
}

func (v version) is(other version) bool {
	return v.revision == other.revision && v.marker == other.marker && bytes.Equal(v.value, other.value)
}

// renew writes the lease again. The error is errTaken if another took it.
func (e *elector) renew(ctx context.Context, held version) (version, error) {
	renewed, failed := e.write(ctx, held)
	if !isOvertaken(failed) && !hasNoResponder(failed) { // else the look tells more
		e.report(ctx, failed)
	}
	if failed == nil {
		return renewed, nil
	}
	now, err := e.load(ctx)
	switch {
	case err != nil:
		e.reportRenewal(ctx, failed, err)
		return version{}, err
	case now.revision == 0: // removed by hand
		now.record = held.record
	case now.garbled != nil && time.Since(held.at) < e.Timing.term():
		e.reportHolder(ctx, now.garbled)
		now.record = held.record
	case now.garbled != nil:
		return version{}, now.garbled
	case now.record.HolderIdentity != e.Identity:
		e.report(ctx, nil)
		return version{}, fmt.Errorf("%w by %q", errTaken, now.record.HolderIdentity)
	}
	return e.take(ctx, now)
}

// take makes this replica the holder, if the key is still at this version, and reports whether it could.
func (e *elector) take(ctx context.Context, before version) (version, error) {
	won, err := e.write(ctx, before)
	e.report(ctx, err)
	return won, err
}

// write is take without a report.
func (e *elector) write(ctx context.Context, before version) (version, error) {
	if e.exiting.Load() {
		return version{}, errExiting
	}
	record := before.record.heldBy(e.Identity, e.Timing.Duration, before.revision)
	if names := e.controllers(); len(names) <= mostControllers {
		record.Controllers = names
	}
	record.Shards = e.Shards
	return e.store(ctx, record, max(before.revision, before.marker))
}

// giveBack frees the lease if this replica holds it. If that fails the lease runs out by itself.
func (e *elector) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, giveBackPatience)
	defer cancel()
	for {
		now, err := e.load(ctx)
		if err != nil || now.record.HolderIdentity != e.Identity {
			return
		}
		if _, err = e.store(ctx, now.record.free(), now.revision); !apierrors.IsConflict(err) {
			return
		}
		// A renewal that was cut short by the end arrived late.
	}
}

// giveBackPatience is how long the end of Run may take for giving the lease back.
const giveBackPatience = 2 * time.Second
