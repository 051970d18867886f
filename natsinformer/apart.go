package natsinformer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Apart is what Config.Decode returns for an entry that is not to be in the store. The informer then keeps of it no
// more than key, revision and this value, which entries may share, and which a transform does not see. Exists tells of
// such keys, and so do Known and AllKnown. Handlers and indexers do not: Config.ApartChanged and Config.ApartGone hear
// of what becomes of them.
//
// Fetch brings such entries into the store, and PutApart takes some out of it. Config.Decode is to decide in the same
// way by then.
type Apart interface {
	runtime.Object
	IsApart()
}

// inStore returns an object that is in the store, or is to be; nil for what is apart.
func inStore(object runtime.Object) runtime.Object {
	if _, apart := object.(Apart); apart {
		return nil
	}
	return object
}

// held is the object of a key in the store; nil if there is none.
func (k known) held() runtime.Object { return inStore(k.object) }

const (
	// fetchWindow is how many entries are asked for at once, or as many as take fetchBytes, as the last ones did.
	fetchWindow = 256
	fetchBytes  = 8 << 20
	// fetchPause is when those are looked at again of which the leader has another revision than is known here: the
	// message that tells is on its way.
	fetchPause = 100 * time.Millisecond
	// putApartAtOnce is how many entries leave the store at once: meanwhile the cursor stands still.
	putApartAtOnce = 1000
)

// fetch is a call of Fetch.
type fetch struct {
	ctx   context.Context
	which func(key string, apart Apart) bool
	left  []string         // keys that were not asked for
	found bool             // left was made
	gone  map[string]int64 // keys of which the leader has nothing, and when the messages known of them were written
	again time.Time
	done  chan struct{}
	why   error // the last request was not answered; nil if it was. Guarded by ordersMu
}

// putApart is a call of PutApart.
type putApart struct {
	ctx  context.Context
	of   func(key string, object runtime.Object) Apart
	done chan struct{}
}

// orders are what a worker that watches is to do beside.
type orders struct {
	fetches []*fetch
	parts   []*putApart
}

// fetching is what one session does about the first of the fetches.
type fetching struct {
	asked   int // and not answered
	keys    []string
	answers []*storedMessage
	err     error
}

func (i *informer) Fetch(ctx context.Context, which func(key string, apart Apart) bool) error {
	order := &fetch{ctx: ctx, which: which, done: make(chan struct{}), gone: map[string]int64{}}
	i.src.order(func(o *orders) { o.fetches = append(o.fetches, order) })
	err := awaitOrder(ctx, order.done)
	i.src.ordersMu.Lock()
	defer i.src.ordersMu.Unlock()
	if err != nil && order.why != nil {
		return fmt.Errorf("%w: %w", err, order.why)
	}
	return err
}

func (i *informer) PutApart(ctx context.Context, of func(key string, object runtime.Object) Apart) error {
	order := &putApart{ctx: ctx, of: of, done: make(chan struct{})}
	i.src.order(func(o *orders) { o.parts = append(o.parts, order) })
	return awaitOrder(ctx, order.done)
}

func awaitOrder(ctx context.Context, done chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (i *informer) Divided() bool { return i.src.divided.Load() }

func (i *informer) Known(key string) (object runtime.Object, revision uint64) {
	if !i.src.divided.Load() {
		return nil, 0
	}
	i.src.mu.RLock()
	defer i.src.mu.RUnlock()
	l, _ := i.src.keys.live.get(key)
	if l.object == nil {
		return nil, 0
	}
	return l.object, l.revision
}

func (i *informer) AllKnown() iter.Seq2[string, runtime.Object] {
	return func(yield func(string, runtime.Object) bool) {
		for _, e := range i.src.known(func(runtime.Object) bool { return true }) {
			if !yield(e.key, e.object) {
				return
			}
		}
	}
}

func isApart(object runtime.Object) bool { _, is := object.(Apart); return is }

type knownEntry struct {
	key    string
	object runtime.Object
}

// known are all keys whose objects are chosen. Those that change meanwhile move in the table, so it is copied.
func (src *source) known(chosen func(runtime.Object) bool) (all []knownEntry) {
	if !src.divided.Load() {
		return nil
	}
	src.mu.RLock()
	defer src.mu.RUnlock()
	for key, l := range src.keys.live.all() {
		if l.object != nil && chosen(l.object) {
			all = append(all, knownEntry{key, l.object})
		}
	}
	return all
}

// order gives the worker something to do.
func (src *source) order(add func(*orders)) {
	src.ordersMu.Lock()
	add(&src.orders)
	src.ordersMu.Unlock()
	select {
	case src.ordered <- struct{}{}:
	default: // it is to look already
	}
}

// nextOrders returns what there is to do first, and forgets those who do not wait any more.
func (src *source) nextOrders() (parts []*putApart, next *fetch) {
	src.ordersMu.Lock()
	defer src.ordersMu.Unlock()
	parts, src.orders.parts = src.orders.parts, nil
	src.orders.fetches = slices.DeleteFunc(src.orders.fetches, func(f *fetch) bool { return f.ctx.Err() != nil })
	if len(src.orders.fetches) > 0 {
		next = src.orders.fetches[0]
	}
	return parts, next
}

// doOrders does what was ordered, and returns when to look again. An error ends the session.
func (w *worker) doOrders(ctx context.Context, s *session, now time.Time) (wake time.Time, err error) {
	wake = now.Add(time.Minute)
	f := &w.fetching
	if f.asked > 0 {
		return wake, nil // an answer wakes us
	}
	parts, next := w.nextOrders()
	for _, p := range parts {
		if p.ctx.Err() == nil {
			w.putApart(ctx, p)
			close(p.done)
		}
	}
	if err := w.takeFetched(ctx, next); err != nil {
		return wake, err
	}
	if next == nil {
		return wake, nil
	}
	if now.Before(next.again) {
		return next.again, nil
	}
	if len(next.left) == 0 && !w.findLeft(next, now) {
		return now, nil // the next order
	}
	if now.Before(next.again) {
		return next.again, nil
	}
	n := min(fetchWindow, len(next.left), max(1, fetchBytes/max(1, w.fetchedSize)))
	f.keys, next.left = next.left[:n], next.left[n:]
	f.answers, f.asked = make([]*storedMessage, n), n
	for i, key := range f.keys {
		s.askMessage(messageQuery{LastFor: w.prefix() + key, once: true}, func(m *storedMessage, err error) {
			f.asked--
			f.answers[i] = m
			if err != nil {
				f.err = err
			}
		})
	}
	return wake, nil
}

// findLeft looks which keys a fetch has still to ask for. It reports whether there are any: else the fetch is done.
func (w *worker) findLeft(f *fetch, now time.Time) bool {
	for _, e := range w.known(isApart) {
		_, created := w.keys.at(e.key)
		if gone, is := f.gone[e.key]; f.which(e.key, e.object.(Apart)) && !(is && gone == created) {
			f.left = append(f.left, e.key)
		}
	}
	if len(f.left) > 0 {
		if f.found { // they were asked for, and what is known here was not the latest
			f.again = now.Add(fetchPause)
		}
		f.found = true
		return true
	}
	w.ordersMu.Lock()
	defer w.ordersMu.Unlock()
	w.orders.fetches = slices.DeleteFunc(w.orders.fetches, func(other *fetch) bool { return other == f })
	close(f.done)
	return false
}

// takeFetched puts what was asked for into the store, as far as it is what is known here.
func (w *worker) takeFetched(ctx context.Context, of *fetch) error {
	f := w.fetching
	w.fetching = fetching{}
	switch {
	case errors.Is(f.err, nats.ErrTimeout): // the server is busy; it is asked again
		if of != nil {
			of.again = time.Now().Add(fetchPause)
			w.tellWhy(of, f.err)
		}
		return nil
	case f.err != nil || len(f.keys) == 0:
		return f.err
	}
	size := 0
	for _, m := range f.answers {
		if m != nil {
			size += len(m.Value)
		}
	}
	w.fetchedSize = size / len(f.keys)
	items := make([]item, 0, len(f.keys))
	for i, key := range f.keys {
		l, _ := w.keys.live.get(key)
		if _, apart := l.object.(Apart); !apart {
			continue
		}
		m := f.answers[i]
		if m == nil && of != nil { // it has vanished, as a comparison will find out, or its delete is on its way
			of.gone[key] = l.created
		}
		if m == nil || m.Seq != l.revision || m.Time.UnixNano() != l.created {
			continue // a message that tells of it is on its way, or a comparison will find out
		}
		it := item{key: key, seq: l.revision, created: l.created, value: m.Value, decode: true}
		if len(m.Header) > 0 {
			header, err := nats.DecodeHeadersMsg(m.Header)
			if err != nil {
				return fmt.Errorf("reading the headers of revision %d of key %q: %w", m.Seq, key, err)
			}
			it.header = header
		}
		items = append(items, it)
	}
	w.decodeAll(items)
	w.bring(ctx, items)
	if of != nil {
		w.tellWhy(of, nil)
	}
	return nil
}

func (src *source) tellWhy(f *fetch, why error) {
	src.ordersMu.Lock()
	defer src.ordersMu.Unlock()
	f.why = why
}

// bring puts entries into the store that were apart, or notes that they do not decode.
func (w *worker) bring(ctx context.Context, items []item) {
	var events []event
	w.mu.Lock()
	for i := range items {
		it := &items[i]
		if it.err != nil {
			w.keys.refuse(it)
			it.object = nil
		}
		w.keys.live.set(it.key, known{it.seq, it.created, it.object})
		if object := inStore(it.object); object != nil {
			events = append(events, event{it.seq, watch.Event{Type: watch.Added, Object: object}})
		}
	}
	w.mu.Unlock()
	w.emitUnordered(ctx, events)
	for i := range items {
		it := &items[i]
		if it.err == nil {
			continue
		}
		w.countInvalid()
		if w.cfg.OnInvalid != nil {
			w.cfg.OnInvalid(it.entry(), it.err)
		}
		w.mu.Lock()
		w.keys.reported(it.key)
		w.mu.Unlock()
	}
}

// putApart takes entries out of the store.
func (w *worker) putApart(ctx context.Context, order *putApart) {
	type leaving struct {
		key string
		known
	}
	var all []leaving
	for key, l := range w.keys.live.all() {
		if object := l.held(); object != nil {
			if apart := order.of(key, object); apart != nil {
				l.object = apart
				all = append(all, leaving{key, l})
			}
		}
	}
	w.divided.Store(w.divided.Load() || len(all) > 0)
	for chunk := range slices.Chunk(all, putApartAtOnce) {
		events := make([]event, 0, len(chunk))
		w.mu.Lock()
		for _, l := range chunk {
			before, _ := w.keys.live.get(l.key)
			w.keys.live.set(l.key, l.known)
			events = append(events, event{0, watch.Event{
				Type: watch.Deleted, Object: deleted(before.object, putApartOnly, before.revision),
			}})
		}
		w.mu.Unlock()
		w.emitUnordered(ctx, events)
	}
}

// emitUnordered emits events that are not in the order of sequences, and returns when the store shows them. Meanwhile
// the cursor stands still.
func (w *worker) emitUnordered(ctx context.Context, events []event) {
	if len(events) == 0 {
		return
	}
	w.progress.freeze(w.progress.cursor())
	for _, e := range events {
		w.emit(ctx, e.Event)
	}
	if w.awaitShown(ctx, events) {
		w.progress.unfreeze()
		w.progress.advance(w.cursor)
	}
}

// tellAparts is tellApart for a list. why tells of each key that has vanished the reason.
func (w *worker) tellAparts(before, next *keys, anew bool, why func(key string) DeleteReason) {
	if !w.divided.Load() {
		return
	}
	for key, o := range before.live.all() {
		_, there := next.live.get(key)
		tomb, buried := next.tombs[key]
		switch _, apart := o.object.(Apart); {
		case !apart:
		case buried && !anew:
			w.tellApart(key, o.object, nil, tomb.reason)
		case anew:
			w.tellApart(key, o.object, nil, DeleteVanished)
		case !there:
			w.tellApart(key, o.object, nil, why(key))
		}
	}
	for key, n := range next.live.all() {
		if o, _ := before.live.get(key); o.revision != n.revision || o.created != n.created {
			w.tellApart(key, o.object, n.object, "")
		}
	}
}

// tellApart tells of a key whose entry was or is apart.
func (w *worker) tellApart(key string, before, after runtime.Object, reason DeleteReason) {
	was, wasApart := before.(Apart)
	switch _, isApart := after.(Apart); {
	case isApart && w.cfg.ApartChanged != nil:
		w.cfg.ApartChanged(key, before, after.(Apart))
	case wasApart && after == nil && w.cfg.ApartGone != nil:
		w.cfg.ApartGone(key, was, deletionOf(reason))
	}
}

// putApartOnly is in the place of a DeleteReason on what is put apart. No handler hears of it.
const putApartOnly DeleteReason = "Apart"

// staying passes on what happens to keys, but not that one was put apart.
type staying struct {
	cache.ResourceEventHandler
	src *source
}

func (h staying) OnDelete(obj any) {
	if !h.src.divided.Load() {
		h.ResourceEventHandler.OnDelete(obj)
		return
	}
	if object, err := meta.Accessor(obj); err == nil && object.GetAnnotations()[deletionAnnotation] ==
		deletionValue(putApartOnly, object.GetResourceVersion()) {
		return
	}
	h.ResourceEventHandler.OnDelete(obj)
}

func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(staying{h, i.src})
}

func (i *informer) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(staying{h, i.src}, period)
}

func (i *informer) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(staying{h, i.src}, options)
}
