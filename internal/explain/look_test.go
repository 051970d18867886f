package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/running"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// documents are primaries that all exist, at revision 5. meanwhile is called at each look.
type documents struct {
	keys      []string
	meanwhile func()
	looked    func(key string)
	copied    int // how many keys were copied
	gone      map[string]bool
}

func (d *documents) View(key string) source.View {
	if d.looked != nil {
		d.looked(key)
	}
	if d.meanwhile != nil {
		d.meanwhile()
	}
	if d.gone[key] {
		return source.View{}
	}
	return source.View{Presence: source.Present, Revision: 5, Object: &metav1.ObjectMeta{}}
}
func (d *documents) Keys() []string {
	d.copied += len(d.keys)
	return slices.Clone(d.keys)
}
func (d *documents) InvalidKeys() []string { return nil }
func (d *documents) StreamID() string      { return "" }

// explainer explains keys of a controller without records.
func explainer(t *testing.T, d *documents) *Explainer {
	q := queue.New(queue.Options{})
	t.Cleanup(q.ShutDown)
	return &Explainer{
		Queue: q, Keys: &keytable.Table{}, Running: &running.Table{}, Primary: d, APIs: &apisource.Set{},
		WellFormed: func(string) bool { return true }, Lead: func() Lead { return leading },
		Problems: func() map[string]error { return nil }, Index: &Index{},
	}
}

// TestAKeyThatMovesBetweenTwoRoomsIsLookedAtAgain: the queue is asked before it runs and fails, the table after that or
// before, and no answer mixes them.
func TestAKeyThatMovesBetweenTwoRoomsIsLookedAtAgain(t *testing.T) {
	d := &documents{}
	x := explainer(t, d)
	x.Queue.Add("home", put, queue.Live)
	d.meanwhile = func() {
		d.meanwhile = nil
		it, _ := x.Queue.Get(context.Background())
		x.Keys.Change(it.Key, func(s *keytable.State) {
			s.Failures++
			s.Fails("no rights", false)
		})
		x.Queue.AddAfter(it.Key, operation.Of(operation.Retry), queue.Background, time.Hour, queue.RetryDelay)
		x.Queue.Done(it.Key)
	}
	if e := x.Explain("home"); e.State != Retry || e.Failures != 1 || e.DueAt.IsZero() || !e.ReadySince.IsZero() {
		t.Errorf("explained as %+v", e)
	}
}

func TestAKeyThatNeverStandsStillIsExplainedAllTheSame(t *testing.T) {
	d := &documents{}
	x := explainer(t, d)
	looks := 0
	d.meanwhile = func() {
		looks++
		x.Keys.Change("home", func(s *keytable.State) { s.Failures++ })
	}
	if e := x.Explain("home"); e.State == "" || looks > mostLooks+1 {
		t.Errorf("after %d looks: %+v", looks, e)
	}
}

// TestManyKeysAreExplainedWithoutALock: who iterates may do whatever they like with the controller, and pages go on
// where the last has ended.
func TestManyKeysAreExplainedWithoutALock(t *testing.T) {
	const n = 100_000
	d := &documents{}
	x := explainer(t, d)
	for i := range n {
		key := fmt.Sprintf("site-%06d", i)
		d.keys = append(d.keys, key)
		if i%2 == 0 {
			x.Queue.Add(key, put, queue.Background)
		}
	}
	ready, last := 0, ""
	for e := range x.Each("", Ready) {
		if ready++; e.Key <= last {
			t.Fatalf("%s after %s", e.Key, last)
		}
		last = e.Key
		x.Keys.Change(e.Key, func(s *keytable.State) { s.Failures = 1 }) // any of these would wait for a lock for ever
		x.Queue.Add("new-"+e.Key, put, queue.Live)
	}
	if ready != n/2 {
		t.Errorf("%d keys are ready, want %d", ready, n/2)
	}
	var page []string
	for e := range x.Each("site-099996", Ready, Calm) {
		page = append(page, e.Key+" "+string(e.State))
	}
	if want := []string{"site-099997 calm", "site-099998 ready", "site-099999 calm"}; !slices.Equal(page, want) {
		t.Errorf("the last page is %v, want %v", page, want)
	}
}

// TestOnlyWhatMayBeSeenIsExplained, however rare the state is; and nothing for somebody who has gone.
func TestOnlyWhatMayBeSeenIsExplained(t *testing.T) {
	d := &documents{}
	x := explainer(t, d)
	for i := range 1000 {
		d.keys = append(d.keys, fmt.Sprintf("bank/%03d", i), fmt.Sprintf("zoo/%03d", i))
	}
	d.keys = append(d.keys, "shop/a", "shop/b", "shop")
	x.Index.begin(x)
	looks := 0
	d.meanwhile = func() { looks++ }
	for e := range x.Within(t.Context(), "shop/", "", Parked, Calm) {
		if !strings.HasPrefix(e.Key, "shop/") {
			t.Errorf("%s is in no shop", e.Key)
		}
	}
	if looks != 2*3 { // one says that it may be in the state
		t.Errorf("%d looks at two keys", looks)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks = 0
	d.meanwhile = func() {
		looks++
		cancel()
	}
	for e := range x.Within(ctx, "", "", Standby) {
		t.Errorf("%s is on a standby", e.Key)
	}
	if looks != 1 {
		t.Errorf("%d looks for somebody who has gone", looks)
	}
}

// TestKeysAreLookedForWhereTheyCanBe: a key that waits in the table alone is found by its state.
func TestKeysAreLookedForWhereTheyCanBe(t *testing.T) {
	x := explainer(t, &documents{keys: []string{"api", "calm"}})
	x.Keys.NoteAwaits("api", "Disk", true)
	for _, states := range [][]State{{API}, {API, Parked}, {API, Retry}} {
		var keys []string
		for e := range x.Each("", states...) {
			keys = append(keys, e.Key)
		}
		if !slices.Equal(keys, []string{"api"}) {
			t.Errorf("%v: %v", states, keys)
		}
	}
}

// TestPagesHaveEachMalformedKeyOnce: they are shown as text, and whoever goes on knows nothing else of them.
func TestPagesHaveEachMalformedKeyOnce(t *testing.T) {
	long := strings.Repeat("z", 10_000)
	x := explainer(t, &documents{keys: []string{"b", "\x01", "a\n", "a\\", "~\x7f", long, "home", "\xff", "é\x00"}})
	x.WellFormed = func(key string) bool { return key == "b" || key == "home" }
	var all, pages []string
	for e := range x.Each("") {
		all = append(all, e.Key)
	}
	for after, more := "", true; more && len(pages) < 20; {
		more = false
		for e := range x.Each(after) {
			pages = append(pages, e.Key)
			after, more = e.Key, true
			break
		}
	}
	if len(all) != 9 || !slices.Equal(pages, all) || !slices.IsSorted(all) {
		t.Errorf("the pages have %q, all are %q", pages, all)
	}
}

// TestAMalformedKeyThatIsGoneIsForgotten: who writes and deletes made-up keys fills no memory, and pages go on to have
// those that are left.
func TestAMalformedKeyThatIsGoneIsForgotten(t *testing.T) {
	d := &documents{keys: []string{"stays\x01", "goes\x01"}, gone: map[string]bool{}}
	x := explainer(t, d)
	x.WellFormed = func(string) bool { return false }
	listed := func() (keys []string) {
		for e := range x.Each("") {
			keys = append(keys, e.Key)
		}
		return keys
	}
	if n := len(listed()); n != 2 {
		t.Fatalf("%d are listed", n)
	}
	for i := range 100 {
		key := fmt.Sprint(i, "\x01")
		x.Index.Note(x, key)
		if n := len(listed()); n != 3 {
			t.Fatalf("%d are listed", n)
		}
		d.gone[key] = true
		x.Index.Note(x, key)
	}
	d.gone["goes\x01"] = true
	x.Index.Note(x, "goes\x01")
	if all := listed(); len(all) != 1 || len(x.Index.malformed.keys) != 1 {
		t.Errorf("listed are %q, and %d are kept", all, len(x.Index.malformed.keys))
	}
	if key, ok := x.Index.malformed.get(listed()[0]); !ok || key != "stays\x01" {
		t.Errorf("it is %q", key)
	}
}

// TestAnAnswerIsTheCallersOwn: what it says of an invalid document is no part of a cache.
func TestAnAnswerIsTheCallersOwn(t *testing.T) {
	f := facts{
		view:   source.View{Presence: source.Present, Revision: 5},
		record: &entity.Record{Invalid: &entity.InvalidDocument{Revision: 5, Reason: "too large"}},
	}
	var e Explanation
	f.addTrouble(&e, "")
	e.Invalid.Reason = "changed"
	if got := f.record.Invalid.Reason; got != "too large" {
		t.Errorf("the record says %q", got)
	}
}

// BenchmarkExplain is the cost of one answer.
func BenchmarkExplain(b *testing.B) {
	d := &documents{}
	q := queue.New(queue.Options{})
	defer q.ShutDown()
	x := &Explainer{
		Queue: q, Keys: &keytable.Table{}, Running: &running.Table{}, Primary: d, APIs: &apisource.Set{},
		WellFormed: func(string) bool { return true }, Lead: func() Lead { return leading },
		Problems: func() map[string]error { return nil },
	}
	x.Queue.Add("home", put, queue.Live)
	b.ReportAllocs()
	for b.Loop() {
		x.Explain("home")
	}
}
