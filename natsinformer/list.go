package natsinformer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// list reads the whole stream. List returns the result of the first one. A later one, inside a watch, emits the
// difference to what was known.
func (w *worker) list(ctx context.Context, s *session, m mode, info *streamInfo) error {
	old := w.keys
	if !w.listed || m == relisted {
		old = newKeys() // nothing known can be used again
	}
	next, cursor, err := w.collect(ctx, s, old, info)
	if err != nil {
		return err
	}
	w.created = info.Created
	if m == restored || m == relisted {
		w.progress.freeze(0) // before the change is counted: no reader compares with the cursor of the stream before
	}
	w.health.update(func(st *Status) {
		st.Lists++
		st.Invalid = len(next.invalid)
		st.StreamCreated = info.Created
		if m == restored || m == relisted {
			st.StreamChanges++
			st.StreamsShown = st.StreamsNoticed
		}
	})
	before := w.keys
	if !w.listed {
		before = newKeys()
	}
	if w.initial {
		w.install(s, next, cursor)
		w.reportInvalid(before, next)
	} else {
		w.emitDifference(ctx, s, before, next, cursor, m)
	}
	return nil
}

func (w *worker) install(s *session, next *keys, cursor uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys, w.cursor, w.listed, w.listedPrefix = next, cursor, true, w.prefix()
	w.counted.exact, w.counted.listAt = true, time.Time{}
	for name := range w.consumers {
		w.consumers[name] = name == s.consumer // a missing consumer from before this list means nothing any more
	}
}

// collect reads all messages until the consumer has come to an end at or behind the last sequence the leader had
// when the list began. Then every key that existed at that moment has arrived.
func (w *worker) collect(
	ctx context.Context, s *session, old *keys, info *streamInfo,
) (next *keys, cursor uint64, err error) {
	next = newKeys()
	next.maxAge = info.Config.MaxAge
	last := info.State.LastSeq
	if w.initial {
		expected := info.State.NumSubjects
		if w.cfg.filtered() {
			expected = old.live.len()
		}
		next.arrived = &arrived{objects: make([]runtime.Object, 0, expected)}
	}
	for {
		batch, err := s.receive(ctx, time.Now().Add(time.Minute))
		if err != nil {
			return nil, 0, err
		}
		if err := w.take(s, batch, old); err != nil {
			return nil, 0, err
		}
		for i := range w.items {
			next.put(&w.items[i], old)
			cursor = w.items[i].seq
		}
		w.release(s)
		if s.ended && s.doubted {
			s.resumeList()
		}
		if !s.ended {
			continue
		}
		cursor = max(cursor, s.scanned)
		if cursor < last {
			// The last messages are gone or not for us, or the consumer's replica does not have them yet.
			m, err := s.message(ctx, messageQuery{Seq: cursor + 1, NextFor: w.filterSubject()})
			if err != nil {
				return nil, 0, err
			}
			if m != nil {
				s.resumeList()
				continue
			}
			cursor = last
		}
		s.endList()
		return next, cursor, nil
	}
}

// put applies a message to the state. A revision that was not decoded again takes its object from old.
func (k *keys) put(it *item, old *keys) {
	before, existed := k.live.get(it.key)
	if it.seq <= max(before.revision, k.tombs[it.key].revision) {
		return
	}
	if it.reason != "" {
		// What was known before a list may have been replaced meanwhile, and that by something without a time.
		if it.reason == expiredByAge &&
			(k.expires.over(it.key, it.created) || k.maxAge == 0 && old.expires.over(it.key, it.created)) {
			it.reason = ExpiryMarker
		}
		k.arrived.leave(before.held())
		k.forget(it.key)
		buried, was := k.tombs[it.key]
		if !was && !existed {
			buried = old.tombs[it.key]
		}
		k.tombs[it.key] = tombstone{
			revision: it.seq, created: it.created, reason: it.reason, expires: expiryOf(it.header, it.created),
			ordered: it.reason != expiredByAge || buried.ordered,
		}
		return
	}
	delete(k.tombs, it.key)
	k.expires.set(it.key, expiryOf(it.header, it.created), kvstream.IsReply(it.header, nil))
	if it.err != nil {
		last := before.held()
		if last == nil {
			known, _ := old.live.get(it.key)
			last = known.held()
		}
		k.refuse(it)
		k.live.set(it.key, known{it.seq, it.created, last})
		return
	}
	k.accept(it.key)
	if it.object == nil { // not decoded again
		known, _ := old.live.get(it.key)
		it.object = known.object
	}
	k.live.set(it.key, known{it.seq, it.created, it.object})
	if existed {
		k.arrived.leave(before.held())
	}
	k.arrived.add(inStore(it.object))
}

// arrived holds the objects of a first list in the order in which they came. client-go goes over all of them several
// times. In this order they lie one behind the other in memory; in the order of a map each one is a cache miss. With a
// million objects that halves the time client-go takes.
type arrived struct {
	objects []runtime.Object
	left    map[string]struct{} // the versions of objects that were replaced or deleted since
}

func (a *arrived) add(object runtime.Object) {
	if a != nil && object != nil {
		a.objects = append(a.objects, object)
	}
}

func (a *arrived) leave(object runtime.Object) {
	if a == nil || object == nil {
		return
	}
	if a.left == nil {
		a.left = map[string]struct{}{}
	}
	a.left[versionOf(object)] = struct{}{}
}

// latest returns the objects of a list without those that were replaced or deleted while it was read.
func (a *arrived) latest() []runtime.Object {
	if len(a.left) == 0 {
		return a.objects
	}
	return slices.DeleteFunc(a.objects, func(object runtime.Object) bool {
		_, left := a.left[versionOf(object)]
		return left
	})
}

// event is a watch event and the revision that gives its place.
type event struct {
	revision uint64
	watch.Event
}

// difference returns the changes from before to next: deletes, and then the rest in the order of revisions. With anew
// the streams are not the same one, and no object of before stays. why tells of each key that has vanished the reason.
func difference(
	before, next *keys, cursor uint64, anew bool, why func(key string) DeleteReason,
) (gone, changed []event) {
	vanish := func(last runtime.Object, reason DeleteReason) {
		gone = append(gone, event{0, watch.Event{Type: watch.Deleted, Object: deleted(last, reason, cursor)}})
	}
	for key, o := range before.live.all() {
		if o.held() == nil {
			continue
		}
		n, there := next.live.get(key)
		tomb, buried := next.tombs[key]
		switch {
		case anew:
			vanish(o.object, DeleteVanished)
		case !there && !buried:
			vanish(o.object, why(key))
		case buried:
			gone = append(gone, event{0, watch.Event{
				Type: watch.Deleted, Object: deleted(o.object, tomb.reason, tomb.revision),
			}})
		case n.revision == o.revision && n.created != o.created:
			vanish(o.object, DeleteVanished) // client-go ignores an update with the same resourceVersion
		case n.object != nil && n.held() == nil:
			vanish(o.object, putApartOnly)
		}
	}
	for key, n := range next.live.all() {
		o, _ := before.live.get(key)
		switch {
		case n.held() == nil:
		case anew, o.held() == nil, n.revision == o.revision && n.created != o.created:
			changed = append(changed, event{n.revision, watch.Event{Type: watch.Added, Object: n.object}})
		case n.revision != o.revision && versionOf(n.object) != versionOf(o.object):
			changed = append(changed, event{n.revision, watch.Event{Type: watch.Modified, Object: n.object}})
		}
	}
	slices.SortFunc(changed, func(a, b event) int { return cmp.Compare(a.revision, b.revision) })
	return gone, changed
}

func versionOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "" // cannot be: it was accepted when it was decoded
	}
	return accessor.GetResourceVersion()
}

// emitDifference brings the store from before to next.
func (w *worker) emitDifference(ctx context.Context, s *session, before, next *keys, cursor uint64, m mode) {
	still := w.progress.cursor()
	if m != listing {
		still = 0 // sequences of another stream say nothing
	}
	w.progress.freeze(still)
	w.install(s, next, cursor)
	now := w.serverNow(time.Now())
	why := func(key string) DeleteReason {
		if m != listing { // it may never have been in this stream
			return DeleteVanished
		}
		return w.whyVanished(key, before, next, now)
	}
	gone, changed := difference(before, next, cursor, m == relisted, why)
	events := slices.Concat(gone, changed)
	for _, e := range events {
		w.emit(ctx, e.Event)
	}
	w.tellAparts(before, next, m == relisted, why)
	w.reportInvalid(before, next)
	if !w.thaw(ctx, events) {
		return
	}
	w.noticed = resume
	w.suspect(nil)
	w.health.update(func(st *Status) { st.Relisting = false })
}

// thaw waits until the store shows events that were emitted while the progress was frozen, because they are not in the
// order of sequences, and then lets the cursor go on. A bookmark moves the store to the cursor. It comes after the
// events, because it does not tell that they were applied: one of them may have the same resourceVersion. thaw returns
// false if the context ends meanwhile.
func (w *worker) thaw(ctx context.Context, events []event) bool {
	if !w.awaitShown(ctx, events) {
		return false
	}
	w.progress.thaw()
	w.progress.advance(w.cursor)
	return true
}

func (w *worker) awaitShown(ctx context.Context, events []event) bool {
	if n := len(events); n > 0 {
		w.untilApplied(ctx, func() bool { return w.progress.shows(events[n-1].Event) })
	}
	version := formatVersion(w.cursor)
	w.emit(ctx, bookmark(version))
	w.untilApplied(ctx, func() bool { return w.progress.applied(version) })
	if ctx.Err() != nil {
		return false
	}
	w.emitted = w.cursor
	return true
}

func (w *worker) untilApplied(ctx context.Context, applied func() bool) {
	look := time.NewTicker(100 * time.Microsecond)
	defer look.Stop()
	for !applied() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) reportInvalid(before, next *keys) {
	for key, bad := range next.invalid {
		if old, was := before.invalid[key]; !was ||
			old.entry.Revision != bad.entry.Revision || !old.entry.Created.Equal(bad.entry.Created) {
			if w.cfg.OnInvalid != nil {
				w.cfg.OnInvalid(bad.entry, bad.err)
			}
		}
	}
	w.mu.Lock()
	for key := range next.invalid {
		next.reported(key)
	}
	w.mu.Unlock()
	for key := range before.invalid {
		if _, still := next.invalid[key]; !still && w.cfg.OnResolved != nil {
			w.cfg.OnResolved(key)
		}
	}
}

func bookmark(version string) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
	}}
}
