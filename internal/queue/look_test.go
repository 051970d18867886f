package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

// TestLookSaysWhatIsToCome in each state of a key.
func TestLookSaysWhatIsToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{DebounceQuiet: time.Minute, DebounceMax: time.Hour})
		defer q.ShutDown()
		began := time.Now()
		look := func(what, key string, want Known) {
			t.Helper()
			for _, at := range []*time.Time{
				&want.ReadyAt, &want.Wait.Since, &want.Wait.Due, &want.User.Since, &want.User.Due,
			} {
				if !at.IsZero() {
					*at = at.Round(0)
				}
			}
			got := q.Look(key)
			for _, at := range []*time.Time{
				&got.ReadyAt, &got.Wait.Since, &got.Wait.Due, &got.User.Since, &got.User.Due,
			} {
				*at = at.Round(0)
			}
			if got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		look("nobody knows it", "a", Known{})

		q.Add("a", opPut, Live)
		look("it has to be quiet", "a", Known{Wait: Delay{opPut, quietDelay, began, began.Add(time.Minute)}})
		time.Sleep(time.Second)
		q.Add("a", opPut, Live)
		look("it changed again", "a", Known{Wait: Delay{opPut, quietDelay, began, began.Add(time.Minute + time.Second)}})
		advance(time.Hour)
		at := began.Add(time.Minute + time.Second)
		look("it is ready", "a", Known{Due: opPut, Prio: Live, ReadyAt: at})

		takeKey(t, q, "a", opPut)
		look("it runs", "a", Known{Running: true, Prio: Live, ReadyAt: at})
		q.AddAfter("a", opRequeue, Background, time.Hour, RequeueDelay)
		q.Done("a")
		now := time.Now()
		wait := Delay{opRequeue, RequeueDelay, now, now.Add(time.Hour)}
		look("it comes back", "a", Known{Prio: Live, Wait: wait})
		time.Sleep(time.Minute)
		q.AddAfter("a", opManual, Live, 2*time.Hour, UserDelay)
		user := Delay{opManual, UserDelay, time.Now(), time.Now().Add(2 * time.Hour)}
		look("and a user asked for it", "a", Known{Prio: Live, Wait: wait, User: user})
		q.AddAfter("a", opRetry, Background, time.Minute, RetryDelay)
		wait.Ops, wait.Due = operation.Union(opRequeue, opRetry), time.Now().Add(time.Minute)
		look("the shorter delay wins", "a", Known{Prio: Live, Wait: wait, User: user})
		q.Add("a", opResync, Background)
		look("an event wakes it", "a", Known{Due: opResync, Prio: Background, ReadyAt: time.Now(), User: user})
		takeKey(t, q, "a", opResync)
		q.Add("a", opSecondary, Secondary)
		if k := q.Look("a"); !k.Running || k.Due != 0 || !k.Wait.IsQuiet() {
			t.Errorf("it runs, and has to be quiet before it runs again: %+v", k)
		}
		q.CancelDelays("a")
		q.Done("a")
	})
}
