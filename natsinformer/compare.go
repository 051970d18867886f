package natsinformer

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// compareIdle is how long nothing must come for the last sequence to count as reached: what is behind the cursor
	// may be gone or not for us.
	compareIdle = 50 * time.Millisecond
	// compareTries is how often a count is repeated before the stream is listed again. Under load a new key may be
	// counted by the server before it has arrived.
	compareTries = 5
	// maxTombChecks bounds how many expired tombstones are asked for at a time; a list is cheaper than more.
	maxTombChecks = 4096
)

// comparison finds keys that vanished without a message. Every interval, and after each recovery, it counts: the server's
// subjects at its last sequence, and the keys known when the cursor passes that sequence. If they differ for good,
// expired tombstones are the usual reason; they are asked for one by one. If that does not explain it, the stream is
// listed again.
type comparison struct {
	at     time.Time // when to begin
	asking bool
	info   *streamInfo
	err    error
	asked  time.Time
	known  int // keys known when the cursor stood at info's last sequence, -1 before
	tries  int
	checks int // tombstones being asked for
}

// passed is told where the cursor is after each message.
func (c *comparison) passed(cursor uint64, k *keys) {
	if c.info != nil && cursor <= c.info.State.LastSeq {
		c.known = k.subjects()
	}
}

// compare does what is due, and tells when to look again.
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
		w.count(s)
		return now.Add(time.Minute), nil
	case !c.info.Created.Equal(w.created):
		return now, errStreamChanged
	case w.cursor < c.info.State.LastSeq && now.Sub(s.heard) < compareIdle:
		return s.heard.Add(compareIdle), nil
	case w.cursor < c.info.State.LastSeq && now.Sub(c.asked) < compareIdle:
		return c.asked.Add(compareIdle), nil
	}
	subjects, known := c.info.State.NumSubjects, c.known
	c.asking, c.info = false, nil
	if known == subjects {
		w.health.update(func(st *Status) { st.Compares++ })
		*c = comparison{at: now.Add(jittered(w.cfg.CompareInterval))}
		return c.at, nil
	}
	c.tries++
	switch {
	case c.tries == 1:
		w.checkTombstones(s, now)
		c.at = now
	case c.tries <= compareTries:
		c.at = now.Add(compareIdle)
	case known < 0: // too busy to count now
		*c = comparison{at: now.Add(jittered(w.cfg.CompareInterval / 10))}
	default:
		w.health.update(func(st *Status) { st.Compares++ })
		w.relistCause = fmt.Errorf("%d keys are known and the stream has %d", known, subjects)
		return now, w.relistCause
	}
	return c.at, nil
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// count asks the server how many subjects it has.
func (w *worker) count(s *session) {
	c := &w.comparison
	c.asking, c.asked, c.known = true, time.Now(), -1
	var q infoQuery
	if w.cfg.filtered() {
		q = infoQuery{Filter: w.cfg.filterSubject(), Offset: math.MaxInt32} // no names, only their number
	}
	s.askInfo(q, func(info *streamInfo, err error) {
		if err != nil {
			c.err = err
			return
		}
		if w.cfg.filtered() {
			info.State.NumSubjects = info.Total
		}
		c.info = info
		c.passed(w.cursor, w.keys)
	})
}

// checkTombstones forgets the tombstones that should have expired and that the leader does not have any more.
func (w *worker) checkTombstones(s *session, now time.Time) {
	c := &w.comparison
	for key, t := range w.keys.tombs {
		if t.expires == 0 || t.expires > now.UnixNano() {
			continue
		}
		if c.checks == maxTombChecks {
			return
		}
		c.checks++
		s.askMessage(messageQuery{LastFor: w.cfg.prefix() + key}, func(m *storedMessage, err error) {
			c.checks--
			w.mu.Lock()
			defer w.mu.Unlock()
			if err == nil && m == nil && w.keys.tombs[key] == t {
				delete(w.keys.tombs, key)
			}
		})
	}
}
