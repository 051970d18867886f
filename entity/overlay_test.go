package entity

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
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

// followed is an informer as far as an overlay asks it.
type followed struct {
	natsinformer.Informer
	cursor, stream uint64
}

func (f *followed) Cursor() uint64              { return f.cursor }
func (f *followed) Status() natsinformer.Status { return natsinformer.Status{StreamChanges: f.stream} }

// The acknowledgements of two writers in one process may come in any order; the stream's order counts.
func TestOfTwoOwnWritersTheLaterRevisionWins(t *testing.T) {
	type entry struct {
		revision uint64
		value    string
		deleted  bool
	}
	write := func(o *overlay[string], e entry) {
		if e.deleted {
			o.delete("k", e.revision)
		} else {
			o.put("k", e.revision, e.value)
		}
	}
	for name, c := range map[string]struct{ later, earlier entry }{
		"two updates":           {entry{8, "later", false}, entry{7, "earlier", false}},
		"an update of a delete": {entry{8, "later", false}, entry{7, "", true}},
		"a delete of an update": {entry{8, "", true}, entry{7, "earlier", false}},
	} {
		t.Run(name, func(t *testing.T) {
			for order, writes := range map[string][]entry{"in order": {c.earlier, c.later}, "crossed": {c.later, c.earlier}} {
				informer := &followed{cursor: 6}
				o := newOverlay(informer, func(v string) string { return v })
				for _, w := range writes {
					write(o, w)
				}
				check := func(when string, want entry, there bool) {
					t.Helper()
					got, ok := o.get("k")
					if ok != there || ok && (got.revision != want.revision || got.value != want.value || got.deleted != want.deleted) {
						t.Errorf("%s, %s: got %+v, %v; want %+v, %v", order, when, got, ok, want, there)
					}
					if all := o.all(); (len(all) == 1) != there {
						t.Errorf("%s, %s: all are %+v", order, when, all)
					}
				}
				check("behind both", c.later, true)
				informer.cursor = 7
				check("behind the later one", c.later, true)
				groups := 1
				if c.later.deleted {
					groups = 0
				}
				if len(o.group("later")) != groups || len(o.group("earlier")) != 0 {
					t.Errorf("%s: of the groups, later has %v and earlier %v", order, o.group("later"), o.group("earlier"))
				}
				informer.cursor = 8
				check("at the later one", entry{}, false)
			}
		})
	}
}

// Revisions of another stream say nothing about which of two writes came later.
func TestAnOwnWriteToANewStreamTakesThePlaceOfAHigherRevisionOfTheOneBefore(t *testing.T) {
	informer := &followed{}
	o := newOverlay[string](informer, nil)
	o.put("k", 50, "of the stream before")
	informer.stream++
	o.put("k", 2, "of the stream now")
	if w, ok := o.get("k"); !ok || w.value != "of the stream now" {
		t.Errorf("got %+v, %v", w, ok)
	}
}

func TestAnOverlayKeepsNothingThatTheCacheHas(t *testing.T) {
	informer := &followed{}
	o := newOverlay(informer, func(v string) string { return v })
	for revision := range uint64(1000) {
		o.put(string(rune('a'+revision%7)), revision+1, "group")
		informer.cursor = revision // one behind
	}
	if len(o.entries) > 2 || len(o.order) > 2 || len(o.groups["group"]) > 2 || o.size.Load() != int64(len(o.entries)) {
		t.Errorf("%d entries in %d turns and %d keys of the group, and a size of %d", len(o.entries), len(o.order), len(o.groups["group"]), o.size.Load())
	}
	o.put("hot", 1001, "")
	o.put("cold", 1002, "")
	o.put("hot", 3000, "") // has its turn later: it keeps no other
	informer.cursor = 2000
	o.put("new", 2001, "")
	if len(o.entries) != 2 {
		t.Errorf("entries %v", o.entries)
	}
	informer.cursor = 4000
	o.delete("z", 4001)
	informer.cursor = 4001
	o.delete("z", 4002)
	if len(o.entries) != 1 || len(o.groups) != 0 {
		t.Errorf("entries %v, groups %v", o.entries, o.groups)
	}
}
