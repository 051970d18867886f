package natsinformer

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// A purge through the API sends nothing. The stream's state shows it: the number of subjects, or of messages, or the
// first sequence. The informer asks for that state every few seconds. One answer costs the server nothing that grows
// with the stream, unless it counts with a filter.
const (
	// lookInterval is how often the stream's state is asked for, jittered by a tenth.
	lookInterval = 3 * time.Second
	// doubtfulTries is how many counts in a row have to differ before Status.Suspect says so: under load the first
	// ones may.
	doubtfulTries = 2
	// scanRest is the pause after a look at all keys, as a multiple of the time that it took.
	scanRest = 100
)

// peek is what the state of the whole stream was when it was asked for last, for an informer that counts with a filter:
// a fall of these numbers is a reason to count. It ends with the session.
type peek struct {
	at              time.Time
	asking, known   bool
	first, messages uint64
	oldest          uint64 // no key that is known and has not expired has an older revision; zero if that is not known
}

// peeks outlive a session.
type peeks struct {
	caused bool      // a peek has caused the comparison that is under way, or due
	vain   int       // how many such comparisons have found nothing to list for, of late
	rest   time.Time // when a peek may cause another one
}

// compareInterval is how often the store is compared with the server's key set.
func (src *source) compareInterval() time.Duration {
	switch {
	case src.place.open:
		return min(openInterval, src.cfg.CompareInterval)
	case src.countsWithFilter():
		return src.cfg.CompareInterval
	}
	return min(lookInterval, src.cfg.CompareInterval)
}

func (src *source) countsWithFilter() bool { return src.cfg.filtered() || src.counted.foreign }

// suspect notes that the store may show what the stream does not have any more. A nil reason ends that.
func (w *worker) suspect(why error) {
	w.health.update(func(st *Status) {
		switch {
		case why == nil:
			st.Suspect, st.SuspectSince = nil, time.Time{}
			return
		case st.Suspect == nil:
			st.SuspectSince = time.Now()
		}
		st.Suspect = why
	})
}

// suspectCount is suspect for counts that go on to differ.
func (w *worker) suspectCount(now time.Time, known, subjects int) {
	if known >= 0 && w.comparison.tries > doubtfulTries && !w.aged(now, known-subjects) {
		w.suspect(fmt.Errorf("%d keys are known and the stream has %d", known, subjects))
	}
}

// agreed notes that a comparison has found nothing.
func (w *worker) agreed() {
	p := &w.counted
	p.unexplained = 0
	w.suspect(nil)
	if !p.peeks.caused {
		p.peeks.vain = max(0, p.peeks.vain-1)
	}
	p.peeks.caused = false
}

// mayList returns when a difference of that many keys may cause a list. The first does at once, and the next ones after
// a pause that doubles. Where the last list has not explained the difference, or where the stream's age limit explains
// it, the pause is about the interval.
func (w *worker) mayList(now time.Time, missing int) time.Time {
	p := &w.counted
	pause := w.cfg.CompareInterval * 9 / 10
	if now.Sub(p.relisted) >= pause {
		p.relists = 0
	}
	if p.unexplained == 0 && !w.aged(now, missing) {
		pause = min(pause, lookInterval<<min(p.relists, 10)/2)
	}
	return p.relisted.Add(pause)
}

// listFor notes that a difference causes a list now.
func (w *worker) listFor(now time.Time, missing int) {
	p := &w.counted
	p.relisted, p.unexplained = now, -missing
	p.relists++
	if !w.aged(now, missing) {
		p.peeks = peeks{}
	}
}

// aged reports whether the stream's age limit explains that so many keys are missing: where it leaves no marker, it
// removes keys without a message.
func (w *worker) aged(now time.Time, missing int) bool {
	if w.keys.maxAge == 0 || w.marks || missing <= 0 {
		return false
	}
	begun := time.Now()
	over, limit := 0, w.serverNow(now)-int64(w.keys.maxAge)
	for _, l := range w.keys.live.all() {
		if l.created <= limit {
			over++
		}
	}
	for _, t := range w.keys.tombs {
		if t.created <= limit {
			over++
		}
	}
	w.counted.restUntil(now.Add(scanRest * time.Since(begun)))
	return over >= missing
}

// peek asks for the stream's state where a count costs the server much, and returns when to look again.
func (w *worker) peek(s *session, now time.Time) (wake time.Time) {
	p := &w.peeked
	switch {
	case !w.countsWithFilter(), p.asking, w.comparison.asking:
		return now.Add(time.Minute) // an answer wakes us
	case p.at.IsZero():
		p.at = now.Add(jittered(lookInterval))
		return p.at
	case now.Before(p.at):
		return p.at
	}
	p.asking = true
	s.askInfo(infoQuery{}, func(info *streamInfo, err error) {
		now := time.Now()
		p.asking, p.at = false, now.Add(jittered(lookInterval))
		switch {
		case errors.Is(err, nats.ErrTimeout): // the server is busy
		case err != nil:
			w.comparison.err = err
		case !info.Created.Equal(w.created):
			w.comparison.err = errStreamChanged
		default:
			w.peekedAt(now, info)
		}
	})
	return now.Add(time.Minute)
}

// peekedAt counts at once if the state of the stream shows that messages went which nothing has replaced.
func (w *worker) peekedAt(now time.Time, info *streamInfo) {
	p, before := &w.peeked, w.peeked
	p.known, p.first, p.messages = true, info.State.FirstSeq, info.State.Messages
	fell := before.known && p.messages < before.messages
	if p.first > p.oldest && w.cursor >= info.State.LastSeq {
		begun := time.Now()
		p.oldest = w.keys.oldest(w.serverNow(now.Add(expirySoon)))
		p.at = p.at.Add(scanRest * time.Since(begun))
		if p.oldest > 0 && p.oldest < p.first {
			w.suspect(fmt.Errorf("revision %d is known and the stream begins with %d", p.oldest, p.first))
			fell = true
		}
	}
	if c := &w.comparison; fell && !c.asking && c.tries == 0 {
		w.counted.peeks.cause(now, c, w.cfg.CompareInterval)
	}
}

// cause makes a comparison due: at once, or after the pause since the last one that a peek has caused. The pause
// doubles while they find nothing.
func (p *peeks) cause(now time.Time, c *comparison, most time.Duration) {
	if at := later(now, p.rest); at.Before(c.at) {
		c.at = at
	}
	p.caused = true
	if now.Before(p.rest) {
		return
	}
	p.rest = now.Add(min(most, lookInterval<<min(p.vain, 10)))
	p.vain++
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// oldest returns the lowest revision that is known and whose time to live, if it has one, is not over at a time by the
// clock of the server; zero if none is. The others may be gone without a purge.
func (k *keys) oldest(at int64) (revision uint64) {
	for key, l := range k.live.all() {
		if one := k.expires.of[key]; (revision == 0 || l.revision < revision) && (one == nil || one.at > at) {
			revision = l.revision
		}
	}
	for _, t := range k.tombs {
		if (revision == 0 || t.revision < revision) && (t.expires == 0 || t.expires > at) {
			revision = t.revision
		}
	}
	return revision
}
