package ownwrites

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Write is a write that a cache will show.
type Write interface {
	// Reached reports whether the cache shows the write, or never will.
	Reached() bool
	// Wait blocks until Reached is true. The error is the cause of the context's end.
	Wait(ctx context.Context) error
	// Follows reports whether the write takes the place of one that was logged before it for the same cache and key.
	Follows(before Write) bool
}

// Versioned is a Write that knows what its event will say.
type Versioned interface {
	// Version is the resource version of what was written, and of what: the stream, or the informer. It is empty if it
	// is not known.
	Version() (of any, version string)
}

// Follower is told of each write that is added to a Log, also of those that another one follows.
type Follower interface {
	// Wrote is told of a write, as Versioned. It must not call the Log.
	Wrote(of any, version string)
}

// Log holds what was written under a context until the caches show it; of one key of one cache the last write. The zero
// value is ready. Its methods may be called concurrently.
type Log struct {
	// Follower is told of what is added and knows its version; nil: none. It is set before the first write.
	Follower Follower

	mu     sync.Mutex
	writes []logged
	places map[place]int // in writes; nil while these are few
}

type logged struct {
	place
	write Write
}

type place struct {
	cache any
	key   string
}

// fewWrites is up to how many writes a log looks through them all: most reconciles write one or two.
const fewWrites = 8

// Key is the key under which a context has the *Log of WithLog, for implementations of context.Context that carry one.
type Key struct{}

// WithLog returns a context under which writes are added to log.
func WithLog(ctx context.Context, log *Log) context.Context {
	return context.WithValue(ctx, Key{}, log)
}

// LogOf returns the log of a context; nil if it has none.
func LogOf(ctx context.Context) *Log {
	log, _ := ctx.Value(Key{}).(*Log)
	return log
}

// Add adds a write. Of the writes with one cache and one key only one is kept: the one that follows the others. A cache
// whose writes are reached in turn needs one key for all.
func (l *Log) Add(cache any, key string, write Write) {
	at := place{cache, key}
	if l.Follower != nil {
		if known, ok := write.(Versioned); ok {
			l.Follower.Wrote(known.Version())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.find(at); i >= 0 {
		if write.Follows(l.writes[i].write) {
			l.writes[i].write = write
		}
		return
	}
	l.writes = append(l.writes, logged{at, write})
	if l.places != nil {
		l.places[at] = len(l.writes) - 1
	}
}

// find returns where in the writes a place is, -1 if it is not there.
func (l *Log) find(at place) int {
	if len(l.writes) <= fewWrites {
		return slices.IndexFunc(l.writes, func(w logged) bool { return w.place == at })
	}
	if l.places == nil {
		l.places = make(map[place]int, 2*len(l.writes))
		for i, w := range l.writes {
			l.places[w.place] = i
		}
	}
	if i, ok := l.places[at]; ok {
		return i
	}
	return -1
}

// Empty reports whether nothing was written.
func (l *Log) Empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.writes) == 0
}

// Reached reports whether the caches show all writes, or never will.
func (l *Log) Reached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(l.writes, func(w logged) bool { return !w.write.Reached() })
}

// Wait blocks until the caches show all writes, or never will. The error is the cause of the context's end.
func (l *Log) Wait(ctx context.Context) error {
	l.mu.Lock()
	writes := slices.Clone(l.writes)
	l.mu.Unlock()
	for _, w := range writes {
		if err := w.write.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// The pauses between two looks at a cache. Its event usually comes within milliseconds.
const (
	lookAgain     = time.Millisecond
	lookAgainMost = 50 * time.Millisecond
)

// Polled is a Write to a cache that does not tell when it has come somewhere: the function is Reached, and Wait calls
// it again and again. It takes the place of any that was logged before it.
type Polled func() bool

// Reached implements Write.
func (p Polled) Reached() bool { return p() }

// Follows implements Write.
func (p Polled) Follows(Write) bool { return true }

// Wait implements Write.
func (p Polled) Wait(ctx context.Context) error {
	for pause := lookAgain; !p(); pause = min(2*pause, lookAgainMost) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
	return nil
}

// Shown is Polled that knows its version.
type Shown struct {
	Polled
	Of any // see Versioned
	As string
}

// Version implements Versioned.
func (s Shown) Version() (of any, version string) { return s.Of, s.As }
