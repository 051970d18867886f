package service

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/micro"
)

// standBy takes a request on a replica that does not lead. The one that leads has it, too, and answers. If no replica
// is seen to renew the lease after the request has come, this one says so, so that the caller does not wait in vain:
// the leader hangs, or is cut off, or there is none. It answers nothing while a leader renews, however long that works.
//
// Who asks beyond the rate, or has many wait, keeps none of another kind from an answer: those that read and those that
// act wait apart, and so do those about one namespace and those about the whole.
//
// A request that reaches a process late, because it hung or was cut off, comes here too: its term is over by then.
func (s *Service) standBy(ctx context.Context, req micro.Request, r *request, stopping <-chan struct{}) {
	limit := s.limit(r)
	if !limit.rate.Allow() {
		return // the replica that leads says so, if there is one
	}
	r.counted = true
	select {
	case limit.standby <- struct{}{}:
	default:
		return // so many wait already that their callers learn it
	}
	asked := time.Now()
	go func() {
		defer func() { <-limit.standby }()
		patience := time.NewTimer(r.patience())
		defer patience.Stop()
		select {
		case <-patience.C:
		case <-stopping:
			return
		}
		req := late{Request: req, nc: s.cfg.Conn}
		if _, keyed := r.sharedKey(); keyed && r.verb.turn == nil {
			r.late = true // its slot is handed over, or the member that has it died
		}
		switch leads := r.answers(); {
		case leads && r.late:
			s.handle(ctx, req, r)
		case leads && r.verb.access == read:
			s.handle(ctx, req, r)
		case leads:
			respond(ctx, req, nil, refuse(codeNotDone, "controller %q began to lead here after the request had come, "+
				"and what its last leader did of it is not known: ask again", r.name()))
		case r.engine.LeaseRenewed().After(asked):
			// The leader answers.
		case r.verb.standby:
			s.handle(ctx, req, r)
		default:
			respond(ctx, req, nil, r.noLeader())
		}
	}()
}

// patience is how long a standby waits for the replica that leads: that renews its lease meanwhile, if it is well. Of
// several standbys one is the first.
func (c *served) patience() time.Duration {
	const slack, spread = 500 * time.Millisecond, 0.5 // of an answer by the server; of a second
	return c.engine.LeasePause()*5/4 + slack + time.Duration(rand.Float64()*spread*float64(time.Second))
}

// noLeader says that no replica leads, as far as a standby can tell.
func (r *request) noLeader() *Error {
	why := "is led by no replica, as far as this one knows"
	if holder := r.leader(); holder != "" {
		why = "has a leader that does not answer: it was not seen to renew its lease"
		if at := r.engine.LeaseRenewed(); !at.IsZero() {
			why = fmt.Sprintf("has a leader that does not answer: it has not renewed its lease for %v",
				time.Since(at).Round(time.Second))
		}
		why += ", and what it did of the request is not known. Another replica leads when the lease has run out"
	}
	return r.notLeading(why)
}
