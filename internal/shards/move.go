package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// move looks at each slot, and begins what is to be done.
func (s *Shards) move(l *life) {
	s.mu.Lock()
	s.assign()
	takes := s.view.unseen(l.id, s.Duration) // by owner that is not there
	var gains []func()
	var loads []int
	var rest error
	for slot, winner := range s.winners {
		if winner == l.id && !l.loaded.Has(slot) {
			loads = append(loads, slot)
		}
		is := s.view.slots[slot]
		if h := l.slots[slot]; h != nil {
			if is.revision <= h.epoch && is.revision != 0 {
				gains = append(gains, s.keepOrHand(l, slot, h, winner)...)
				continue
			}
			s.drop(l, slot, h, ErrTaken)
		}
		switch {
		case l.ctx.Err() != nil:
		case is.owner == l.id: // H4
			gains = append(gains, s.gain(l, slot, is.revision))
		case winner != l.id || !l.loaded.Has(slot) || s.view.live(is.owner, s.Duration): // T1
		case time.Now().Before(s.restsUntil(is.owner)): // T4
			rest = fmt.Errorf("slots are not taken before %s: what told of their owners has vanished, with its stream "+
				"or by hand, and one of these may work on that has not noticed",
				stamp(s.restsUntil(is.owner)))
		default:
			takes[is.owner] = append(takes[is.owner], slot)
		}
	}
	if len(loads) > 0 && !l.loading && l.ctx.Err() == nil {
		l.loading, s.kept = true, nil
		l.moving.Go(func() { s.load(l, loads) })
	}
	s.shed(l)
	if len(takes) > 0 && !l.taking && l.ctx.Err() == nil {
		l.taking = true
		l.moving.Go(func() { s.take(l, takes) })
	}
	says, news := s.view.says(l.id), !s.view.heard
	s.view.heard = true
	still, stuck := !l.taking && !l.handing(), l.overdue()
	s.mu.Unlock()
	s.ReportRest(l.ctx, rest)
	if still {
		s.ReportMoves(l.ctx, stuck) // nil: whatever could not be done, there is nothing to do now
	}
	if news {
		s.Host.Heard(says)
	}
	for _, gained := range gains {
		gained()
	}
}

// assign finds out who is to have each slot, if the candidates have changed.
func (s *Shards) assign() {
	candidates := s.view.candidates()
	var names strings.Builder
	for _, c := range candidates {
		fmt.Fprintf(&names, "%s=%s*%d ", c.id, c.name, c.weight)
	}
	if s.winners != nil && s.among == names.String() {
		return
	}
	s.view.forget()
	s.among, s.winners, s.chosen = names.String(), make([]string, s.Slots), time.Now()
	for slot := range s.winners {
		s.winners[slot] = winner(slot, candidates)
	}
}

func (v *view) candidatesBut(id string) []candidate {
	return slices.DeleteFunc(v.candidates(), func(c candidate) bool { return c.id == id })
}

// gain makes a slot the member's. The function that it returns tells the host, without the lock.
func (s *Shards) gain(l *life, slot int, epoch uint64) func() {
	h := &held{epoch: epoch, since: time.Now(), from: s.view.slots[slot].before}
	if !l.loaded.Has(slot) {
		s.kept = nil // the host has to load it all the same
	}
	l.slots[slot] = h
	return s.resume(l, slot, h)
}

// resume lets work start in a slot: after it was gained, or after a hand-over that came to nothing (H5).
func (s *Shards) resume(l *life, slot int, h *held) func() {
	if h.ctx == nil || h.ctx.Err() != nil {
		h.ctx, h.cancel = context.WithCancelCause(l.ctx)
	}
	ctx := h.ctx
	h.to, h.draining, h.overdue = "", false, false
	if h.resumed != nil {
		close(h.resumed)
		h.resumed = nil
	}
	s.fences[slot].Store(h.epoch)
	s.epochs[slot].Store(h.epoch)
	return func() { s.Host.Gained(ctx, slot, h.epoch) }
}

// drop takes a slot from the member.
func (s *Shards) drop(l *life, slot int, h *held, why error) {
	if l.slots[slot] != h {
		return
	}
	delete(l.slots, slot)
	s.epochs[slot].Store(0)
	s.fences[slot].Store(0)
	h.cancel(why)
	if h.resumed != nil {
		close(h.resumed)
		h.resumed = nil
	}
}

// keepOrHand is for a slot that the member has. It returns what to tell the host.
func (s *Shards) keepOrHand(l *life, slot int, h *held, winner string) (tell []func()) {
	to := ""
	if m := s.view.members[winner]; winner != l.id && m != nil && m.Ready.Has(slot) &&
		(h.draining || time.Since(m.at) <= s.lately()) { // H2
		to = winner
	}
	switch {
	case h.handing:
	case to != "" && to == h.from && !h.draining && !l.leaving && time.Since(h.since) < holdsLeast: // the next look
	case to == "" && h.draining: // H5
		return []func(){s.resume(l, slot, h)}
	case to != "" && !h.draining:
		h.draining, h.to, h.resumed = true, to, make(chan struct{})
		s.epochs[slot].Store(0)
		resumed, cancel := h.resumed, h.cancel
		return []func(){func() {
			drained := s.Host.Drain(slot)
			l.moving.Go(func() {
				if s.drained(l, h, drained, resumed, cancel) {
					s.handOver(l, slot, h, resumed)
				}
			})
		}}
	case to != "":
		h.to = to
	}
	return nil
}

// drained waits until nothing runs in a slot any more; false means that it is not handed over.
func (s *Shards) drained(
	l *life, h *held, drained, resumed <-chan struct{}, cancel context.CancelCauseFunc,
) bool {
	patience := time.NewTimer(s.DrainPatience)
	defer patience.Stop()
	for {
		select {
		case <-drained:
			return true
		case <-patience.C:
			cancel(ErrHandedOver)
			time.AfterFunc(overduePause, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				h.overdue = h.resumed == resumed // else it is over, and another may have begun
				s.look()
			})
		case <-resumed:
			return false
		case <-l.ctx.Done():
			return false
		}
	}
}

// handOver gives a slot to another member, when nothing runs in it: H3.
func (s *Shards) handOver(l *life, slot int, h *held, resumed <-chan struct{}) {
	s.mu.Lock()
	if l.slots[slot] != h || !h.draining || h.resumed != resumed {
		s.mu.Unlock()
		return
	}
	h.handing = true
	to := h.to
	s.mu.Unlock()
	for l.ctx.Err() == nil {
		revision, owner, err := s.write(l.ctx, slot, to, h.epoch)
		if errors.Is(err, errVanished) {
			s.mu.Lock()
			s.vanished(slot, h.epoch)
			s.drop(l, slot, h, ErrTaken)
			s.mu.Unlock()
			s.look()
			return
		}
		if err != nil {
			if l.ctx.Err() == nil {
				s.ReportMoves(l.ctx, fmt.Errorf("hand slot %d over: %w", slot, err))
			}
			pause(l.ctx, retryPause)
			continue
		}
		s.mu.Lock()
		s.leaderSays(slot, h.epoch, revision, owner)
		s.drop(l, slot, h, ErrHandedOver)
		s.mu.Unlock()
		s.ReportMoves(l.ctx, nil)
		s.look()
		return
	}
}

// lately is within how long a member must have renewed its lease to be given a slot: one that has died is there until
// it ends.
func (s *Shards) lately() time.Duration { return max(3*s.Renew, s.Duration/3) }

// write writes who owns a slot, by compare-and-set. Where that conflicts it returns who owns it, at which revision: it
// may have been written before, and only the acknowledgement was lost.
func (s *Shards) write(
	ctx context.Context, slot int, owner string, expected uint64,
) (revision uint64, is string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	revision, err = s.Store.Put(ctx, slotKey(slot), encode(owned{owner}), expected, 0)
	if err == nil || !apierrors.IsConflict(err) {
		return revision, owner, err
	}
	value, revision, err := s.Store.Load(ctx, slotKey(slot))
	switch {
	case err == nil && revision == expected:
		err = errBusy
	case err == nil && revision == 0:
		err = errVanished
	}
	if err != nil {
		return 0, "", err
	}
	there := newView(s.Slots)
	there.apply(Entry{Key: slotKey(slot), Revision: revision, Value: value})
	return revision, there.slots[slot].owner, nil
}

// errVanished says that a slot's key holds nothing, although it was at a revision: it was purged, and nobody has it.
var errVanished = errors.New("the slot's key is gone")

// errBusy is what a replicated stream may answer, too, where a write conflicts with none: it is to be sent again.
var errBusy = errors.New("the stream is busy, and the key is as it was")

// load has the host load slots, and says that the member is ready for them: H1.
func (s *Shards) load(l *life, slots []int) {
	err := s.Host.Load(l.ctx, slots)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.loading = false
	if err != nil {
		return // the next look tries again
	}
	for _, slot := range slots {
		l.loaded = l.loaded.With(slot, true)
	}
	l.tell()
	s.look()
}
