package natsinformer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// compareIdle is how long the consumer must send nothing for the last sequence to count as reached. The messages
	// behind the cursor may be gone, or not match the filter.
	compareIdle = 50 * time.Millisecond
	// compareTries is how often a count is repeated before the stream is listed again. Under load the server may count
	// a new key before it has arrived.
	compareTries = 5
	// tombWindow is how many expired tombstones are asked for at a time: the server drops everybody's requests when
	// too many wait. tombRounds bounds how often forgotten tombstones may make a count useless.
	tombWindow = 64
	tombRounds = 50
	// countRest is the pause after a count with a filter, as a multiple of the time that it took or, if that is less,
	// the one before it: one slow answer may have another reason. While the server counts with a filter (about a second
	// for a quarter of a million keys), it does nothing else with the stream. The pause after any other count is once
	// that time.
	countRest = 10
)

// comparison finds keys that vanished without a message. Every few seconds, or every interval where a count needs a
// filter, and after each recovery, it compares two counts: the server's subjects at its last sequence, and the keys
// known when the cursor passes that sequence. If they differ for good, expired tombstones are the usual reason; it asks
// for them one by one. If that does not explain the difference, the stream is listed again.
type comparison struct {
	at     time.Time // when to begin
	asking bool
	info   *streamInfo
	err    error
	asked  time.Time
	known  int // keys known when the cursor stood at info's last sequence, -1 before
	tries  int
	rounds int
	tombs  []string // keys of expired tombstones still to be asked for
	checks int      // how many are asked for now
	forgot int      // how many the leader did not have any more
}

// counted is what a comparison needs from those before it. It outlives a session.
type counted struct {
	exact       bool          // a list has just shown which keys there are
	notBefore   time.Time     // when the server may be asked to count again
	took        time.Duration // the last count with a filter; 0 before the first
	relisted    time.Time     // when a difference last caused a list
	relists     int           // how many did of late
	unexplained int           // that difference; 0 once a count has agreed
	foreign     bool          // the stream has subjects outside the bucket, so that a count needs a filter
	listAt      time.Time     // when to list again because the server may have lost something, zero for never
	peeks       peeks
}

// errDoubted ends a session so that the stream is listed again, because the server may have lost something.
var errDoubted = errors.New("the server may have been killed, and have brought back what was deleted")

// doubt schedules a list within the interval, because the server did not have our consumer any more: maybe it was
// killed and started again. Then a purged key can have come back with the revision before, at a sequence that was
// read long ago, and neither a message nor the number of keys says so. The moment is random: a server that has just
// come back has enough to do without a list from all informers at once.
func (w *worker) doubt(now time.Time) {
	if w.counted.listAt.IsZero() {
		w.counted.listAt = now.Add(rand.N(w.cfg.CompareInterval))
	}
}

// postpone puts off a scheduled list after it failed, so that it is not tried again at once.
func (w *worker) postpone(now time.Time) {
	if !w.counted.listAt.IsZero() {
		w.counted.listAt = now.Add(jittered(w.cfg.CompareInterval))
	}
}

// passed is called after each message. Until the cursor passes the counted sequence it notes how many keys are known.
func (c *comparison) passed(cursor uint64, k *keys) {
	if c.info != nil && cursor <= c.info.State.LastSeq {
		c.known = k.subjects()
	}
}

// begin schedules the first comparison of a new session: at once, because missed deletes may have left no trace; but
// right after a list only where it costs nothing.
func (w *worker) begin(now time.Time) {
	exact := w.counted.exact
	w.counted.exact = false
	if exact && w.countsWithFilter() {
		w.compareIn(now, w.compareInterval())
		return
	}
	w.compareIn(now, 0)
}

// doubted ends the session when the list that doubt scheduled is due. Until then it returns when to look again.
func (w *worker) doubted(now time.Time) (wake time.Time, err error) {
	switch at := w.counted.listAt; {
	case at.IsZero():
		return now.Add(time.Minute), nil
	case now.Before(at):
		return at, nil
	}
	w.relistCause = errDoubted
	return now, errDoubted
}

func (w *worker) compareIn(now time.Time, d time.Duration) {
	w.comparison = comparison{at: now.Add(jittered(d))}
	if w.comparison.at.Before(w.counted.notBefore) {
		w.comparison.at = w.counted.notBefore
	}
}

// compare does what is due, and returns when to look again.
func (w *worker) compare(ctx context.Context, s *session, now time.Time) (wake time.Time, err error) {
	c := &w.comparison
	switch {
	case c.err != nil:
		return now, c.err
	case c.checks > 0, c.asking && c.info == nil:
		return now.Add(time.Minute), nil // the answer wakes us
	case !c.asking:
		if now.Before(c.at) {
			return c.at, nil
		}
		w.deleteOthers(ctx, s)
		w.count(s)
		return now.Add(time.Minute), nil
	case !c.info.Created.Equal(w.created):
		return now, errStreamChanged
	case w.moved(c.info):
		return now, errSubjectsChanged
	case w.cursor < c.info.State.LastSeq && now.Sub(s.heard) < compareIdle:
		return s.heard.Add(compareIdle), nil
	case w.cursor < c.info.State.LastSeq && now.Sub(c.asked) < compareIdle:
		return c.asked.Add(compareIdle), nil
	}
	subjects, known := c.info.State.NumSubjects, c.known
	c.asking, c.info = false, nil
	if known == subjects {
		w.health.update(func(st *Status) { st.Compares++ })
		w.agreed()
		w.compareIn(now, w.compareInterval())
		return now, nil
	}
	if !w.expiring(now) || c.rounds >= tombRounds {
		c.tries++
	}
	if c.tries > compareTries {
		return now, w.differs(now, known, subjects)
	}
	w.suspectCount(now, known, subjects)
	c.at = now.Add(compareIdle)
	if c.at.Before(w.counted.notBefore) {
		c.at = w.counted.notBefore
	}
	w.checkTombstones(s, now)
	return now, nil
}

// differs decides what to do about a difference that stays. An error ends the session so that the stream is listed.
func (w *worker) differs(now time.Time, known, subjects int) error {
	p := &w.counted
	switch next := w.mayList(now, known-subjects); {
	case known < 0: // too busy to count now
		w.compareIn(now, w.cfg.CompareInterval/10)
		return nil
	case !w.countsWithFilter() && subjects-known == p.unexplained:
		p.foreign = true // a list did not explain it
		w.compareIn(now, 0)
		return nil
	case now.Before(next):
		w.compareIn(now, min(w.compareInterval(), next.Sub(now)))
		return nil
	}
	w.health.update(func(st *Status) { st.Compares++ })
	w.listFor(now, known-subjects)
	w.relistCause = fmt.Errorf("%d keys are known and the stream has %d", known, subjects)
	return w.relistCause
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// count asks the server how many subjects it has.
func (w *worker) count(s *session) {
	c := &w.comparison
	c.asking, c.asked, c.known = true, time.Now(), -1
	filtered := w.countsWithFilter()
	var q infoQuery
	if filtered {
		q = infoQuery{Filter: w.filterSubject(), Offset: math.MaxInt32} // no names, only their number
	}
	s.askInfo(q, func(info *streamInfo, err error) {
		now := time.Now()
		w.counted.rest(now, now.Sub(c.asked), filtered)
		switch {
		case filtered && errors.Is(err, nats.ErrTimeout):
			w.compareIn(now, w.compareInterval()) // changes may still arrive: try again later
			return
		case err != nil:
			c.err = err
			return
		case filtered:
			info.State.NumSubjects = info.Total
		}
		c.info = info
		c.passed(w.cursor, w.keys)
	})
}

// rest puts off the next count.
func (p *counted) rest(now time.Time, took time.Duration, filtered bool) {
	pause := took
	if filtered {
		pause, p.took = p.pause(took), took
	}
	p.notBefore = now.Add(pause)
}

func (p *counted) restUntil(at time.Time) {
	if p.notBefore.Before(at) {
		p.notBefore = at
	}
}

func (p *counted) pause(took time.Duration) time.Duration {
	if p.took > 0 {
		took = min(took, p.took)
	}
	return countRest * took
}

// restIfCutShort puts off the next count if the session has ended during one. The server may go on with it, and a count
// that takes long enough may be what ends sessions.
func (w *worker) restIfCutShort(now time.Time) {
	if c := &w.comparison; c.asking && c.info == nil && w.countsWithFilter() {
		w.counted.notBefore = now.Add(w.counted.pause(now.Sub(c.asked)))
	}
}

// checkTombstones asks for the tombstones that should have expired, and forgets those the leader does not have any
// more.
func (w *worker) checkTombstones(s *session, now time.Time) {
	c := &w.comparison
	if c.rounds++; c.rounds > tombRounds {
		return
	}
	c.tombs, c.forgot = nil, 0
	for key, t := range w.keys.tombs {
		if t.expires != 0 && t.expires <= now.UnixNano() {
			c.tombs = append(c.tombs, key)
		}
	}
	for range tombWindow {
		w.checkTombstone(s)
	}
}

// checkTombstone asks for the next tombstone. Each answer makes it ask for another.
func (w *worker) checkTombstone(s *session) {
	c := &w.comparison
	if len(c.tombs) == 0 {
		return
	}
	key := c.tombs[0]
	c.tombs = c.tombs[1:]
	c.checks++
	t := w.keys.tombs[key]
	s.askMessage(messageQuery{LastFor: w.prefix() + key, once: true}, func(m *storedMessage, err error) {
		c.checks--
		switch {
		case errors.Is(err, nats.ErrTimeout): // the server is busy; the next comparison asks again
			c.tombs, c.at = nil, time.Now().Add(jittered(w.cfg.CompareInterval))
			c.tries--
		case err != nil:
			c.err = err
			return
		case m == nil && w.keys.tombs[key] == t:
			c.forgot++
			w.mu.Lock()
			delete(w.keys.tombs, key)
			w.mu.Unlock()
		}
		w.checkTombstone(s)
		if c.checks == 0 && c.forgot > 0 {
			c.tries-- // that count included tombstones that are gone
		}
	})
}
