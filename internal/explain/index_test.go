package explain

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// manyDocuments are 50,000 of the namespace "big", and one of "small".
func manyDocuments(t *testing.T) (*Explainer, *documents) {
	d := &documents{keys: []string{"small/one"}}
	for i := range 50_000 {
		d.keys = append(d.keys, fmt.Sprintf("big/%05d", i))
	}
	x := explainer(t, d)
	for range x.Within(t.Context(), "small/", "") {
	}
	d.copied = 0
	return x, d
}

// page reads one, and returns its keys and how many keys it cost.
func page(t *testing.T, x *Explainer, d *documents, limit int, prefix, after string, of Filter) (keys []string, cost int) {
	before := d.copied + int(x.Index.visited.Load())
	for e := range x.Listed(t.Context(), prefix, after, of) {
		if keys = append(keys, e.Key); len(keys) == limit {
			break
		}
	}
	return keys, d.copied + int(x.Index.visited.Load()) - before
}

// TestAPageCostsWhatItShows: entries are counted, not time.
func TestAPageCostsWhatItShows(t *testing.T) {
	x, d := manyDocuments(t)
	for _, key := range []string{"big/00007", "big/49999"} {
		x.Keys.Change(key, func(s *keytable.State) { s.Failures = 1; s.Fails("no", false) })
		x.Queue.AddAfter(key, put, queue.Background, time.Hour, queue.RetryDelay)
	}
	x.Queue.Add("big/40000", put, queue.Live)
	for name, tt := range map[string]struct {
		limit         int
		prefix, after string
		of            Filter
		want          []string
		most          int
	}{
		"a namespace with one key":         {100, "small/", "", Filter{}, []string{"small/one"}, 10},
		"the first of all":                 {2, "", "", Filter{}, []string{"big/00000", "big/00001"}, 10},
		"a page far behind":                {2, "", "big/39999", Filter{}, []string{"big/40000", "big/40001"}, 10},
		"the end of a namespace":           {100, "big/", "big/49998", Filter{}, []string{"big/49999"}, 10},
		"behind a namespace":               {100, "big/", "small", Filter{}, nil, 5},
		"two rare states":                  {100, "", "", Filter{States: []State{Retry, Ready}}, []string{"big/00007", "big/40000", "big/49999"}, 20},
		"what is not well":                 {100, "", "", Filter{NotOK: true}, []string{"big/00007", "big/49999"}, 20},
		"what is not well, in a namespace": {100, "small/", "", Filter{NotOK: true}, nil, 20},
		"states that are nowhere":          {100, "", "", Filter{States: []State{Parked, Held, Invalid, Suspended, Deleting}}, nil, 5},
	} {
		keys, cost := page(t, x, d, tt.limit, tt.prefix, tt.after, tt.of)
		if !slices.Equal(keys, tt.want) || cost > tt.most {
			t.Errorf("%s: %v, for which %d keys were copied or looked at, at most %d wanted", name, keys, cost, tt.most)
		}
	}
}

// TestPagesOfManyKeysThatAreDueAreOfOneList: it is not made for each page.
func TestPagesOfManyKeysThatAreDueAreOfOneList(t *testing.T) {
	x, d := manyDocuments(t)
	for _, key := range d.keys {
		x.Queue.Add(key, put, queue.Background)
	}
	ready := Filter{States: []State{Ready}}
	first, _ := page(t, x, d, 100, "", "", ready)
	keep(x)
	next, cost := page(t, x, d, 100, "", first[99], ready)
	if len(next) != 100 || next[0] != "big/00100" || cost > 110 {
		t.Errorf("the next page has %d keys from %s, for which %d were copied or looked at", len(next), next[0], cost)
	}
	if _, retry := page(t, x, d, 100, "", "", Filter{States: []State{Retry}}); retry > 0 {
		t.Errorf("none failed, and %d were looked at", retry)
	}
}

// keep keeps what is kept of many keys for an hour, however fast it was made.
func keep(x *Explainer) {
	for _, l := range x.Index.lists.by {
		l.keep(time.Hour)
	}
	for _, r := range x.Index.rankings.by {
		r.keep(time.Hour)
	}
}

func (k *kept[T]) keep(lasts time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.frees != nil {
		k.until = time.Now().Add(lasts)
	}
}

// TestAPageLooksOnceAtWhatHasLeft its list: the next page is not in its way again. The keys that were due first are
// those that the first page would show.
func TestAPageLooksOnceAtWhatHasLeft(t *testing.T) {
	x, d := manyDocuments(t)
	slices.Sort(d.keys)
	for _, key := range d.keys {
		x.Queue.Add(key, put, queue.Background)
	}
	ready := Filter{States: []State{Ready, Parked}}
	page(t, x, d, 1, "", "", ready)
	keep(x)
	for range 40_000 {
		it, _ := x.Queue.Get(t.Context())
		x.Queue.Done(it.Key)
	}
	if keys, cost := page(t, x, d, 50, "", "", ready); len(keys) != 50 || keys[0] != "big/40000" || cost > 40_100 {
		t.Errorf("%d keys, for which %d were copied or looked at", len(keys), cost)
	}
	for _, after := range []string{"", "big/20000", "big/39999"} {
		if keys, cost := page(t, x, d, 50, "", after, ready); len(keys) != 50 || keys[0] != "big/40000" || cost > 60 {
			t.Errorf("%d keys after %q, for which %d were copied or looked at", len(keys), after, cost)
		}
	}
}

// TestAPageOfARareStateDoesNotLookAtAllKeysEachTime, wherever keys in that state may be.
func TestAPageOfARareStateDoesNotLookAtAllKeysEachTime(t *testing.T) {
	x, d := manyDocuments(t)
	for _, key := range d.keys {
		switch key {
		case "big/30000", "big/30001":
		default:
			x.Queue.Add(key, put, queue.Background)
		}
		x.Keys.Change(key, func(s *keytable.State) { s.Failures = 1; s.Looping = key == "big/30001" })
	}
	x.Keys.Forget("big/30000")
	x.Queue.AddAfter("big/30001", put, queue.Background, time.Hour, queue.RetryDelay)
	for state, want := range map[State][]string{
		Calm: {"big/30000"}, Retry: {"big/30001"}, Looping: nil, Standby: nil, Unreconciled: nil, Requeue: nil,
	} {
		of := Filter{States: []State{state}}
		page(t, x, d, 50, "", "", of)
		keep(x)
		if keys, cost := page(t, x, d, 50, "", "", of); !slices.Equal(keys, want) || cost > 10 {
			t.Errorf("%s: %v, for which %d were copied or looked at, want %v", state, keys, cost, want)
		}
	}
}

// TestTheFirstInAnOrderCostWhatTheyShow, of many keys: entries are counted, not time. The queue has its keys in that
// order, and of any others a ranking is kept.
func TestTheFirstInAnOrderCostWhatTheyShow(t *testing.T) {
	for state, put50000 := range map[State]func(x *Explainer, key string){
		Ready: func(x *Explainer, key string) { x.Queue.Add(key, put, queue.Background) },
		Requeue: func(x *Explainer, key string) {
			x.Queue.AddAfter(key, put, queue.Background, time.Hour, queue.RequeueDelay)
		},
		Delayed: func(x *Explainer, key string) {
			x.Queue.AddAfter(key, put, queue.Background, time.Hour, queue.UserDelay)
		},
		Retry: func(x *Explainer, key string) {
			x.Keys.Change(key, func(s *keytable.State) { s.Failures++ })
			x.Queue.AddAfter(key, put, queue.Background, time.Hour, queue.RetryDelay)
		},
		Turn: func(x *Explainer, key string) {
			x.Keys.NoteAwaits(key, "Disk", false)
			x.Queue.AddAfter(key, put, queue.Background, time.Hour, queue.RetryDelay)
		},
		Calm: func(*Explainer, string) {},
		"":   func(x *Explainer, key string) { x.Keys.NoteAwaits(key, "Disk", true) },
	} {
		t.Run(cmp.Or(string(state), "any"), func(t *testing.T) {
			x, d := manyDocuments(t)
			for _, key := range d.keys {
				put50000(x, key)
			}
			states := []State{state, Parked}
			if state == "" {
				states = nil
			}
			for name, top := range map[string]func(n int, states ...State) []Explanation{
				"oldest": x.TopOldest, "failing": x.TopFailing,
			} {
				_, inOrder := aged[state]
				for call := range 3 {
					before := x.Index.visited.Load()
					first := top(10, states...)
					cost := x.Index.visited.Load() - before
					if len(first) != 10 || cost > 100 && (call > 0 || inOrder && name == "oldest") {
						t.Errorf("call %d: %d are the first, %s, for which %d were looked at", call, len(first), name, cost)
					}
					keep(x)
				}
			}
		})
	}
}

// TestTheFirstMayBeAll: a number of keys that is more than there can be asks for all of them.
func TestTheFirstMayBeAll(t *testing.T) {
	for _, keys := range []int{0, 3, 3 * fewKeys} {
		d := &documents{}
		x := explainer(t, d)
		for i := range keys {
			d.keys = append(d.keys, fmt.Sprintf("%05d", i))
			x.Queue.Add(d.keys[i], put, queue.Background)
		}
		for _, n := range []int{keys, keys + 1, math.MaxInt} {
			if all := x.TopOldest(n, Ready); len(all) != keys {
				t.Errorf("the first %d of %d are %d", n, keys, len(all))
			}
			if all := x.TopFailing(n); len(all) != keys {
				t.Errorf("the %d of %d that fail most are %d", n, keys, len(all))
			}
		}
	}
}

// TestARankingFollowsWhatItFinds: keys that have left it are not there, one with another rank is where that belongs, and
// neither is looked at in vain again.
func TestARankingFollowsWhatItFinds(t *testing.T) {
	x, d := manyDocuments(t)
	slices.Sort(d.keys)
	for _, key := range d.keys {
		x.Keys.NoteAwaits(key, "Disk", true)
	}
	oldest := func() (keys []string) {
		for _, e := range x.TopOldest(3, API) {
			keys = append(keys, e.Key)
		}
		return keys
	}
	if got, want := oldest(), d.keys[:3]; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	keep(x)
	for i, key := range d.keys[:30_000] {
		if x.Keys.Forget(key); i%2 == 0 {
			x.Keys.NoteAwaits(key, "Disk", true)
		}
	}
	for _, most := range []int64{30_010, 10} {
		before := x.Index.visited.Load()
		got, want := oldest(), d.keys[30_000:30_003]
		if cost := x.Index.visited.Load() - before; !slices.Equal(got, want) || cost > most {
			t.Errorf("%v, want %v; %d were looked at", got, want, cost)
		}
	}
	for _, key := range d.keys[30_000:] {
		x.Keys.Forget(key)
	}
	if got, want := oldest(), []string{d.keys[0], d.keys[2], d.keys[4]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAKeyThatRunsAtOneLookStaysInARanking of those that fail most: it fails again, and is where that belongs.
func TestAKeyThatRunsAtOneLookStaysInARanking(t *testing.T) {
	x, d := manyDocuments(t)
	for _, key := range d.keys {
		x.Keys.Change(key, func(s *keytable.State) { s.Failures++ })
		x.Queue.AddAfter(key, put, queue.Background, time.Hour, queue.RetryDelay)
	}
	first := func() (key string) {
		for _, e := range x.TopFailing(1, Retry) {
			key = e.Key
		}
		return key
	}
	runs, other := first(), ""
	keep(x)
	x.Queue.Add(runs, put, queue.Live)
	it, _ := x.Queue.Get(t.Context())
	for range 3 {
		if other = first(); other == runs {
			t.Fatalf("%s runs", runs)
		}
	}
	x.Keys.Change(runs, func(s *keytable.State) { s.Failures++ })
	x.Queue.AddAfter(runs, put, queue.Background, time.Hour, queue.RetryDelay)
	x.Queue.Done(it.Key)
	if got := first(); got != runs {
		t.Errorf("%s is the first, and %s fails more", got, runs)
	}
}

// TestKeysThatComeAndGoAreListedAtOnce, however many since the last page.
func TestKeysThatComeAndGoAreListedAtOnce(t *testing.T) {
	x, d := manyDocuments(t)
	d.gone = map[string]bool{}
	for i := range 3 * mostChanges {
		came, gone := fmt.Sprintf("big/%05d-more", i), fmt.Sprintf("big/%05d", i)
		d.gone[gone] = true
		x.Index.Note(x, came)
		x.Index.Note(x, gone)
		if i%mostChanges != 7 {
			continue
		}
		keys, cost := page(t, x, d, 2, "big/", fmt.Sprintf("big/%05d-", i), Filter{})
		if want := []string{came, fmt.Sprintf("big/%05d", i+1)}; !slices.Equal(keys, want) || cost > 10 {
			t.Errorf("%v, want %v; %d were looked at", keys, want, cost)
		}
	}
	if d.copied > 0 {
		t.Errorf("%d were copied", d.copied)
	}
}

// TestASetHasWhatWasPut, as a plain map has it, whenever it is read.
func TestASetHasWhatWasPut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s Set
	model := map[string]bool{}
	s.Load([]string{"0100", "0200"})
	model["0100"], model["0200"] = true, true
	for round := range 40 {
		for range random.IntN(2500) {
			key, in := fmt.Sprintf("%04d", random.IntN(3000)), random.IntN(2) == 0
			s.Put(key, in)
			if delete(model, key); in {
				model[key] = true
			}
		}
		var got []string
		for key := range merged(s.runs()) {
			got = append(got, key)
		}
		if want := slices.Sorted(maps.Keys(model)); !slices.Equal(got, want) {
			t.Fatalf("round %d: %d keys, want %d", round, len(got), len(want))
		}
	}
}

// TestWhatIsNotWellIsTold, and what only waits for its time is not.
func TestWhatIsNotWellIsTold(t *testing.T) {
	for _, state := range States {
		e := Explanation{State: state}
		if well := strings.Contains("unknown stopped starting standby running handling ready turn ownwrites requeue debounced "+
			"delayed arriving unreconciled calm elsewhere", string(state)); e.NotOK() == well {
			t.Errorf("%s: %v", state, errors.New("want the other"))
		}
	}
	if failing := (Explanation{State: Running, Failures: 3}); !failing.NotOK() {
		t.Error("an attempt that runs after others have failed is no success yet")
	}
}

// TestAKeyThatMovesBetweenTwoStatesIsOnceAmongTheFirst: it is due when those are looked at that are, and waits for a
// retry when those are that do. A key that is between the two is no reason to show it twice.
func TestAKeyThatMovesBetweenTwoStatesIsOnceAmongTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &documents{keys: []string{"a", "moves"}}
		x := explainer(t, d)
		fail := func(key string) {
			x.Keys.Change(key, func(s *keytable.State) { s.Failures++; s.Fails(fmt.Sprint("no ", s.Failures), false) })
			x.Queue.AddAfter(key, put, queue.Background, time.Hour, queue.RetryDelay)
		}
		x.Keys.Change("moves", func(s *keytable.State) { s.Failures = 1 })
		x.Queue.Add("moves", put, queue.Background)
		synctest.Wait()
		time.Sleep(time.Second)
		fail("a")
		time.Sleep(time.Second)
		x.TopOldest(1, Ready) // the index has looked at all keys
		d.looked = func(key string) {
			if key == "a" {
				d.looked = nil
				it, _ := x.Queue.Get(t.Context())
				x.Queue.Done(it.Key)
				fail(it.Key)
			}
		}
		var keys []string
		for _, e := range x.TopOldest(5, Ready, Retry) {
			keys = append(keys, e.Key)
		}
		if !slices.Equal(keys, []string{"moves", "a"}) {
			t.Errorf("%v", keys)
		}
		if d.looked != nil {
			t.Error("it has not moved")
		}
	})
}

// TestTheTopInAnOrderOfOursIsThatOfAnyOrder, and explains no others.
func TestTheTopInAnOrderOfOursIsThatOfAnyOrder(t *testing.T) {
	x, _ := manyDocuments(t)
	for n, key := range []string{"big/00003", "big/00001", "big/00002"} {
		x.Keys.Change(key, func(s *keytable.State) { s.Failures = n + 1 })
	}
	for _, n := range []int{0, 1, 2, 3, 5} {
		for name, top := range map[string][2][]Explanation{
			"failing": {x.TopFailing(n), Top(x.Each(""), n, MostFailingFirst)},
			"oldest":  {x.TopOldest(n), Top(x.Each(""), n, OldestFirst)},
		} {
			if !slices.EqualFunc(top[0], top[1], func(a, b Explanation) bool { return a.Key == b.Key && a.Says == b.Says }) {
				t.Errorf("the first %d, %s: %v, want %v", n, name, top[0], top[1])
			}
		}
	}
	if first := Top(x.Each(""), 2, nil); len(first) != 2 || first[0].Key != "big/00000" {
		t.Errorf("without an order: %v", first)
	}
}
