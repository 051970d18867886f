// Package denials tells a request that the server denies it, at once and by its subject.
//
// A server drops what a user may not publish or subscribe to. It says so to the connection only: asynchronously, and
// by subject. So a denied request looks like one that gets no reply.
//
// The rules:
//
//   - Who sends something opens a [Watch] on its subject before. The watch is told if the server denies exactly this
//     subject. What is not watched is not remembered.
//   - Who sends something to see that it is denied says so before ([Denials.Expect]). No one else is told of that
//     denial.
//   - There is one book of watches per connection. It takes the place of the connection's error handler, and passes
//     every other error on to the handler that was there. If another one is set, the book does so again with the next
//     watch. It ends with the connection, and needs no goroutine.
//   - If another handler was set after a watch was made, or if handlers are slow, a watch still knows what the
//     connection says when it is asked: its last error. Of several denials at once that is only the last.
package denials

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/nats-io/nats.go"
)

// Denials are those of one connection. All methods may be called concurrently.
type Denials struct {
	nc *nats.Conn
	*book
}

// Of returns the denials of a connection.
func Of(nc *nats.Conn) *Denials { return &Denials{nc, bookOf(nc)} }

// target is what the server may deny.
type target struct {
	subject      string
	subscription bool
}

// book is the watches of one connection. It must not refer to the connection, see books.
type book struct {
	of      weak.Pointer[nats.Conn]
	opened  sync.Once // guards the two below, which nobody has before it
	replies target    // the subscription on which nats.go takes the answers to all its requests
	inboxes string    // what to grant for inboxes

	mu      sync.Mutex
	watches map[target]*Watch // the newest of each target
	// deafSince is the connection's count of reconnects, plus 1, when the server denied replies; 0 if it never did. The
	// library subscribes again only when it reconnects.
	deafSince uint64
	handler   uintptr                 // the code of our error handler, 0 before it was set
	noted     error                   // the denial that the book heard of last
	awaited   map[error]chan struct{} // closed when the book hears of a denial

	expected map[string]struct{} // subjects, see Expect

	lacks   atomic.Int64 // len(missing)
	missing map[string]*missing
	changed chan struct{}
}

// books are those of all connections. A connection has no place for one, and all who use it need the same. The weak
// pointers let a connection go that is not used any more; its book goes with it.
var books = struct {
	sync.Mutex
	of map[weak.Pointer[nats.Conn]]*book
}{of: map[weak.Pointer[nats.Conn]]*book{}}

// bookOf asks the connection, which may wait while it dials, without the lock of all books: other connections may work.
func bookOf(nc *nats.Conn) *book {
	b := findBook(nc)
	b.opened.Do(func() { b.open(nc) })
	return b
}

func findBook(nc *nats.Conn) *book {
	key := weak.Make(nc)
	books.Lock()
	defer books.Unlock()
	b := books.of[key]
	if b == nil {
		b = &book{of: key, watches: map[target]*Watch{}, missing: map[string]*missing{}, changed: make(chan struct{})}
		books.of[key] = b
		runtime.AddCleanup(nc, forget, key)
	}
	return b
}

func forget(key weak.Pointer[nats.Conn]) {
	books.Lock()
	defer books.Unlock()
	delete(books.of, key)
}

func (b *book) open(nc *nats.Conn) {
	reply, inbox := nc.NewRespInbox(), nc.NewInbox()
	b.replies = target{reply[:strings.LastIndexByte(reply, '.')] + ".*", true}
	b.inboxes = inbox[:strings.LastIndexByte(inbox, '.')] + ".>"
	b.listen(nc)
	b.note(nc, nc.LastError(), false) // the requests before may have been denied their answers
}

// listen puts the book before the connection's error handler, unless it is there. nats.go has one handler per
// connection and no list of them, and Go does not compare functions; the pointer to the code of this closure tells ours
// apart.
func (b *book) listen(nc *nats.Conn) {
	before := nc.ErrorHandler()
	if before != nil && reflect.ValueOf(before).Pointer() == b.handler {
		return
	}
	ours := func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if weak.Make(nc) == b.of { // else a connection that was made with the options of this one
			expected := b.isExpected(err)
			b.note(nc, err, expected)
			if expected {
				return
			}
		}
		if before != nil {
			before(nc, sub, err)
		}
	}
	b.handler = reflect.ValueOf(ours).Pointer()
	nc.SetErrorHandler(ours)
}

// note tells the watches of what the server denied. An expected denial is no missing right.
func (b *book) note(nc *nats.Conn, err error, expected bool) {
	denied, ok := parse(err)
	if !ok {
		return
	}
	var deafSince uint64
	if denied == b.replies {
		deafSince = nc.Stats().Reconnects + 1
	}
	b.mu.Lock()
	b.hear(err)
	if !expected {
		b.noteMissing(denied)
	}
	b.deafSince = max(b.deafSince, deafSince)
	var tell []*Watch
	for w := b.watches[denied]; w != nil; w = w.older {
		if w.before == err && denied != b.replies {
			continue // it was told late, by a slow handler, and is of an earlier message
		}
		if w.deny() {
			tell = append(tell, w)
		}
	}
	b.mu.Unlock()
	for _, w := range tell {
		w.told(w.err.Load())
	}
}

// deaf reports whether the library can take no answers to its requests before it reconnects.
func (d *Denials) deaf() bool {
	d.mu.Lock()
	since := d.deafSince
	d.mu.Unlock()
	return since > 0 && since == d.nc.Stats().Reconnects+1
}

// Watch is told if the server denies its subject between its making and Stop. It keeps the connection alive until then.
type Watch struct {
	target
	on     *Denials
	before error // the connection's last error when the watch was made
	told   func(error)
	err    atomic.Pointer[Error]

	stopped atomic.Bool // what is denied from now on is another message's

	// The other watches of the target, and whether there were any. The book's mutex guards them.
	older, newer *Watch
	shared       bool
}

// Publish watches a subject to which a message is about to be published. Unless it is nil, told is called once when
// the server denies it, perhaps after Stop, by a goroutine that it must not hold up.
func (d *Denials) Publish(subject string, told func(error)) *Watch {
	return d.watch(target{subject, false}, told)
}

// Subscribe watches a subject that is about to be subscribed. told is as in Publish. Servers may deny a subscription
// later, too.
func (d *Denials) Subscribe(subject string, told func(error)) *Watch {
	return d.watch(target{subject, true}, told)
}

func (d *Denials) watch(t target, told func(error)) *Watch {
	w := &Watch{target: t, on: d, before: d.nc.LastError(), told: told}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listen(d.nc)
	if older := d.watches[t]; older != nil {
		w.older, older.newer = older, w
		w.shared, older.shared = true, true
	}
	d.watches[t] = w
	return w
}

// Subject returns what is watched.
func (w *Watch) Subject() string { return w.subject }

// Stop ends the watch. What it was told stays. It may be called more than once.
func (w *Watch) Stop() {
	w.stopped.Store(true)
	b := w.on.book
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case w.newer != nil:
		w.newer.older = w.older
	case b.watches[w.target] != w:
		return // stopped before
	case w.older != nil:
		b.watches[w.target] = w.older
	default:
		delete(b.watches, w.target)
	}
	if w.older != nil {
		w.older.newer = w.newer
	}
	w.older, w.newer = nil, nil
}

// Err returns an *Error if the server denies the subject, else nil.
func (w *Watch) Err() error {
	if denied := w.denied(); denied != nil {
		return denied
	}
	return nil
}

func (w *Watch) denied() *Error {
	if err := w.err.Load(); err != nil || w.stopped.Load() {
		return err
	}
	last := w.on.nc.LastError()
	if denied, ok := parse(last); !ok || denied != w.target || last == w.before {
		return nil
	}
	w.on.mu.Lock()
	defer w.on.mu.Unlock()
	w.deny()
	return w.err.Load()
}

// deny notes that the subject is denied. It returns whether a watch is to be told. The book's mutex must be held.
func (w *Watch) deny() (tell bool) {
	if w.err.Load() != nil {
		return false
	}
	err := &Error{Subject: w.subject, Subscription: w.subscription, Grant: w.subject}
	if w.subscription {
		err.Grant = w.on.inboxes
	} else {
		err.Dropped = !w.shared
	}
	w.err.Store(err)
	return w.told != nil
}
