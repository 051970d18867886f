package entity

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestAnOwnWriteIsReachedWhenTheCursorHasPassedItOrTheStreamIsAnother(t *testing.T) {
	for name, c := range map[string]struct {
		cursor, changes uint64
		reached         bool
	}{
		"behind":            {9, 1, false},
		"reached":           {10, 1, true},
		"passed":            {11, 1, true},
		"of another stream": {5, 2, true},
	} {
		at := position{revision: 10, stream: 1}
		informer := &followed{cursor: c.cursor, stream: c.changes}
		if got := at.reachedBy(informer); got != c.reached {
			t.Errorf("%s: reached is %v", name, got)
		}
		if got := (loggedWrite{at, informer}).Reached(); got != c.reached {
			t.Errorf("%s: a log says %v", name, got)
		}
	}
	if !(loggedWrite{position{revision: 10, stream: 1}, &followed{stream: 1, stopped: true}}).Reached() {
		t.Error("an informer that has stopped is waited for")
	}
}

func TestOfTwoOwnWritesTheLaterRevisionCountsWithinAStream(t *testing.T) {
	for name, c := range map[string]struct {
		write, before position
		follows       bool
	}{
		"later":              {position{revision: 11, stream: 1}, position{revision: 10, stream: 1}, true},
		"earlier":            {position{revision: 9, stream: 1}, position{revision: 10, stream: 1}, false},
		"of a stream since":  {position{revision: 9, stream: 2}, position{revision: 10, stream: 1}, true},
		"of one before":      {position{revision: 11, stream: 1}, position{revision: 10, stream: 2}, false},
		"later, same stream": {position{revision: 11, stream: 2}, position{revision: 10, stream: 2}, true},
	} {
		if got := c.write.follows(c.before); got != c.follows {
			t.Errorf("%s: follows is %v", name, got)
		}
		if got := (loggedWrite{c.write, nil}).Follows(loggedWrite{c.before, nil}); got != c.follows {
			t.Errorf("%s: a log says %v", name, got)
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

// followed is the part of an informer that an overlay uses.
type followed struct {
	natsinformer.Informer
	cursor, stream uint64
	stopped        bool
	err            error
	since          time.Time // of err, or of its end
}

func (f *followed) Known(string) (runtime.Object, uint64) { return nil, 0 }

func (f *followed) Cursor() uint64                { return f.cursor }
func (f *followed) Deleted(string) uint64         { return 0 }
func (f *followed) InvalidRevision(string) uint64 { return f.cursor } // each key was written last there
func (f *followed) IsStopped() bool               { return f.stopped }
func (f *followed) Status() natsinformer.Status {
	return natsinformer.Status{StreamsShown: f.stream, StreamsNoticed: f.stream, Err: f.err, Since: f.since}
}

// TestAWriteWhoseStreamIsNotCertainShowsUntilTheInformerHasWorkedForAWhile: it may be of the stream before, and then the
// cursor never reaches it. But while the informer cannot watch, the cursor says nothing.
func TestAWriteWhoseStreamIsNotCertainShowsUntilTheInformerHasWorkedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ownWrite[string]{position: position{revision: 10, stream: 1, doubtful: true}, key: "k", at: time.Now()}
		informer := &followed{cursor: 5, stream: 1}
		reached := func(when string, want bool) {
			t.Helper()
			if got := w.reachedBy(informer); got != want {
				t.Errorf("%s: reached is %v", when, got)
			}
		}
		reached("at once", false)
		time.Sleep(3 * time.Second)
		informer.err, informer.since = errors.New("away"), time.Now()
		time.Sleep(10 * time.Second)
		reached("while the informer cannot watch", false)
		informer.err, informer.since = nil, time.Now()
		time.Sleep(doubtLasts)
		reached("a moment after it could not", false)
		time.Sleep(time.Second)
		reached("when it has worked for a while", true)
	})
}

// The acknowledgements of two writers in one process may come in any order; the order in the stream counts.
func TestOfTwoOwnWritersTheLaterRevisionWins(t *testing.T) {
	type entry struct {
		revision uint64
		value    string
		deleted  bool
	}
	write := func(t *testing.T, o *overlay[string], e entry) {
		if e.deleted {
			o.delete(t.Context(), "k", sequence{revision: e.revision})
		} else {
			o.put(t.Context(), "k", sequence{revision: e.revision}, e.value)
		}
	}
	for name, c := range map[string]struct{ later, earlier entry }{
		"two updates":           {entry{8, "later", false}, entry{7, "earlier", false}},
		"an update of a delete": {entry{8, "later", false}, entry{7, "", true}},
		"a delete of an update": {entry{8, "", true}, entry{7, "earlier", false}},
	} {
		t.Run(name, func(t *testing.T) {
			for order, writes := range map[string][]entry{
				"in order": {c.earlier, c.later}, "crossed": {c.later, c.earlier},
			} {
				informer := &followed{cursor: 6}
				o := newOverlay(informer, func(v string) []string { return []string{v} })
				for _, w := range writes {
					write(t, o, w)
				}
				check := func(when string, want entry, there bool) {
					t.Helper()
					got, ok := o.Get("k")
					if ok != there ||
						ok && (got.revision != want.revision ||
							got.value != want.value || got.deleted != want.deleted) {
						t.Errorf("%s, %s: got %+v, %v; want %+v, %v", order, when, got, ok, want, there)
					}
					if all := o.Keys(); (len(all) == 1) != there {
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
				if len(o.Group("later")) != groups || len(o.Group("earlier")) != 0 {
					t.Errorf("%s: of the groups, later has %v and earlier %v", order,
						o.Group("later"), o.Group("earlier"))
				}
				informer.cursor = 8
				check("at the later one", entry{}, false)
			}
		})
	}
}

// Revisions of two streams do not tell which of two writes came later.
func TestAnOwnWriteToANewStreamTakesThePlaceOfAHigherRevisionOfTheOneBefore(t *testing.T) {
	informer := &followed{}
	o := newOverlay[string](informer, nil)
	o.put(t.Context(), "k", sequence{revision: 50}, "of the stream before")
	informer.stream++
	o.put(t.Context(), "k", sequence{revision: 2}, "of the stream now")
	if w, ok := o.Get("k"); !ok || w.value != "of the stream now" {
		t.Errorf("got %+v, %v", w, ok)
	}
}

func TestAnOverlayKeepsNothingThatTheCacheHas(t *testing.T) {
	informer := &followed{}
	o := newOverlay(informer, func(v string) []string { return []string{v} })
	for revision := range uint64(1000) {
		o.put(t.Context(), string(rune('a'+revision%7)), sequence{revision: revision + 1}, "group")
		informer.cursor = revision // one behind
	}
	if n := o.Len(); n > 2 || len(o.Group("group")) > n {
		t.Errorf("%d writes and %d keys of the group", n, len(o.Group("group")))
	}
	o.put(t.Context(), "hot", sequence{revision: 1001}, "")
	o.put(t.Context(), "cold", sequence{revision: 1002}, "")
	o.put(t.Context(), "hot", sequence{revision: 3000}, "") // its own turn comes later: it keeps no other key
	informer.cursor = 2000
	o.put(t.Context(), "new", sequence{revision: 2001}, "")
	if o.Len() != 2 {
		t.Errorf("%v", maps.Collect(o.All()))
	}
	informer.cursor = 4000
	o.delete(t.Context(), "z", sequence{revision: 4001})
	informer.cursor = 4001
	o.delete(t.Context(), "z", sequence{revision: 4002})
	if o.Len() != 1 || len(o.Group("group")) != 0 {
		t.Errorf("%v, and %d of the group", maps.Collect(o.All()), len(o.Group("group")))
	}
}

// relisted is an informer that meets another stream.
type relisted struct {
	followed
	status natsinformer.Status
}

func (r *relisted) Status() natsinformer.Status { return r.status }

// TestAnOwnWriteShowsUntilWhatWasListedIsInTheStore: it may be in the stream that is being listed, though that was not
// known when it was acknowledged.
func TestAnOwnWriteShowsUntilWhatWasListedIsInTheStore(t *testing.T) {
	informer := &relisted{followed: followed{cursor: 10}}
	o := newOverlay[string](informer, nil)
	o.put(t.Context(), "k", sequence{revision: 12}, "mine")
	for _, step := range []struct {
		what           string
		cursor         uint64
		noticed, shown uint64
		relisting      bool
		shows          bool
	}{
		{"before the stream is noticed", 10, 0, 0, false, true},
		{"while it is listed", 10, 1, 0, true, true},
		{"while the store takes what was listed", 0, 1, 1, true, true},
		{"when the store has it", 14, 1, 1, false, false},
	} {
		informer.cursor = step.cursor
		informer.status = natsinformer.Status{
			StreamsNoticed: step.noticed, StreamsShown: step.shown, Relisting: step.relisting,
		}
		if _, shows := o.Get("k"); shows != step.shows {
			t.Errorf("%s it shows: %v", step.what, shows)
		}
	}
}
