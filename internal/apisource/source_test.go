package apisource

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/turn"
)

// relist lets the source list once more, past the time that pushes and lists that were wanted need.
func (c *controller) relist() {
	c.source.WantList(time.Now())
	time.Sleep(time.Second)
	synctest.Wait()
}

func TestAListTellsWhatDiffersFromTheLastOne(t *testing.T) {
	inBubble(t, external.Config{}, func(t *testing.T, c *controller) {
		for _, step := range []struct {
			list []external.Resource
			want []string
		}{
			{[]external.Resource{disk("a", "home", "1"), disk("b", "home", "1")}, []string{"created a", "created b"}},
			{[]external.Resource{disk("a", "home", "2"), disk("b", "home", "1")}, []string{"updated a"}},
			{[]external.Resource{disk("a", "home", "2"), disk("b", "x", "1"), disk("b", "y", "1")}, nil}, // whose is b?
			{[]external.Resource{disk("a", "home", "2"), disk("b", "home", "1")}, nil},
			{[]external.Resource{disk("b", "home", "1")}, []string{"deleted a"}},
		} {
			c.api.set(nil, step.list...)
			c.relist()
			got := tell(c, &c.events)
			slices.Sort(got)
			if !slices.Equal(got, step.want) {
				t.Errorf("%v: got %v, want %v", step.list, got, step.want)
			}
		}
		c.api.set(errAway)
		c.relist()
		if got := tell(c, &c.events); got != nil || c.source.Stats().Resources != 1 {
			t.Errorf("a list that fails tells %v, and %d resources are left", got, c.source.Stats().Resources)
		}
	})
}

// TestAKeyWaitsWhileTheAPIIsAwayAndIsResumedWithAllItsOperations, and with the highest of its priorities.
func TestAKeyWaitsWhileTheAPIIsAwayAndIsResumedWithAllItsOperations(t *testing.T) {
	inBubble(t, external.Config{}, func(t *testing.T, c *controller) {
		c.api.set(errAway)
		c.relist()
		prios := map[operation.Operation]queue.Priority{operation.Put: queue.Live, operation.Secondary: queue.Secondary}
		for _, op := range []operation.Operation{operation.Put, operation.Secondary} {
			_, _, err := c.gate("home").Enter(t.Context())
			waiter := c.set.WaiterFor("home", err)
			if waiter == nil || !isAway(waiter) {
				t.Fatalf("%v: it waits for %v", err, waiter)
			}
			waiter.Wait(queue.Item{Key: "home", Ops: operation.Of(op), Prio: prios[op]}, err)
		}
		resync := queue.Item{Key: "home", Ops: operation.Of(operation.Resync), Prio: queue.Background}
		if it := c.set.Take(resync); it.Prio != queue.Live || !it.Ops.Has(operation.Put) || c.source.Stats().Waiting != 0 {
			t.Errorf("an attempt that something else made due is for %+v", it)
		} else if _, _, err := c.gate("home").Enter(t.Context()); err != nil {
			it.Ops &^= operation.Of(operation.Resync)
			c.set.WaiterFor("home", err).Wait(it, err)
		}
		if s := c.source.Stats(); s.Waiting != 1 || !s.Away || c.opened != 1 {
			t.Errorf("%+v, opened %d times", s, c.opened)
		}
		c.api.set(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		got := tell(c, &c.resumed)
		if len(got) != 1 || got[0].Ops != operation.Of(operation.Put, operation.Secondary) || got[0].Prio != queue.Live {
			t.Errorf("resumed: %v", got)
		}
		if s := c.source.Stats(); s.Waiting != 0 || s.Away {
			t.Errorf("%+v", s)
		}
	})
}

// TestACallThatWaitedForItsTurnIsRefusedIfTheAPIWentAwayMeanwhile, be it the first call of a reconcile or a later one.
func TestACallThatWaitedForItsTurnIsRefusedIfTheAPIWentAwayMeanwhile(t *testing.T) {
	later := &Begun{}
	later.add("Disk")
	for name, begun := range map[string]*Begun{"the first call": {}, "a later call": later} {
		t.Run(name, func(t *testing.T) {
			// The list at the start took the only turn. The next one comes after half a second.
			inBubble(t, external.Config{Rate: 2, Burst: 1}, func(t *testing.T, c *controller) {
				g, _ := c.set.Gate("Disk", "home", begun)
				start, entered := time.Now(), make(chan error, 1)
				go func() {
					_, cancel, err := g.Enter(t.Context())
					if err == nil {
						cancel()
					}
					entered <- err
				}()
				synctest.Wait()
				if len(entered) > 0 {
					t.Fatal("it does not wait for its turn")
				}
				c.api.set(errAway)
				c.gate("other").Report(errAway)
				err := <-entered
				if waiter := c.set.WaiterFor("home", err); waiter == nil || !isAway(waiter) || !isRefusal(err) {
					t.Errorf("it entered with %v and waits for %v, want a refusal", err, waiter)
				}
				if took := time.Since(start); took != 500*time.Millisecond {
					t.Errorf("its turn came after %v", took)
				}
			})
		})
	}
}

// TestOneKeyTriesFirstWhereListsSucceedAndCallsFail, and the others follow once it got its answer.
func TestOneKeyTriesFirstWhereListsSucceedAndCallsFail(t *testing.T) {
	inBubble(t, external.Config{}, func(t *testing.T, c *controller) {
		for _, key := range []string{"a", "b", "c", "d"} {
			c.set.WaiterFor(key, errAway).Wait(queue.Item{Key: key, Ops: operation.Of(operation.Put)}, errAway)
		}
		time.Sleep(c.source.config.BackoffMin)
		synctest.Wait()
		first := tell(c, &c.resumed)
		if len(first) != 1 {
			t.Fatalf("%d keys try first", len(first))
		}
		if _, cancel, err := c.gate(first[0].Key).Enter(t.Context()); err != nil {
			t.Error(err)
		} else {
			cancel()
		}
		c.set.Attempted(first[0].Key, true)
		if rest := tell(c, &c.resumed); len(rest) != 3 {
			t.Errorf("%d keys follow", len(rest))
		}
	})
}

// TestAListDoesNotCloseTheBreakerWhileTheReconcileThatOpenedItGoesOn: its key tries first, once it waits.
func TestAListDoesNotCloseTheBreakerWhileTheReconcileThatOpenedItGoesOn(t *testing.T) {
	inBubble(t, external.Config{}, func(t *testing.T, c *controller) {
		c.gate("home").Report(errAway)
		time.Sleep(5 * c.source.config.BackoffMin) // lists succeed
		if s := c.source.Stats(); !s.Away {
			t.Error("closed, though no call has got an answer")
		}
		waits := c.set.WaiterFor("home", errAway)
		if waits == nil {
			t.Fatal("it waits for nothing")
		}
		waits.Wait(queue.Item{Key: "home", Ops: operation.Of(operation.Put)}, errAway)
		time.Sleep(c.source.config.BackoffMax)
		synctest.Wait()
		if got := tell(c, &c.resumed); len(got) != 1 || c.opened != 1 {
			t.Errorf("%v tries first, opened %d times", got, c.opened)
		}
	})
	// Where no key waits in the end, a list closes it.
	for name, end := range map[string]func(s *Set){
		"another failure": func(s *Set) { s.Attempted("home", false) },
		"a success":       func(s *Set) { s.Attempted("home", true) },
		"a key forgotten": func(s *Set) { s.Forget("home") },
		"no end for long": func(*Set) {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, external.Config{}, func(t *testing.T, c *controller) {
				c.gate("home").Report(errAway)
				end(c.set)
				time.Sleep(c.source.config.BackoffMax + c.source.config.Timeout)
				synctest.Wait()
				if s := c.source.Stats(); s.Away {
					t.Errorf("open, though lists succeed and nothing waits: %+v", s)
				}
			})
		})
	}
}

func TestAKeyWhoseTurnWouldBeLongInComingComesBackLater(t *testing.T) {
	inBubble(t, external.Config{Rate: 0.01, Burst: 1}, func(t *testing.T, c *controller) { // one turn, for the list
		_, _, err := c.gate("home").Enter(t.Context())
		waiter := c.set.WaiterFor("home", err)
		if waiter == nil || isAway(waiter) {
			t.Fatalf("%v: it waits for %v", err, waiter)
		}
		waiter.Wait(queue.Item{Key: "home", Ops: operation.Of(operation.Put)}, err)
		if got := tell(c, &c.retried); len(got) != 1 || c.source.Stats().TurnedAway != 1 {
			t.Errorf("retried %v, %+v", got, c.source.Stats())
		}
		c.set.ForgetTurn("home")
		if s := c.source.Stats(); s.TurnedAway != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAnErrorThatIsNotOnlyAboutAPIsMakesNoKeyWait(t *testing.T) {
	inBubble(t, external.Config{}, func(t *testing.T, c *controller) {
		if waiter := c.set.WaiterFor("home", errors.Join(errAway, errors.New("another"))); waiter != nil {
			t.Errorf("it waits for %v", waiter)
		}
		if !c.source.Stats().Away {
			t.Error("the breaker does not open, though this attempt has met the API away")
		}
	})
}

func TestATeardownWaitsForAListThatBeganAfterIt(t *testing.T) {
	inBubble(t, external.Config{}, func(t *testing.T, c *controller) {
		if stale := c.set.Stale("home"); len(stale) != 1 {
			t.Fatalf("stale: %v", stale)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := tell(c, &c.noticed); !slices.Equal(got, []string{"home"}) {
			t.Errorf("due: %v", got)
		}
		if stale := c.set.Stale("home"); stale != nil {
			t.Errorf("stale: %v", stale)
		}
		c.relist()
		if got := tell(c, &c.noticed); got != nil {
			t.Errorf("due again: %v", got)
		}
		c.set.EndTerm()
		if stale := c.set.Stale("home"); len(stale) != 1 {
			t.Error("a list of an earlier term is enough")
		}
	})
}

// TestAResourceThatWasMadeAndIsInNoListIsMissing: comparing two lists does not show it.
func TestAResourceThatWasMadeAndIsInNoListIsMissing(t *testing.T) {
	inBubble(t, external.Config{}, func(t *testing.T, c *controller) {
		for _, key := range []string{"home", "lost"} {
			entries := c.set.Store(key, turn.New())
			begun := external.Entry{Intent: &external.Intent{Action: external.ActionCreate, Digest: "x",
				Tried: time.Now()}}
			if err := entries.Save(t.Context(), "Disk", external.Entry{}, begun); err != nil {
				t.Fatal(err)
			}
			if err := entries.Save(t.Context(), "Disk", begun, external.Entry{Applied: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		c.api.set(nil, disk("a", "home", "1"))
		time.Sleep(time.Minute)
		c.relist()
		if got := tell(c, &c.missing); !slices.Equal(got, []string{"lost"}) {
			t.Errorf("missing: %v", got)
		}
		c.relist()
		if got := tell(c, &c.missing); got != nil {
			t.Errorf("missing again: %v", got)
		}
	})
}

func TestNothingIsLeftOfAKeyThatIsForgotten(t *testing.T) {
	inBubble(t, external.Config{}, func(t *testing.T, c *controller) {
		c.set.Stale("home")
		c.source.expect("home", 1, time.Now())
		c.source.keys.change("home", func(state *keyState) { state.turnedAway = true })
		c.set.WaiterFor("home", errAway).Wait(queue.Item{Key: "home"}, errAway)
		c.set.Forget("home")
		if s := c.source.Stats(); s.Awaited+s.Waiting+s.TurnedAway != 0 || c.source.keys.size.Load() != 0 {
			t.Errorf("%+v, %d keys", s, c.source.keys.size.Load())
		}
		if len(c.source.breaker.suspects) != 0 {
			t.Errorf("suspects: %v", c.source.breaker.suspects)
		}
	})
}

func (c *controller) gate(key string) external.Gate {
	g, guarded := c.set.Gate("Disk", key, nil)
	if !guarded {
		c.t.Fatal("nothing stands before the API")
	}
	return g
}

func isAway(w Waiter) bool {
	_, away := w.Awaits()
	return away
}
