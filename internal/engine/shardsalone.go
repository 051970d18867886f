package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Members and a replica without slots never work together. Each writes first, and then looks: the member its own key,
// and then the lease; the other the lease, and then the members. So at least one of them finds the other.

// aloneLook is how often a member looks whether the replica that works alone has ended.
const aloneLook = time.Second

// Join implements shards.Host: it waits while a replica works without slots. One that takes the lease later finds this
// member, and does not.
func (s *sharing) Join(ctx context.Context) {
	const name = "shards"
	if s.remade {
		pause(ctx, s.opts.Lease.Duration) // members may work that have not noticed that the bucket was made anew
	}
	s.remade = false
	for ctx.Err() == nil {
		if _, err := s.store().FixSlots(ctx, s.many); err != nil { // the bucket may be another one by now
			s.health.Set(ctx, name, err)
			pause(ctx, aloneLook)
			continue
		}
		value, _, err := s.records.GetReserved(ctx, record.KeyLease)
		holder := ""
		if err == nil {
			holder, err = lease.HeldAlone(value)
		}
		switch {
		case apierrors.IsNotFound(err), err == nil && holder == "":
			s.health.Set(ctx, name, nil)
			return
		case err == nil:
			err = fmt.Errorf("%q works alone, without WithShards: this replica works once that one has ended",
				printable.Text(holder))
		}
		s.health.Set(ctx, name, err)
		pause(ctx, aloneLook)
	}
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
		why = fmt.Errorf("%d replicas work with WithShards, such as %q, and this one is without: it works once they "+
			"have ended", len(ids), printable.Text(ids[0]))
	}
	return why, err
}
