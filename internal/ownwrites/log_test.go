package ownwrites_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
)

// logged is a write in a log: to a cache whose cursor has to pass it.
type logged struct {
	revision uint64
	cursor   *fakeCache
}

func (w logged) Reached() bool                       { return w.cursor.Reached(write{revision: w.revision}) }
func (w logged) Wait(ctx context.Context) error      { return ownwrites.Polled(w.Reached).Wait(ctx) }
func (w logged) Follows(before ownwrites.Write) bool { return w.revision > before.(logged).revision }

func TestALogIsReachedWhenTheCachesShowAllOfIt(t *testing.T) {
	one, other := &fakeCache{}, &fakeCache{}
	log := &ownwrites.Log{}
	if !log.Empty() || !log.Reached() {
		t.Error("nothing was written")
	}
	log.Add(one, "a", logged{1, one})
	log.Add(one, "b", logged{2, one})
	log.Add(other, "a", logged{3, other})
	reached := func(want bool) {
		t.Helper()
		if log.Reached() != want {
			t.Errorf("reached is %v, want %v", !want, want)
		}
	}
	reached(false)
	one.advance(1)
	other.advance(3)
	reached(false)
	one.advance(2)
	reached(true)
	if log.Empty() {
		t.Error("it forgot what was written")
	}
	log.Add(one, "c", logged{4, one})
	reached(false)
	one.advance(4)
	reached(true)
}

// TestOfOneKeyOfACacheALogKeepsTheWriteThatFollows, whichever is logged last, be they few or many.
func TestOfOneKeyOfACacheALogKeepsTheWriteThatFollows(t *testing.T) {
	for _, keys := range []int{1, 100} {
		c := &fakeCache{}
		log := &ownwrites.Log{}
		for _, revision := range []uint64{5, 7, 6} {
			for k := range keys {
				log.Add(c, fmt.Sprint(k), logged{revision, c})
			}
		}
		c.advance(6)
		if log.Reached() {
			t.Errorf("%d keys: the last write is forgotten", keys)
		}
		c.advance(7)
		if !log.Reached() {
			t.Errorf("%d keys: it is not reached", keys)
		}
		if n := ownwrites.Logged(log); n != keys {
			t.Errorf("%d writes are kept of %d keys", n, keys)
		}
	}
}

func TestALogIsFoundByItsContextAlone(t *testing.T) {
	log := &ownwrites.Log{}
	if got := ownwrites.LogOf(ownwrites.WithLog(t.Context(), log)); got != log {
		t.Errorf("got %p, want %p", got, log)
	}
	if got := ownwrites.LogOf(t.Context()); got != nil {
		t.Errorf("a context without a log has %p", got)
	}
}

func TestWaitingForALogEndsWhenAllIsShownOrWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCache{}
		log := &ownwrites.Log{}
		log.Add(c, "a", logged{1, c})
		log.Add(c, "b", logged{2, c})
		done := make(chan error, 1)
		go func() { done <- log.Wait(t.Context()) }()
		time.Sleep(time.Minute)
		c.advance(1)
		time.Sleep(time.Minute)
		if len(done) > 0 {
			t.Error("it did not wait for the second write")
		}
		c.advance(2)
		begin := time.Now()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 50*time.Millisecond {
			t.Errorf("it looked again after %v only", took)
		}
		why := errors.New("enough")
		ended, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		log.Add(c, "c", logged{3, c})
		if err := log.Wait(ended); !errors.Is(err, why) {
			t.Errorf("waiting ended with %v, want %v", err, why)
		}
	})
}

// TestALogCanBeAddedToWhileItIsWaitedFor: a reconcile may write from several goroutines.
func TestALogCanBeAddedToWhileItIsWaitedFor(t *testing.T) {
	c := &fakeCache{}
	log := &ownwrites.Log{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint64(1000) {
			log.Add(c, fmt.Sprint(i%20), logged{i, c})
			c.advance(i)
		}
	}()
	for range 100 {
		log.Reached()
		log.Empty()
		if err := log.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	<-done
}

// versions is an observer that remembers what it was told.
type versions []string

func (v *versions) Wrote(of any, version string) { *v = append(*v, fmt.Sprint(of, " ", version)) }

// TestAnObserverIsToldOfEachWriteWhoseVersionIsKnown, also of those that another one follows.
func TestAnObserverIsToldOfEachWriteWhoseVersionIsKnown(t *testing.T) {
	var told versions
	c := &fakeCache{}
	log := &ownwrites.Log{Follower: &told}
	never := func() bool { return false }
	for _, version := range []string{"5", "7", "6"} {
		log.Add(c, "a", ownwrites.Shown{Of: "pods", As: version, Polled: never})
	}
	log.Add(c, "b", ownwrites.Polled(never))
	if want := "[pods 5 pods 7 pods 6]"; fmt.Sprint(told) != want {
		t.Errorf("told %v, want %v", told, want)
	}
}
