package ownwrites_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
)

// write is a write to a fakeCache.
type write struct {
	revision uint64
	stream   uint64
	group    string
}

func (w write) groups() []string {
	if w.group == "" {
		return nil
	}
	return []string{w.group}
}

// fakeCache has a cursor, as that of a stream, and may show a key before its cursor has passed it.
type fakeCache struct {
	mu             sync.Mutex
	cursor, stream uint64
	shown          map[string]uint64
}

func (c *fakeCache) Follows(w, before write) bool {
	return w.stream > before.stream || w.stream == before.stream && w.revision >= before.revision
}

func (c *fakeCache) Reached(w write) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream != w.stream || c.cursor >= w.revision
}

func (c *fakeCache) Shows(key string, w write) bool {
	if c.Reached(w) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown[key] >= w.revision
}

func (c *fakeCache) advance(cursor uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cursor = cursor
}

const ttl = time.Minute

func overlayOver(c *fakeCache, change ...func(*ownwrites.Config[write])) *ownwrites.Overlay[write] {
	cfg := ownwrites.Config[write]{Cache: c, TTL: ttl, GroupsOf: write.groups}
	for _, f := range change {
		f(&cfg)
	}
	return ownwrites.NewOverlay(cfg)
}

func has(t *testing.T, o *ownwrites.Overlay[write], key string, want uint64) {
	t.Helper()
	w, ok := o.Get(key)
	if ok != (want > 0) || w.revision != want {
		t.Errorf("the own write of %s is %d (%v), want %d", key, w.revision, ok, want)
	}
	if _, listed := o.Keys()[key]; listed != ok {
		t.Errorf("%s is among the keys: %v, but it can be read: %v", key, listed, ok)
	}
}

func TestAnOwnWriteIsReadUntilTheCacheHasReachedIt(t *testing.T) {
	c := &fakeCache{}
	o := overlayOver(c)
	has(t, o, "a", 0)
	o.Add("a", write{revision: 10})
	has(t, o, "a", 10)
	has(t, o, "b", 0)
	c.advance(9)
	has(t, o, "a", 10)
	c.advance(10)
	has(t, o, "a", 0)
}

func TestOfTwoOwnWritersTheLaterWriteWins(t *testing.T) {
	c := &fakeCache{}
	o := overlayOver(c)
	o.Add("a", write{revision: 10})
	o.Add("a", write{revision: 9})
	has(t, o, "a", 10)
	o.Add("a", write{revision: 11})
	has(t, o, "a", 11)
	o.Add("a", write{revision: 3, stream: 1}) // another stream counts from the beginning
	c.stream = 1
	has(t, o, "a", 3)
}

func TestAWriteToAnotherStreamIsNotWaitedFor(t *testing.T) {
	c := &fakeCache{}
	o := overlayOver(c)
	added := o.Add("a", write{revision: 10})
	c.stream = 1
	has(t, o, "a", 0)
	if !added.Shown() {
		t.Error("it is waited for, though no cache will show it")
	}
}

func TestAnOwnWriteIsGivenUpWhenTheCacheIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := overlayOver(&fakeCache{})
		added := o.Add("a", write{revision: 10})
		time.Sleep(ttl)
		has(t, o, "a", 10)
		if added.Shown() {
			t.Error("it is given up too soon")
		}
		time.Sleep(time.Nanosecond)
		has(t, o, "a", 0)
		if !added.Shown() {
			t.Error("it is still waited for")
		}
		o.Prune()
		if n := o.Len(); n != 0 {
			t.Errorf("%d writes are held, want none", n)
		}
	})
}

func TestWhatTheCacheShowsIsDroppedFromTheOldestOn(t *testing.T) {
	c := &fakeCache{shown: map[string]uint64{}}
	var dropped []string
	o := overlayOver(c, func(cfg *ownwrites.Config[write]) {
		cfg.Dropped = func(key string, w write) { dropped = append(dropped, fmt.Sprint(key, w.revision)) }
	})
	o.Add("a", write{revision: 1})
	o.Add("b", write{revision: 2})
	o.Add("a", write{revision: 3}) // takes the place of the first one, which is not dropped for it
	o.Add("c", write{revision: 4})
	c.shown["a"] = 3
	o.Prune()
	if len(dropped) > 0 || o.Len() != 3 {
		t.Errorf("dropped %v, though the oldest is not shown", dropped)
	}
	c.shown["b"] = 2
	has(t, o, "b", 2) // the cache as a whole has not reached it
	o.Add("d", write{revision: 5})
	if want := []string{"b2", "a3"}; !slices.Equal(dropped, want) || o.Len() != 2 {
		t.Errorf("dropped %v, want %v; held are %d", dropped, want, o.Len())
	}
	if held := slices.Sorted(maps.Keys(maps.Collect(o.All()))); !slices.Equal(held, []string{"c", "d"}) {
		t.Errorf("held are %v, want c and d", held)
	}
}

func TestAWriteThatIsShownByItsKeyIsNotWaitedFor(t *testing.T) {
	c := &fakeCache{shown: map[string]uint64{}}
	added := overlayOver(c).Add("a", write{revision: 10})
	if added.Shown() {
		t.Error("nothing shows it")
	}
	c.shown["a"] = 11
	if !added.Shown() {
		t.Error("the cache shows a later one")
	}
}

func TestOneTooManyDropsTheOldest(t *testing.T) {
	o := overlayOver(&fakeCache{}, func(cfg *ownwrites.Config[write]) { cfg.Most = 3 })
	for i := range 10 {
		o.Add(fmt.Sprint(i), write{revision: uint64(i + 1)})
		if n := o.Len(); n > 3 {
			t.Fatalf("%d writes are held, want at most 3", n)
		}
	}
	has(t, o, "6", 0)
	has(t, o, "7", 8)
	has(t, o, "9", 10)
}

func TestOwnWritesAreFoundByGroup(t *testing.T) {
	c := &fakeCache{}
	o := overlayOver(c)
	group := func(name string, want ...string) {
		t.Helper()
		if got := slices.Sorted(slices.Values(o.Group(name))); !slices.Equal(got, want) {
			t.Errorf("of group %q are %v, want %v", name, got, want)
		}
	}
	group("x")
	o.Add("a", write{revision: 1, group: "x"})
	o.Add("b", write{revision: 2, group: "x"})
	o.Add("c", write{revision: 3})
	group("x", "a", "b")
	group("")
	o.Add("a", write{revision: 4, group: "y"})
	o.Add("b", write{revision: 5}) // as a delete
	group("x")
	group("y", "a")
	c.advance(5)
	o.Prune()
	group("y")
}

// TestAKeyThatIsWrittenOverAndOverTakesBoundedMemory, while a write of another key is not shown.
func TestAKeyThatIsWrittenOverAndOverTakesBoundedMemory(t *testing.T) {
	c := &fakeCache{}
	o := overlayOver(c)
	o.Add("still", write{revision: 1})
	for i := range 100_000 {
		o.Add("hot", write{revision: uint64(i + 2)})
	}
	if n := ownwrites.Turns(o); n > 1000 {
		t.Errorf("%d turns are kept for 2 writes", n)
	}
	has(t, o, "still", 1)
	has(t, o, "hot", 100_001)
	c.advance(100_001)
	if o.Prune(); o.Len() != 0 {
		t.Errorf("%d writes are held that the cache has", o.Len())
	}
}

// TestAReaderAlwaysFindsTheLastOwnWrite in the overlay or in the cache, while writers, the cache and readers race.
func TestAReaderAlwaysFindsTheLastOwnWrite(t *testing.T) {
	c := &fakeCache{}
	o := overlayOver(c)
	var store sync.Map // what the cache has
	events := make(chan write, 8)
	var caching, writing sync.WaitGroup
	caching.Go(func() {
		for w := range events {
			store.Store(w.group, w.revision)
			c.advance(w.revision)
		}
	})
	var revisions sync.Mutex
	revision := uint64(0)
	for i := range 4 {
		key := fmt.Sprint(i)
		writing.Go(func() {
			for range 2000 {
				revisions.Lock()
				revision++
				w := write{revision: revision, group: key}
				events <- w
				revisions.Unlock()
				o.Add(key, w)
				own, written := o.Get(key) // before the store
				stored, _ := store.Load(key)
				if !written && stored != w.revision || written && own.revision != w.revision {
					t.Errorf("wrote %d, the overlay has %d (%v) and the cache %v", w.revision, own.revision, written,
						stored)
					return
				}
				o.Group(key)
				o.Keys()
			}
		})
	}
	writing.Wait()
	close(events)
	caching.Wait()
	o.Prune()
	if n, turns := o.Len(), ownwrites.Turns(o); n != 0 || turns != 0 {
		t.Errorf("%d writes and %d turns are held of what the cache has", n, turns)
	}
}

// TestTheLastWritesAreDroppedToo, without a later Add: while an overlay holds any, each reader locks it.
func TestTheLastWritesAreDroppedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCache{}
		o := overlayOver(c)
		o.Add("a", write{revision: 1})
		o.Add("b", write{revision: 2})
		time.Sleep(10 * time.Second)
		if n := o.Len(); n != 2 {
			t.Errorf("%d writes are held that the cache does not show, want 2", n)
		}
		c.advance(1)
		time.Sleep(2 * time.Second)
		if n := o.Len(); n != 1 {
			t.Errorf("%d writes are held, want the one that the cache does not show", n)
		}
		o.Add("a", write{revision: 3})
		c.advance(3)
		time.Sleep(2 * time.Second)
		if n := o.Len(); n != 0 {
			t.Errorf("%d writes are held that the cache shows", n)
		}
		o.Add("c", write{revision: 4})
		time.Sleep(ttl + 2*time.Second)
		if n := o.Len(); n != 0 {
			t.Errorf("%d writes are held after their TTL", n)
		}
	})
}
