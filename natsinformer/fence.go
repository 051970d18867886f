package natsinformer

import (
	"errors"
	"math"
	"time"
)

const (
	// fenceIdle is how long nothing must come before the leader is asked whether there is anything.
	fenceIdle = 3 * time.Millisecond
	// fenceTries is how often the cheap proofs are tried under load before the keys are counted one by one.
	fenceTries = 20
	// fenceStall is how long a message that the leader has may take to arrive.
	fenceStall = 5 * time.Second
)

var errStalled = errors.New("the consumer does not deliver what the stream has")

// fence proves that every key which existed at some moment has been processed. Counting messages, their NumPending
// or the last sequence at the start prove nothing while others write: with one message per subject, a write removes
// the message we wait for and puts another one behind everything else. What proves it is one of
//
//   - the stream's last sequence L was asked for when the cursor stood at c, and L ≤ c: nothing was left;
//   - or each single sequence from c+1 to L was then delivered. What was at or below c was delivered before, and what was
//     above came without a gap, so no key of that moment can have moved behind L unseen;
//   - or the leader has no message behind c that matches the filter;
//   - or, if a stream is too busy for these, each subject that the server lists was seen, or read one by one.
//
// It works alongside the consumer, and is driven by whoever processes messages: begin, passed for each message, tick.
type fence struct {
	s      *session
	totals bool // the number of the server's subjects is wanted, to be compared
	count  func() int

	stage   fenceStage
	cursor  uint64
	from    uint64 // cursor when the stream's state was asked for
	missing uint64 // first sequence behind it that did not come
	tries   int
	moved   time.Time // when the last message came
	target  uint64    // a sequence the leader has

	// Results.
	info  *streamInfo
	known int  // keys known at the moment of info, as count gives them; -1 if they were not counted at that moment
	exact bool // everything up to the cursor was processed, not only every key
	err   error
}

type fenceStage int

const (
	fenceOff      fenceStage = iota
	fenceAsking              // for the stream's state
	fenceReaching            // waiting for the messages up to its last sequence
	fenceProbing             // asking the leader for the next message
	fenceWaiting             // for that message
	fenceBusy                // the cheap proofs failed: the owner must count
	fenceDone
)

func newFence(s *session, cursor uint64, totals bool, count func() int) *fence {
	return &fence{s: s, cursor: cursor, totals: totals, count: count, moved: time.Now(), missing: math.MaxUint64}
}

// begin asks for the stream's state.
func (f *fence) begin() {
	f.stage, f.from, f.missing, f.info, f.known = fenceAsking, f.cursor, math.MaxUint64, nil, -1
	var q infoQuery
	if f.totals && f.s.src.cfg.filtered() {
		q = infoQuery{Filter: f.s.src.cfg.filterSubject(), Offset: math.MaxInt32} // no names, only their number
	}
	f.s.askInfo(q, func(info *streamInfo, err error) {
		switch {
		case err != nil:
			f.err = err
			return
		case f.s.src.cfg.filtered():
			info.State.NumSubjects = info.Total
		}
		f.info, f.stage = info, fenceReaching
		if f.cursor == f.from {
			f.known = f.count()
		}
		f.reached()
		if f.stage == fenceReaching && f.s.src.cfg.filtered() {
			f.probe() // what others write leaves gaps that mean nothing
		}
	})
}

// passed is told of each message after it was processed.
func (f *fence) passed(seq uint64, now time.Time) {
	if seq > f.cursor+1 {
		f.missing = min(f.missing, f.cursor+1)
	}
	f.cursor, f.moved = seq, now
	switch f.stage {
	case fenceReaching:
		if seq <= f.info.State.LastSeq {
			f.known = f.count()
		}
		f.reached()
	case fenceWaiting:
		if f.cursor >= f.target {
			f.retry()
		}
	}
}

// reached looks whether the sequences up to the last one have come.
func (f *fence) reached() {
	last := f.info.State.LastSeq
	switch {
	case f.from >= last:
		f.finish(true)
	case f.cursor < last:
	case f.s.src.cfg.filtered():
	case f.missing > last:
		f.finish(true)
	default:
		f.retry()
	}
}

// tick looks what is due, and tells when to look again.
func (f *fence) tick(now time.Time) time.Time {
	idle := now.Sub(f.moved)
	switch f.stage {
	case fenceReaching:
		if idle >= fenceIdle {
			f.probe()
		}
		return now.Add(fenceIdle)
	case fenceWaiting:
		if idle >= fenceStall {
			f.err = errStalled
		}
		return now.Add(fenceStall / 4)
	}
	return now.Add(time.Minute)
}

// probe asks the leader for the first message behind the cursor.
func (f *fence) probe() {
	f.stage = fenceProbing
	cursor, known := f.cursor, f.count()
	q := messageQuery{Seq: cursor + 1, NextFor: f.s.src.cfg.filterSubject()}
	f.s.askMessage(q, func(m *storedMessage, err error) {
		switch {
		case err != nil:
			f.err = err
		case m == nil:
			f.known = known
			f.cursor = max(f.cursor, f.info.State.LastSeq)
			f.finish(true)
		case f.cursor >= m.Seq:
			f.retry()
		default:
			f.stage, f.target = fenceWaiting, m.Seq
		}
	})
}

func (f *fence) retry() {
	if f.tries++; f.tries > fenceTries {
		f.stage = fenceBusy
		return
	}
	f.begin()
}

func (f *fence) finish(exact bool) { f.stage, f.exact = fenceDone, exact }
