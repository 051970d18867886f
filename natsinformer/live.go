package natsinformer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/watch"
)

var errStreamChanged = errors.New("the stream was made anew")

// live processes what the consumer delivers until the session breaks.
func (w *worker) live(ctx context.Context, s *session) error {
	w.fence, w.mismatch, w.uncounted, w.tombChecks = nil, 0, 0, 0
	w.compareAt = time.Now() // what was missed may include deletes that left no trace
	w.bookmark(ctx)
	for {
		wake, err := w.compare(ctx, s, time.Now())
		if err != nil {
			return err
		}
		batch, err := s.receive(ctx, wake)
		if err != nil {
			return err
		}
		if s.alive && w.fence == nil {
			w.health.healed(ctx)
		}
		if len(batch) > 0 {
			if err := w.take(s, batch, nil); err != nil {
				return err
			}
			now := time.Now()
			for i := range w.items {
				w.apply(ctx, &w.items[i])
				if w.fence != nil {
					w.fence.passed(w.items[i].seq, now)
				}
			}
		} else if s.scanned > w.cursor {
			// A heartbeat: the consumer has looked further, and found nothing for us.
			w.cursor = s.scanned
			w.progress.release(w.cursor)
		}
		w.bookmark(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// take turns messages into items and decodes them. With old, what is known from there is not decoded again.
func (w *worker) take(s *session, batch []*nats.Msg, old *keys) error {
	clear(w.items)
	w.items = w.items[:0]
	s.heard = time.Now()
	for _, m := range batch {
		d, err := parseDelivery(m.Reply)
		if err != nil {
			return err
		}
		if d.consumer != s.consumer || d.consSeq != s.consSeq+1 {
			return fmt.Errorf("%w: number %d of %s came after %d of %s", errSkipped, d.consSeq, d.consumer, s.consSeq, s.consumer)
		}
		s.consSeq = d.consSeq
		key, ok := w.cfg.keyOf(m.Subject)
		if !ok {
			continue // cannot be: the consumer's filter begins with the bucket
		}
		it := item{
			key: key, seq: d.streamSeq, created: d.created, pending: d.pending,
			header: m.Header, value: m.Data, reason: markerOf(m.Header),
		}
		it.decode = it.reason == ""
		if it.decode && old != nil {
			o, known := old.live[key]
			same := known && o.revision == it.seq && o.created == it.created
			if bad, invalid := old.invalid[key]; same && invalid {
				it.decode, it.err = false, bad.err
			} else if same {
				it.decode = false
			}
		}
		w.items = append(w.items, it)
	}
	w.decodeAll(w.items)
	return nil
}

// apply brings a message into the state, and emits what it means.
func (w *worker) apply(ctx context.Context, it *item) {
	// A missing sequence is a message that another one has replaced. If more is to come, that may be among it.
	if it.pending > 0 {
		if it.seq > w.cursor+1 {
			w.progress.hold(w.cursor)
		}
	} else {
		w.progress.release(it.seq)
	}
	w.cursor = it.seq
	k := w.keys
	if it.seq <= k.revisionOf(it.key) {
		return
	}
	last := k.live[it.key]
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
		return
	case it.reason != "" && last.object != nil:
		w.emit(ctx, watch.Event{Type: watch.Deleted, Object: deleted(last.object, it.reason, it.seq)})
		w.emitted = it.seq
	case it.reason != "":
	case last.object == nil:
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

// bookmark moves the store's resourceVersion over what was no event, and tells those who wait for the cursor.
func (w *worker) bookmark(ctx context.Context) {
	if w.emitted < w.cursor {
		w.emit(ctx, bookmark(formatVersion(w.cursor)))
		w.emitted = w.cursor
	}
	if w.progress.emitted.Load() != w.cursor || w.progress.counted != nil {
		w.progress.advance(w.cursor)
	}
}

// compare finds keys that vanished without a message. Every interval, and after each recovery, it counts: when every key
// of the server is known (which a fence proves) and both have as many, they have the same. Otherwise expired tombstones
// are the usual reason; they are asked for one by one. If that does not explain it, the stream is listed again.
func (w *worker) compare(ctx context.Context, s *session, now time.Time) (wake time.Time, err error) {
	if w.fence == nil {
		if w.tombChecks > 0 {
			return now.Add(time.Minute), nil // the last answer wakes us
		}
		if now.Before(w.compareAt) {
			return w.compareAt, nil
		}
		w.fence = newFence(s, w.cursor, true, w.keys.subjects)
		w.fence.begin()
	}
	f := w.fence
	wake = f.tick(now)
	switch {
	case f.err != nil:
		return wake, f.err
	case f.info != nil && !f.info.Created.Equal(w.created):
		return wake, errStreamChanged
	case f.stage == fenceBusy:
		w.fence = nil
		w.compareAt = now.Add(w.cfg.CompareInterval / 10) // too busy now
		return w.compareAt, nil
	case f.stage != fenceDone:
		return wake, nil
	}
	w.fence = nil
	if f.cursor > w.cursor {
		w.cursor = f.cursor
		w.progress.release(w.cursor)
		w.bookmark(ctx)
	}
	switch {
	case f.known < 0: // something came between; count again
		w.compareAt = now
		if w.uncounted++; w.uncounted > fenceTries {
			w.uncounted = 0
			w.compareAt = now.Add(w.cfg.CompareInterval / 10)
		}
	case f.known == f.info.State.NumSubjects:
		w.health.update(func(st *Status) { st.Compares++ })
		w.mismatch, w.uncounted = 0, 0
		w.compareAt = now.Add(time.Duration(float64(w.cfg.CompareInterval) * (0.9 + 0.2*rand.Float64())))
	case w.mismatch == 0:
		w.mismatch++
		w.dropExpired(s, now)
	default:
		w.health.update(func(st *Status) { st.Compares++ })
		w.relistCause = fmt.Errorf("%d keys are known and the stream has %d", f.known, f.info.State.NumSubjects)
		return wake, w.relistCause
	}
	return w.compareAt, nil
}

// maxTombChecks bounds what is asked at a time; a list is cheaper than more.
const maxTombChecks = 4096

// dropExpired forgets the tombstones that should have expired and that the leader does not have any more.
func (w *worker) dropExpired(s *session, now time.Time) {
	w.compareAt = now
	for key, t := range w.keys.tombs {
		if t.expires == 0 || t.expires > now.UnixNano() {
			continue
		}
		if w.tombChecks++; w.tombChecks > maxTombChecks {
			w.tombChecks--
			return
		}
		s.askMessage(messageQuery{LastFor: w.cfg.prefix() + key}, func(m *storedMessage, err error) {
			w.tombChecks--
			if err == nil && m == nil && w.keys.tombs[key] == t {
				delete(w.keys.tombs, key)
			}
		})
	}
}
