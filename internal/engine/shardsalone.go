package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// Members and a replica without slots never work together. Each writes first, and then looks: the member its own key,
// and then the lease; the other the lease, and then the members. So at least one of them finds the other.

const (
	// aloneLook is how often a member looks whether the replica that works alone has ended.
	aloneLook = time.Second
	// leaseLook is how often it looks whether a member has taken the lease that is free.
	leaseLook = 50 * time.Millisecond
)

// Join implements shards.Host: it waits while a replica works without slots, and then until one of those that share the
// keys has the lease. A replica of an earlier version knows nothing of members, but leaves a lease alone that another
// has.
func (s *sharing) Join(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := s.store().FixSlots(ctx, s.many); err != nil { // the bucket may be another one by now
			s.health.Set(ctx, shardsHealth, err)
			pause(ctx, aloneLook)
			continue
		}
		if stream, err := s.records.StreamState(ctx); err == nil {
			s.Young(stream.Age)
		} else {
			s.health.Set(ctx, shardsHealth, err)
			pause(ctx, aloneLook)
			continue
		}
		value, _, err := s.records.GetReserved(ctx, record.KeyLease)
		if err == nil && lease.HeldShared(value) {
			s.health.Set(ctx, shardsHealth, nil)
			return
		}
		wait, holder := leaseLook, ""
		if err == nil {
			holder, err = lease.HeldAlone(value)
		}
		switch {
		case apierrors.IsNotFound(err):
			err = nil
		case holder != "":
			wait, err = aloneLook, fmt.Errorf("%w: %q works without WithShards, and this replica works once that one "+
				"has ended. In a rolling update this passes", lease.ErrAlone, printable.Text(holder))
		case err != nil:
			wait = aloneLook
		}
		if ctx.Err() == nil { // else it was the end of this wait
			s.health.Set(ctx, shardsHealth, err)
		}
		pause(ctx, wait)
	}
}

// membersExisted reports whether members may work of which the bucket tells nothing: it was made anew, or put back, or
// keys of it were deleted by hand, and they have not noticed. made says that it told of no slots before this replica
// began. The lease alone does not keep this one from their slots: its holder, which has noticed, writes it again at
// once.
func (s *sharing) membersExisted(ctx context.Context, made bool) bool {
	value, _, err := s.records.GetReserved(ctx, record.KeyLease)
	if err == nil {
		if holder, err := lease.HeldAlone(value); err == nil && holder != "" {
			return false // it looked for members when it began
		}
	}
	existed := s.madeAnew
	if made {
		existed = s.holderExisted
	}
	yes, err := existed(ctx)
	return yes || err != nil
}

// leaseSeen ends the work of this member if a replica has the lease that works alone. One of this version does not take
// it while there are members; one of an earlier version, or a person, may.
func (e *Engine) leaseSeen(value []byte) {
	if e.sharing == nil {
		return
	}
	if holder, err := lease.HeldAlone(value); err == nil && holder != "" {
		e.sharing.Expel()
	}
}

// barredByMembers tells that members work, beside which a replica without slots must not.
func (e *Engine) barredByMembers(ctx context.Context) (why, err error) {
	ids, err := record.ShardStore{Records: e.records}.Members(ctx)
	if err == nil && len(ids) > 0 {
		why = fmt.Errorf("%w: %d work with WithShards, such as %q, and this one is without: it works once all those "+
			"have ended. In a rolling update this passes", lease.ErrShared, len(ids), printable.Text(ids[0]))
	}
	return why, err
}

// fixSlots tries until the bucket says how many slots there are, or ctx ends. It fails if it says another number.
func (s *sharing) fixSlots(ctx context.Context) (made bool, err error) {
	for {
		made, err = s.store().FixSlots(ctx, s.many)
		if err == nil || ctx.Err() != nil || errors.Is(err, record.ErrSlots) {
			break
		}
		s.health.Set(ctx, shardsHealth, err)
		pause(ctx, aloneLook)
	}
	if err != nil && ctx.Err() == nil {
		return false, fmt.Errorf("controller %q: bucket %s: %w", s.name, s.statusBucket, err)
	}
	return made, nil
}

// slotsSeen has the members look at what says how many slots there are.
func (e *Engine) slotsSeen() {
	if e.sharing != nil {
		notifyOf(e.sharing.fixes)
	}
}

// keepSlots writes again how many slots there are, when that was deleted by hand, until ctx ends: else a replica with
// another number, or one without slots, would find no members. It ends the work of this member if the bucket says
// another number: keys fall into other slots there. Join waits until it is this one again.
func (s *sharing) keepSlots(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.fixes:
		}
		made, err := s.store().FixSlots(ctx, s.many)
		switch {
		case made:
			printable.Logger(klog.FromContext(ctx)).Info("The number of slots was deleted, and is written again",
				"key", record.KeyShards, "slots", s.many)
		case errors.Is(err, record.ErrSlots):
			s.Expel()
		case err != nil:
			pause(ctx, aloneLook)
			notifyOf(s.fixes)
		}
	}
}

// shardsHealth is the name on the board of what keeps this replica from being a member.
const shardsHealth = "shards"
