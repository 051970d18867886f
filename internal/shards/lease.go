package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// leaseOf renews the lease of one life.
type leaseOf struct {
	*Shards
	life     *life
	revision uint64
	unacked  time.Time // when the first renewal was sent of which nothing was heard; zero if there is none
}

// says is what the member says of itself now.
func (e *leaseOf) says() Member {
	says := e.Host.Says()
	if len(says) > longestSays {
		says = nil // what is too large for a message must cost no lease
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return Member{
		ID: e.life.id, Name: e.Name, Weight: e.Weight, Leaving: e.life.leaving, Follows: e.life.before,
		Ready: e.life.loaded, Says: says,
	}
}

// join begins the lease.
func (e *leaseOf) join(ctx context.Context) error {
	sent := time.Now() // L1
	e.unacked = sent
	ctx, cancel := context.WithDeadline(ctx, e.until(sent))
	defer cancel()
	said := e.says()
	attempt, stop := context.WithTimeout(ctx, e.patience())
	defer stop()
	revision, err := e.Store.Put(attempt, memberKey(e.life.id), encode(said), 0, e.Duration)
	if err == nil {
		e.acknowledged(ctx, said, sent, revision)
		return nil
	}
	if e.settle(ctx) == nil { // only the acknowledgement was lost
		return nil
	}
	return fmt.Errorf("join as member %s: %w", e.life.id, err)
}

func (e *leaseOf) until(sent time.Time) time.Time { return sent.Add(e.Duration - margin(e.Duration)) }

// acknowledged is for a renewal that was sent then: L2.
func (e *leaseOf) acknowledged(ctx context.Context, said Member, sent time.Time, revision uint64) {
	until := e.until(sent)
	e.revision, e.unacked = revision, time.Time{}
	e.deadline.Store(&until)
	e.mu.Lock()
	e.view.apply(Entry{Key: memberKey(e.life.id), Revision: revision, Value: encode(said)})
	e.mu.Unlock()
	e.look()
	e.Report(ctx, nil)
}

// expire ends the life with the lease: R2. It waits for no request, which may return a while after its context has
// ended.
func (e *leaseOf) expire() {
	for !over(*e.deadline.Load()) {
		end := time.NewTimer(time.Until(*e.deadline.Load()))
		select {
		case <-e.life.ctx.Done():
			end.Stop()
			return
		case <-end.C:
		}
	}
	e.dies()
}

// renew keeps the lease until the life ends.
func (e *leaseOf) renew() {
	next := time.NewTimer(e.Renew)
	defer next.Stop()
	for {
		select {
		case <-e.life.ctx.Done():
			return
		case <-next.C:
		case <-e.life.urgent:
		}
		if over(*e.deadline.Load()) { // the clock of the wall says so: L4
			e.dies()
			return
		}
		switch err := e.send(); {
		case err == nil:
			next.Reset(e.Renew)
		case errors.Is(err, ErrLeaseOver):
			e.dies()
			return
		default:
			if e.life.ctx.Err() == nil {
				e.Report(e.life.ctx, err)
			}
			next.Reset(min(e.Renew, retryPause))
		}
	}
}

func (e *leaseOf) dies() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.die(e.life)
}

// send renews once.
func (e *leaseOf) send() error {
	ctx, cancel := context.WithDeadline(e.life.ctx, *e.deadline.Load())
	defer cancel()
	said, sent := e.says(), time.Now() // L1
	if e.unacked.IsZero() {
		e.unacked = sent
	}
	attempt, stop := context.WithTimeout(ctx, e.patience())
	defer stop()
	revision, err := e.Store.Put(attempt, memberKey(e.life.id), encode(said), e.revision, e.Duration)
	if err == nil {
		e.acknowledged(ctx, said, sent, revision)
		return nil
	}
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("renew the lease of member %s: %w", e.life.id, err)
	}
	return e.settle(ctx)
}

// settle looks at why a renewal conflicts: L3.
func (e *leaseOf) settle(ctx context.Context) error {
	value, revision, err := e.Store.Load(ctx, memberKey(e.life.id))
	if err != nil {
		return fmt.Errorf("look at the lease of member %s: %w", e.life.id, err)
	}
	var there Member
	if revision == 0 || json.Unmarshal(value, &there) != nil || there.ID != e.life.id {
		return ErrLeaseOver
	}
	// One of the renewals was applied of which nothing was heard: it lasts at least as long as the first of them. What
	// this one was to say is said in the next.
	e.acknowledged(ctx, there, e.unacked, revision)
	e.life.tell()
	return nil
}

// leavePatience bounds the removal of the own key. If it is not removed, it ends by itself.
const leavePatience = 2 * time.Second

// leave removes the own key, when nothing runs any more: H6. The end of the life may have cut off a renewal that was
// applied.
func (e *leaseOf) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.life.ctx), leavePatience)
	defer cancel()
	revision := e.revision
	for revision != 0 { // no one else writes a key with this id
		if err := e.Store.Delete(ctx, memberKey(e.life.id), revision); !apierrors.IsConflict(err) {
			return
		}
		var err error
		if _, revision, err = e.Store.Load(ctx, memberKey(e.life.id)); err != nil {
			return
		}
	}
}
