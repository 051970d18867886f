// Package parts says of which keys a replica keeps documents, records and what they own in its caches, where replicas
// share the keys of a kind.
//
// The rule: it says so before anything is read, and whoever changes it has the caches follow. First a part is wanted,
// and then the caches fetch it; first it is wanted no more, and then they put it apart.
package parts

import "sync/atomic"

// Parts are the parts into which the keys of a kind fall, and which of them are wanted. All methods may be called
// concurrently; a nil Parts wants all.
type Parts struct {
	of     func(key string) int
	wanted []atomic.Bool
}

// New divides keys into so many parts, of which none is wanted. of says in which a key is.
func New(many int, of func(key string) int) *Parts {
	return &Parts{of: of, wanted: make([]atomic.Bool, many)}
}

// Many is how many parts there are.
func (p *Parts) Many() int { return len(p.wanted) }

// Of is the part of a key.
func (p *Parts) Of(key string) int { return p.of(key) }

// Set says of some parts whether they are wanted.
func (p *Parts) Set(wanted bool, parts ...int) {
	for _, part := range parts {
		p.wanted[part].Store(wanted)
	}
}

// Want reports whether a part is wanted.
func (p *Parts) Want(part int) bool { return p.wanted[part].Load() }

// Wants reports whether the part of a key is wanted.
func (p *Parts) Wants(key string) bool { return p == nil || p.Want(p.of(key)) }
