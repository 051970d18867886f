package entity

import (
	"testing"
	"time"
)

func TestAnOwnWriteCountsUntilTheCacheHasItOrCannotGetIt(t *testing.T) {
	now := time.Now()
	w := ownWrite[string]{revision: 10, stream: 1, at: now}
	for name, c := range map[string]struct {
		cursor, stream uint64
		at             time.Time
		over           bool
	}{
		"behind":               {9, 1, now, false},
		"reached":              {10, 1, now, true},
		"passed":               {11, 1, now, true},
		"of another stream":    {5, 2, now, true},
		"the informer hangs":   {9, 1, now.Add(overlayTTL + time.Second), true},
		"the informer is slow": {9, 1, now.Add(overlayTTL - time.Second), false},
	} {
		if got := w.over(c.cursor, c.stream, c.at); got != c.over {
			t.Errorf("%s: over is %v", name, got)
		}
	}
}

func TestRecentRecordsAreBoundedInEntriesAndBytes(t *testing.T) {
	l := newRecordLRU()
	for i := range 3 * lruEntries {
		l.put(string(rune('a'+i%26))+time.Duration(i).String(), &Record{})
	}
	if len(l.entries) != lruEntries || l.order.Len() != lruEntries {
		t.Errorf("%d entries of at most %d", len(l.entries), lruEntries)
	}
	large := make([]byte, lruBytes/4)
	for i := range 20 {
		l.put(time.Duration(i).String(), &Record{LastDocument: large})
	}
	if l.bytes > lruBytes {
		t.Errorf("%d bytes of at most %d", l.bytes, lruBytes)
	}
	if _, ok := l.get(time.Duration(19).String()); !ok {
		t.Error("the last one is gone")
	}
	if _, ok := l.get(time.Duration(0).String()); ok {
		t.Error("the first one is still there")
	}
}
