// Package intern has a cache hold once what repeats in its objects: equal maps of labels and annotations, and equal
// strings in others.
//
// It remembers what it saw last in a table of fixed size, so that nothing has to be given back: what an object does
// not use any more goes with the object, or with the next one in its place.
package intern

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync/atomic"
)

// The sizes of the tables. A map or string that repeats is found again unless another one has taken its place.
const (
	mapSlots    = 1 << 10
	stringSlots = 1 << 12
	// longest is the length of the longest string that is held once: longer ones hardly repeat.
	longest = 128
)

// Pool is one cache's. The zero value is ready. It may be used concurrently.
type Pool struct {
	maps    [mapSlots]atomic.Pointer[map[string]string]
	strings [stringSlots]atomic.Pointer[string]
}

var seed = maphash.MakeSeed()

// Map returns a map that is equal to in: one that Map has returned before, or a new one, whose strings are those that
// others have. It does not change in. What is returned must not be changed.
func (p *Pool) Map(in map[string]string) map[string]string {
	if len(in) == 0 {
		return in
	}
	hash := hashOf(in) % mapSlots
	first, second := &p.maps[hash], &p.maps[hash^1]
	for _, slot := range []*atomic.Pointer[map[string]string]{first, second} {
		if held := slot.Load(); held != nil && maps.Equal(*held, in) {
			return *held
		}
	}
	out := make(map[string]string, len(in)) // in may be one that a user's code gives to several objects
	for name, value := range in {
		out[p.String(name)] = p.String(value)
	}
	if before := first.Swap(&out); before != nil {
		second.Store(before) // so that two that want one place do not drive each other out
	}
	return out
}

// hashOf does not depend on the order of the pairs. One factor is odd, so that no bit of the other is lost.
func hashOf(in map[string]string) (hash uint64) {
	for name, value := range in {
		hash += (maphash.String(seed, name) | 1) * maphash.String(seed, value)
	}
	return hash
}

// String returns a string that is equal to s, and holds no more than its own bytes.
func (p *Pool) String(s string) string {
	if len(s) == 0 || len(s) > longest {
		return s
	}
	slot := &p.strings[maphash.String(seed, s)%stringSlots]
	if held := slot.Load(); held != nil && *held == s {
		return *held
	}
	s = strings.Clone(s)
	slot.Store(&s)
	return s
}
