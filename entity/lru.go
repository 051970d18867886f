package entity

import (
	"container/list"
	"sync"
)

const (
	lruEntries = 4096
	lruBytes   = 32 << 20
)

// recordLRU keeps the full records that this process read or wrote last, so that a status update in a reconcile takes
// one round trip. It is bounded in entries and in bytes.
type recordLRU struct {
	mu      sync.Mutex
	entries map[string]*list.Element
	order   *list.List // of lruEntry, last used first
	bytes   int
}

type lruEntry struct {
	key    string
	record *Record
}

func (e lruEntry) size() int {
	return len(e.key) + len(e.record.Status) + len(e.record.LastDocument) + 256
}

func newRecordLRU() *recordLRU {
	return &recordLRU{entries: map[string]*list.Element{}, order: list.New()}
}

// get returns a copy.
func (l *recordLRU) get(key string) (*Record, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	element, ok := l.entries[key]
	if !ok {
		return nil, false
	}
	l.order.MoveToFront(element)
	return element.Value.(lruEntry).record.Clone(), true
}

// put stores a copy.
func (l *recordLRU) put(key string, rec *Record) {
	entry := lruEntry{key, rec.Clone()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, ok := l.entries[key]; ok {
		l.drop(element)
	}
	l.entries[key] = l.order.PushFront(entry)
	l.bytes += entry.size()
	for l.order.Len() > lruEntries || l.bytes > lruBytes {
		l.drop(l.order.Back())
	}
}

func (l *recordLRU) remove(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, ok := l.entries[key]; ok {
		l.drop(element)
	}
}

func (l *recordLRU) drop(element *list.Element) {
	entry := l.order.Remove(element).(lruEntry)
	delete(l.entries, entry.key)
	l.bytes -= entry.size()
}
