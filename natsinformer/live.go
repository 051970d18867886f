package natsinformer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/watch"
)

var errStreamChanged = errors.New("the stream was made anew")

// live processes what the consumer delivers until the session breaks.
func (w *worker) live(ctx context.Context, s *session) error {
	w.begin(time.Now())
	w.expiries, w.peeked, w.fetching = expiries{}, peek{}, fetching{}
	w.bookmark(ctx)
	for {
		wake, err := w.compare(ctx, s, time.Now())
		if err != nil {
			return err
		}
		again, err := w.doubted(time.Now())
		if err != nil {
			return err
		}
		wake = earlier(wake, again)
		if again, err = w.expire(ctx, s, time.Now()); err != nil {
			return err
		}
		wake = earlier(earlier(wake, again), w.peek(s, time.Now()))
		if again, err = w.doOrders(ctx, s, time.Now()); err != nil {
			return err
		}
		wake = earlier(wake, again)
		if w.progress.open() {
			again, err = s.probe(time.Now())
			if err != nil {
				return err
			}
			wake = earlier(wake, again)
		}
		batch, err := s.receive(ctx, wake)
		if err != nil {
			return err
		}
		w.watched = w.watched || s.alive
		if s.alive && !w.comparison.asking && (w.cropped == 0 || !s.cropped()) {
			w.health.healed(ctx)
		}
		if len(batch) > 0 {
			if err := w.take(s, batch, nil); err != nil {
				return err
			}
			for i := range w.items {
				w.apply(ctx, &w.items[i])
				w.comparison.passed(w.cursor, w.keys)
			}
			w.release(s)
		}
		if s.atEnd { // the end is behind that batch; the consumer may have looked further and found nothing for us
			s.atEnd = false
			w.behind.Store(0) // the server's count may have had messages that newer ones have replaced
			w.cursor = max(w.cursor, s.scanned)
			w.progress.release(w.cursor)
		}
		w.bookmark(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// take turns messages into items and decodes them. With old, a revision that is known there is not decoded again.
func (w *worker) take(s *session, batch []*nats.Msg, old *keys) error {
	clear(w.items)
	w.items = w.items[:0]
	for _, m := range batch {
		d, err := parseDelivery(m.Reply)
		if err != nil {
			return err
		}
		if d.consumer != s.consumer || d.consSeq != s.consSeq+1 {
			return fmt.Errorf("%w: number %d came after %d", errSkipped, d.consSeq, s.consSeq)
		}
		s.consSeq, s.pending = d.consSeq, d.pending
		key, ok := w.keyOf(m.Subject)
		if !ok {
			continue // cannot be: the consumer's filter begins with the bucket
		}
		it := item{ // the key is kept, and would keep the subject
			key: strings.Clone(key), seq: d.streamSeq, created: d.created,
			header: m.Header, value: m.Data, reason: markerOf(m.Header),
		}
		if it.reason == ExpiryMarker && !w.cfg.DocumentsExpire {
			it.reason = expiredByAge // unless its own time is over, see put
		}
		it.decode = it.reason == ""
		if it.decode && old != nil {
			o, known := old.live.get(key)
			same := known && o.revision == it.seq && o.created == it.created
			if bad, invalid := old.invalid[key]; same && invalid {
				it.decode, it.err = false, bad.err
			} else if same {
				it.decode = false
			}
		}
		if w.cfg.Arrived != nil && !w.initial && (it.decode || it.reason != "") {
			w.cfg.Arrived(it.entry())
		}
		w.items = append(w.items, it)
	}
	n := len(w.items)
	if n == 0 {
		return nil
	}
	w.lag(w.items[0].created, s.pending+uint64(n)) // until they are decoded, which is the user's code
	w.decodeAll(w.items)
	w.lag(w.items[n-1].created, s.pending)
	return nil
}

// release lets go of messages that were processed. The next may be long in coming.
func (w *worker) release(s *session) {
	clear(w.items)
	w.items = w.items[:0]
	clear(s.returned)
}

// lag notes how many messages there are to take, and since when the oldest of them may wait: what is behind a message
// is not older than it is.
func (w *worker) lag(created int64, behind uint64) {
	w.waits.Store(created)
	w.behind.Store(behind)
}

// apply puts a message into the state, and emits its event if it changes the store.
func (w *worker) apply(ctx context.Context, it *item) {
	// A missing sequence is a message that a newer one has replaced. The newer one may be still to come until the
	// consumer says that it is at the end (see end.go).
	if it.seq > w.cursor+1 {
		w.progress.hold(w.cursor)
	}
	w.cursor = it.seq
	k := w.keys
	if it.seq <= k.revisionOf(it.key) {
		return
	}
	last, _ := k.live.get(it.key)
	bad, wasInvalid := k.invalid[it.key]
	w.mu.Lock()
	k.put(it, k)
	w.mu.Unlock()
	switch {
	case it.err != nil:
		w.countInvalid()
		if w.cfg.OnInvalid != nil {
			w.cfg.OnInvalid(it.entry(), it.err)
		}
		w.mu.Lock()
		k.reported(it.key)
		w.mu.Unlock()
		return
	case it.reason != "" && last.held() != nil:
		w.emit(ctx, watch.Event{Type: watch.Deleted, Object: deleted(last.object, it.reason, it.seq)})
		w.emitted = it.seq
	case last.object != nil && it.reason != "":
		w.tellApart(it.key, last.object, nil, it.reason)
	case it.reason != "":
		for _, e := range w.unseen(it.key, it.reason, it.seq) {
			w.emit(ctx, e)
			w.emitted = it.seq
		}
	case inStore(it.object) == nil:
		if last.held() != nil {
			w.emit(ctx, watch.Event{Type: watch.Deleted, Object: deleted(last.object, putApartOnly, it.seq)})
			w.emitted = it.seq
		}
		w.tellApart(it.key, last.object, it.object, "")
	case last.held() == nil:
		w.emit(ctx, watch.Event{Type: watch.Added, Object: it.object})
		w.emitted = it.seq
	default:
		w.emit(ctx, watch.Event{Type: watch.Modified, Object: it.object})
		w.emitted = it.seq
	}
	if wasInvalid {
		w.countInvalid()
		if w.cfg.OnResolved != nil {
			w.cfg.OnResolved(bad.entry.Key)
		}
	}
}

// unseen returns the events of what was deleted before it could be read.
func (w *worker) unseen(key string, reason DeleteReason, revision uint64) []watch.Event {
	if w.cfg.Unseen == nil {
		return nil
	}
	object := w.cfg.Unseen(key, revision)
	if object == nil {
		return nil
	}
	if w.transform != nil {
		var err error
		if object, err = w.transform.Apply(object.DeepCopyObject()); err != nil { // a handler may have the object
			return nil // it was never valid, and is gone
		}
	}
	return []watch.Event{
		{Type: watch.Added, Object: object}, {Type: watch.Deleted, Object: deleted(object, reason, revision)},
	}
}

func (w *worker) countInvalid() {
	w.health.update(func(st *Status) { st.Invalid = len(w.keys.invalid) })
}

// emit hands an event to the reflector. It gives up only when the context ends.
func (w *worker) emit(ctx context.Context, e watch.Event) {
	if e.Type != watch.Bookmark {
		w.progress.sending(1)
	}
	select {
	case w.events <- e:
	case <-ctx.Done():
	}
}

// bookmark moves the store's resourceVersion over messages that were no event, and wakes the calls that wait for the
// cursor.
func (w *worker) bookmark(ctx context.Context) {
	if w.emitted < w.cursor {
		w.emit(ctx, bookmark(formatVersion(w.cursor)))
		w.emitted = w.cursor
	}
	if w.progress.emitted.Load() != w.cursor || w.progress.counted != nil {
		w.progress.advance(w.cursor)
	}
}
