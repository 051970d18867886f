package entity

import (
	"container/list"
	"sync"
)

// lru keeps what was used last. It is bounded in entries and in bytes.
type lru[V any] struct {
	mostEntries, mostBytes int
	sizeOf                 func(V) int

	mu      sync.Mutex
	entries map[string]*list.Element
	order   *list.List // of lruEntry, last used first
	bytes   int
}

type lruEntry[V any] struct {
	key   string
	value V
	size  int
}

// lruOverhead is about how many bytes an entry takes besides its key and what sizeOf counts.
const lruOverhead = 256

func newLRU[V any](mostEntries, mostBytes int, sizeOf func(V) int) *lru[V] {
	return &lru[V]{
		mostEntries: mostEntries, mostBytes: mostBytes, sizeOf: sizeOf,
		entries: map[string]*list.Element{}, order: list.New(),
	}
}

func (l *lru[V]) get(key string) (value V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	element, ok := l.entries[key]
	if !ok {
		return value, false
	}
	l.order.MoveToFront(element)
	return element.Value.(lruEntry[V]).value, true
}

func (l *lru[V]) put(key string, value V) {
	entry := lruEntry[V]{key, value, len(key) + l.sizeOf(value) + lruOverhead}
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, ok := l.entries[key]; ok {
		l.drop(element)
	}
	l.entries[key] = l.order.PushFront(entry)
	l.bytes += entry.size
	for l.order.Len() > l.mostEntries || l.bytes > l.mostBytes {
		l.drop(l.order.Back())
	}
}

func (l *lru[V]) remove(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, ok := l.entries[key]; ok {
		l.drop(element)
	}
}

func (l *lru[V]) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.entries)
	l.order.Init()
	l.bytes = 0
}

func (l *lru[V]) drop(element *list.Element) {
	entry := l.order.Remove(element).(lruEntry[V])
	delete(l.entries, entry.key)
	l.bytes -= entry.size
}

const (
	lruEntries = 4096
	lruBytes   = 32 << 20
)

// recordLRU keeps the full records that this process read or wrote last, so that a status update in a reconcile takes
// one round trip.
type recordLRU struct {
	*lru[*Record]

	following sync.Mutex
	of        moment // whose stream they are of
}

func newRecordLRU() *recordLRU {
	sizeOf := func(r *Record) int { return len(r.Status) + len(r.LastDocument) }
	return &recordLRU{lru: newLRU(lruEntries, lruBytes, sizeOf)}
}

// follow forgets the records of another stream than the one that an informer has noticed last.
func (l *recordLRU) follow(now moment) {
	l.following.Lock()
	defer l.following.Unlock()
	if now.informer == l.of.informer && now.noticed == l.of.noticed {
		return
	}
	l.of = now
	l.clear()
}

// get returns a copy.
func (l *recordLRU) get(key string) (*Record, bool) {
	rec, ok := l.lru.get(key)
	if !ok {
		return nil, false
	}
	return rec.Clone(), true
}

// put stores a copy.
func (l *recordLRU) put(key string, rec *Record) { l.lru.put(key, rec.Clone()) }
