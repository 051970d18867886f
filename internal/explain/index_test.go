package explain

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
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
	next, cost := page(t, x, d, 100, "", first[99], ready)
	if len(next) != 100 || next[0] != "big/00100" || cost > 110 {
		t.Errorf("the next page has %d keys from %s, for which %d were copied or looked at", len(next), next[0], cost)
	}
	if _, retry := page(t, x, d, 100, "", "", Filter{States: []State{Retry}}); retry > 0 {
		t.Errorf("none failed, and %d were looked at", retry)
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
		if got, want := slices.Collect(merged(s.runs())), slices.Sorted(maps.Keys(model)); !slices.Equal(got, want) {
			t.Fatalf("round %d: %d keys, want %d", round, len(got), len(want))
		}
	}
}

// TestWhatIsNotWellIsTold, and what only waits for its time is not.
func TestWhatIsNotWellIsTold(t *testing.T) {
	for _, state := range States {
		e := Explanation{State: state}
		if well := strings.Contains("unknown stopped starting standby running handling ready turn ownwrites requeue debounced "+
			"delayed arriving unreconciled calm", string(state)); e.NotOK() == well {
			t.Errorf("%s: %v", state, errors.New("want the other"))
		}
	}
	if failing := (Explanation{State: Running, Failures: 3}); !failing.NotOK() {
		t.Error("an attempt that runs after others have failed is no success yet")
	}
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
