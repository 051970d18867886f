// Package parts says of which keys a replica keeps documents, records and what they own in its caches, where replicas
// share the keys of a kind.
//
// The rule: it says so before anything is read, and whoever changes it has the caches follow. First a part is wanted,
// and then the caches fetch it; first it is wanted no more, and then they put it apart.
package parts

import "sync/atomic"

// Parts are the parts into which the keys of a kind fall: which of them are wanted, and which the caches have whole.
// All methods may be called concurrently; a nil Parts wants all.
type Parts struct {
	of            func(key string) int
	wanted, whole []atomic.Bool
}

// New divides keys into so many parts, of which none is wanted. of says in which a key is.
func New(many int, of func(key string) int) *Parts {
	return &Parts{of: of, wanted: make([]atomic.Bool, many), whole: make([]atomic.Bool, many)}
}

// Many is how many parts there are.
func (p *Parts) Many() int { return len(p.wanted) }

// Of is the part of a key.
func (p *Parts) Of(key string) int { return p.of(key) }

// Set says of some parts whether they are wanted. What is not wanted is not whole.
func (p *Parts) Set(wanted bool, parts ...int) {
	for _, part := range parts {
		if !wanted {
			p.whole[part].Store(false)
		}
		p.wanted[part].Store(wanted)
	}
}

// Fetched says that the caches have some parts whole, which are wanted.
func (p *Parts) Fetched(parts ...int) {
	for _, part := range parts {
		p.whole[part].Store(true)
	}
}

// IsWhole reports whether the caches have a part whole.
func (p *Parts) IsWhole(part int) bool { return p.whole[part].Load() }

// Has reports whether the caches have all that belongs to a key.
func (p *Parts) Has(key string) bool { return p.IsWhole(p.of(key)) }

// Want reports whether a part is wanted.
func (p *Parts) Want(part int) bool { return p.wanted[part].Load() }

// Wants reports whether the part of a key is wanted.
func (p *Parts) Wants(key string) bool { return p == nil || p.Want(p.of(key)) }
