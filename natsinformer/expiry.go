package natsinformer

import (
	container "container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// When a message expires whose writer set a time to live, a stream without limit markers sends nothing. So the informer
// knows when each such key is due, and then asks the stream's leader whether the key is gone. The leader decides, and
// its clock counts. While the key is still there, the informer asks again, ever more rarely.

const (
	// expiryWindow is how many keys are asked for at a time: the server drops everybody's requests when too many wait.
	expiryWindow = 64
	// The pause before the leader is asked again for a key is a quarter of the time by which the key is late, between
	// these limits. The server looks for what is due up to four times a second.
	expiryPauseMin = 100 * time.Millisecond
	expiryPauseMax = 30 * time.Second
	// expirySoon is how near the next look at a key must be for a count of keys to wait for it.
	expirySoon = time.Second
)

// deadline is of a key with a time to live of its own. Both times are by the clock of the server, in nanoseconds.
type deadline struct {
	key   string
	at    int64 // when the server drops the message
	look  int64 // when to ask whether it has
	place int   // in the heap
	// forwarded says that no writer meant it: the server forwarded a message with a time to live as an answer to this
	// key.
	forwarded bool
}

// deadlines are those of all keys that have one, the one to look at next first.
type deadlines struct {
	of    map[string]*deadline
	order deadlineHeap
}

func newDeadlines() *deadlines { return &deadlines{of: map[string]*deadline{}} }

// set notes when a revision of the key expires; zero if never. It replaces what was known of the revision before.
func (d *deadlines) set(key string, at int64, forwarded bool) {
	d.drop(key)
	if at == 0 {
		return
	}
	one := &deadline{key: key, at: at, look: at, forwarded: forwarded}
	d.of[key] = one
	container.Push(&d.order, one)
}

func (d *deadlines) drop(key string) {
	if one, ok := d.of[key]; ok {
		container.Remove(&d.order, one.place)
		delete(d.of, key)
	}
}

// over reports whether the key has a time to live that was over at that time, and that its writer meant.
func (d *deadlines) over(key string, at int64) bool { return d.reason(key, at) == ExpiryMarker }

// reason returns for which reason a key is gone that has a time to live that was over at that time; "" if it has none.
func (d *deadlines) reason(key string, at int64) DeleteReason {
	switch one, ok := d.of[key]; {
	case !ok || at < one.at:
		return ""
	case one.forwarded:
		return expiredByAge
	}
	return ExpiryMarker
}

// next returns the deadline to look at next, nil if there is none.
func (d *deadlines) next() *deadline {
	if len(d.order) == 0 {
		return nil
	}
	return d.order[0]
}

// postpone sets when to look at a deadline again, after a look now.
func (d *deadlines) postpone(one *deadline, now int64) {
	pause := min(max(time.Duration(now-one.at)/4, expiryPauseMin), expiryPauseMax)
	one.look = now + int64(pause)
	container.Fix(&d.order, one.place)
}

type deadlineHeap []*deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].look < h[j].look }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *deadlineHeap) Push(x any) {
	one := x.(*deadline)
	one.place = len(*h)
	*h = append(*h, one)
}

func (h *deadlineHeap) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return one
}

// expiries are the questions to the leader about keys that are due. They end with the session.
type expiries struct {
	asking  int
	answers []expiryAnswer
}

type expiryAnswer struct {
	deadline *deadline
	info     *streamInfo
	latest   *storedMessage // what the key has now, if that was asked for
	err      error
}

// serverNow is the time by the clock of the server that leads the stream, in nanoseconds.
func (src *source) serverNow(now time.Time) int64 { return now.Add(src.ahead).UnixNano() }

// expire delivers the keys of which the leader said that they are gone, asks for those that are due, and returns when
// to look again. It is called when the messages that came before the answers were applied.
func (w *worker) expire(ctx context.Context, s *session, now time.Time) (wake time.Time, err error) {
	e := &w.expiries
	for _, a := range e.answers {
		e.asking--
		if err := w.takeExpiry(ctx, s, a); err != nil {
			return now, err
		}
	}
	clear(e.answers)
	e.answers = e.answers[:0]
	later := now.Add(time.Minute)
	if !w.expires {
		return later, nil
	}
	for at := w.serverNow(now); e.asking < expiryWindow; {
		next := w.keys.expires.next()
		if next == nil {
			return later, nil
		}
		if next.look > at {
			return earlier(later, now.Add(time.Duration(next.look-at))), nil
		}
		w.keys.expires.postpone(next, at)
		e.asking++
		s.askKey(next.key, func(info *streamInfo, err error) {
			e.answers = append(e.answers, expiryAnswer{deadline: next, info: info, err: err})
		})
	}
	return later, nil // an answer wakes us
}

// takeExpiry handles an answer. An error ends the session.
func (w *worker) takeExpiry(ctx context.Context, s *session, a expiryAnswer) error {
	switch one := a.deadline; {
	case errors.Is(a.err, nats.ErrTimeout): // the server is busy
	case a.err != nil:
		return a.err
	case !a.info.Created.Equal(w.created):
		return errStreamChanged
	case a.info.State.LastSeq < w.cursor, !a.info.Time.IsZero() && a.info.Time.UnixNano() < one.at:
		// The server does not know yet what we know, or its time has not come.
	case w.keys.expires.of[one.key] != one: // it was written again meanwhile
	case a.info.Total == 0:
		w.expired(ctx, one.key)
	case a.latest != nil && a.latest.Seq < w.keys.revisionOf(one.key):
		if !w.progress.holds() { // else it is asked for again
			return w.returned(ctx, one.key, a.latest, a.info)
		}
	case a.latest == nil && a.info.Config.History != 1:
		// It is still there, or was written again, or a revision before it is the latest again.
		w.expiries.asking++
		s.askMessage(messageQuery{LastFor: w.prefix() + one.key, once: true}, func(m *storedMessage, err error) {
			if m != nil || err != nil {
				w.expiries.answers = append(w.expiries.answers, expiryAnswer{one, a.info, m, err})
				return
			}
			w.expiries.asking-- // it has just expired
		})
	}
	return nil
}

// returned delivers that the revision of a key has expired, and an older one is its latest again. That happens in a
// bucket that keeps more than one. The older one is told as a change, though its revision is lower than the one before.
func (w *worker) returned(ctx context.Context, key string, m *storedMessage, info *streamInfo) error {
	it := item{key: key, seq: m.Seq, created: m.Time.UnixNano(), value: m.Value}
	if len(m.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(m.Header)
		if err != nil {
			return fmt.Errorf("reading the headers of revision %d of key %q: %w", m.Seq, key, err)
		}
		it.header = header
	}
	if it.reason = markerOf(it.header); it.reason == ExpiryMarker && !w.cfg.DocumentsExpire {
		it.reason = expiredByAge
	}
	if it.reason == "" {
		it.object, it.err = w.decodeOne(&it)
	}
	if !w.deep {
		w.deep = true
		klog.FromContext(ctx).Info("A document has expired, and an older revision of it is the latest again, because "+
			"the bucket keeps more than one: make its history 1 (max_msgs_per_subject of the stream)",
			"bucket", w.cfg.Bucket, "key", key, "history", info.Config.History)
	}
	if info.Cluster != nil {
		w.doubt(time.Now()) // for a while a leader that was cut off answers, too; a list will find out
	}
	last, _ := w.keys.live.get(key)
	reason := w.keys.expires.reason(key, math.MaxInt64)
	_, wasInvalid := w.keys.invalid[key]
	w.progress.freeze(w.progress.cursor())
	w.mu.Lock()
	before := newKeys()
	before.live.set(key, last)
	w.keys.forget(key)
	w.keys.put(&it, before)
	w.mu.Unlock()
	w.comparison.passed(w.cursor, w.keys)
	var events []event
	tell := func(kind watch.EventType, object runtime.Object) {
		events = append(events, event{Event: watch.Event{Type: kind, Object: object}})
		w.emit(ctx, events[0].Event)
	}
	switch {
	case it.err != nil:
		if w.cfg.OnInvalid != nil {
			w.cfg.OnInvalid(it.entry(), it.err)
		}
		w.mu.Lock()
		w.keys.reported(key)
		w.mu.Unlock()
	case it.reason != "" && last.held() != nil:
		tell(watch.Deleted, deleted(last.object, reason, w.cursor))
	case it.reason != "":
		w.tellApart(key, last.object, nil, reason)
	case inStore(it.object) == nil:
		if last.held() != nil {
			tell(watch.Deleted, deleted(last.object, putApartOnly, w.cursor))
		}
		w.tellApart(key, last.object, it.object, "")
	case last.held() != nil:
		tell(watch.Modified, it.object)
	default:
		tell(watch.Added, it.object)
	}
	if wasInvalid || it.err != nil {
		w.countInvalid()
	}
	if wasInvalid && it.err == nil && w.cfg.OnResolved != nil {
		w.cfg.OnResolved(key)
	}
	w.thaw(ctx, events)
	return nil
}

// expired delivers the delete of a key whose time to live is over.
func (w *worker) expired(ctx context.Context, key string) {
	last, _ := w.keys.live.get(key)
	_, wasInvalid := w.keys.invalid[key]
	reason := w.keys.expires.reason(key, math.MaxInt64)
	w.mu.Lock()
	w.keys.forget(key)
	w.mu.Unlock()
	w.comparison.passed(w.cursor, w.keys)
	if last.held() == nil {
		w.tellApart(key, last.object, nil, reason)
	} else {
		w.emit(ctx, watch.Event{Type: watch.Deleted, Object: deleted(last.object, reason, w.cursor)})
		w.emitted = w.cursor
	}
	if wasInvalid {
		w.countInvalid()
		if w.cfg.OnResolved != nil {
			w.cfg.OnResolved(key)
		}
	}
}

// whyVanished returns the reason for which a key is not there any more when the stream is listed again and has no
// marker of it. In a stream with an age limit, a document with a time of its own may have been replaced by one without.
func (w *worker) whyVanished(key string, before, next *keys, now int64) DeleteReason {
	last, _ := before.live.get(key)
	switch aged := last.created + int64(next.maxAge); {
	case next.maxAge == 0 && w.expires && before.expires.reason(key, now) != "":
		return before.expires.reason(key, now)
	case next.maxAge > 0 && !w.marks && !w.cfg.DocumentsExpire && now >= aged:
		return expiredByAge
	}
	return DeleteVanished
}

// expiring reports whether keys expire about now, so that a count of keys proves nothing.
func (w *worker) expiring(now time.Time) bool {
	if !w.expires {
		return false
	}
	next := w.keys.expires.next()
	return w.expiries.asking > 0 || next != nil && next.look < w.serverNow(now.Add(expirySoon))
}

// askKey asks the leader how many messages the key has. The answer also says which stream that is, and how far it was.
func (s *session) askKey(key string, done func(*streamInfo, error)) {
	payload, _ := json.Marshal(infoQuery{Filter: s.src.prefix() + key}) // a string only
	s.askStream(&call{payload: payload, timeout: quickRequest, once: true}, done)
}
