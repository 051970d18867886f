package worlds

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fabricated is a world in which nothing runs.
func fabricated() *world {
	return &world{
		subject: sites(nil, Plan{}), begin: time.Now().Add(-time.Hour), model: map[string]existence{},
		running: map[string]attempt{}, mood: map[deed]int{}, identity: map[string]string{}, owners: map[string]string{},
		taken: map[string]time.Time{}, starts: map[string]time.Time{}, writers: map[string]string{},
		lives: map[string]string{}, members: map[string]string{}, ends: map[string]time.Time{}, touched: map[string]bool{},
	}
}

func (w *world) rules() (all []Rule) {
	for _, b := range w.broken {
		all = append(all, b.Rule)
	}
	return all
}

func (w *world) wants(t *testing.T, rules ...Rule) {
	t.Helper()
	if !slices.Equal(w.rules(), rules) {
		t.Errorf("broken: %v, want %v", w.broken, rules)
	}
}

const aPage = `{"metadata":{"annotations":{"kumori/ownerkey":"k1"}}}`

func TestWhatAnOwnerWantsIsKept(t *testing.T) {
	const long, short = time.Minute, time.Second
	one, two := []byte(`{"spec":{"title":"t","pages":1}}`), []byte(`{"spec":{"title":"t","pages":2}}`)
	for name, test := range map[string]struct {
		owner existence
		key   string
		want  []Rule
	}{
		"its owner is there":              {existence{exists, time.Now().Add(-long), two}, "k1.1", []Rule{KeepsOwned}},
		"its owner is there since now":    {existence{exists, time.Now().Add(-short), two}, "k1.1", nil},
		"its owner does not want it":      {existence{exists, time.Now().Add(-long), one}, "k1.1", nil},
		"its owner is gone":               {existence{gone, time.Now().Add(-long), nil}, "k1.1", nil},
		"whether its owner is is unknown": {existence{unknown, time.Now().Add(-long), nil}, "k1.1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := fabricated()
			w.model["k1"] = test.owner
			w.sends("r1", message{bucket: "pages", key: test.key, value: []byte(aPage)})
			w.sends("r1", message{bucket: "pages", key: test.key, marker: true})
			w.wants(t, test.want...)
		})
	}
}

// TestWhatASaboteurTakesAwayIsNoLostWrite: a delete of another right after an own write is the newer one.
func TestWhatASaboteurTakesAwayIsNoLostWrite(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "k1.0")
	wrote := func(w *world) { w.sends("r1", message{bucket: "pages", key: "k1.0", value: []byte(aPage)}) }
	for name, test := range map[string]struct {
		tale []func(*world)
		err  error
		want []Rule
	}{
		"it was not taken":      {[]func(*world){wrote}, notFound, []Rule{OwnWrites}},
		"it was taken since":    {[]func(*world){wrote, func(w *world) { w.takesAway("k1.0") }}, notFound, nil},
		"it was taken before":   {[]func(*world){func(w *world) { w.takesAway("k1.0") }, wrote}, notFound, []Rule{OwnWrites}},
		"another was taken":     {[]func(*world){wrote, func(w *world) { w.takesAway("k1.1") }}, notFound, []Rule{OwnWrites}},
		"an older one is shown": {[]func(*world){wrote, func(w *world) { w.takesAway("k1.0") }}, nil, []Rule{OwnWrites}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fabricated()
				for _, step := range test.tale {
					step(w)
					time.Sleep(time.Millisecond)
				}
				(&Process{Name: "r1", world: w}).ReadsBack("k1.0", 7, 5, test.err)
				w.wants(t, test.want...)
			})
		})
	}
}

func TestWritesAreInTerms(t *testing.T) {
	const one, two = "host_1", "host_2"
	write := func(at time.Duration, by string) func(w *world) {
		return func(w *world) {
			w.writes = append(w.writes, write{w.begin.Add(at), by, message{bucket: "sites-status", key: "k1"}})
		}
	}
	lease := func(at time.Duration, identity string) func(w *world) {
		return func(w *world) { w.holds(tenure{w.begin.Add(at), identity, true}) }
	}
	found := func(at time.Duration, identity string) func(w *world) { // after it was not known who has it
		return func(w *world) { w.holder = append(w.holder, tenure{w.begin.Add(at), identity, true}) }
	}
	lost := func(at time.Duration) func(w *world) {
		return func(w *world) { w.holds(tenure{since: w.begin.Add(at)}) }
	}
	for name, test := range map[string]struct {
		tale []func(*world)
		want []Rule
	}{
		"by the holder":                {[]func(*world){lease(1, one), write(2, "r1")}, nil},
		"by another":                   {[]func(*world){lease(1, one), write(2, "r2")}, []Rule{InTerm}},
		"after a hand-over":            {[]func(*world){lease(1, one), lease(3, two), write(4, "r1")}, []Rule{InTerm}},
		"as it is handed over":         {[]func(*world){lease(1, one), lease(3, two), write(3, "r1"), write(3, "r2")}, nil},
		"of a lease that is free":      {[]func(*world){lease(1, one), lease(3, ""), write(4, "r1")}, []Rule{InTerm}},
		"of a lease that is not known": {[]func(*world){lease(1, one), lost(3), write(4, "r2")}, nil},
		"before there is one":          {[]func(*world){write(1, "r1"), lease(2, one)}, nil},
		"as an unknown one is freed":   {[]func(*world){lost(1), found(3, ""), write(3, "r1")}, nil},
		"after an unknown one":         {[]func(*world){lost(1), found(3, ""), write(4, "r1")}, []Rule{InTerm}},
	} {
		t.Run(name, func(t *testing.T) {
			w := fabricated()
			w.identity[one], w.identity[two] = "r1", "r2"
			for _, step := range test.tale {
				step(w)
			}
			w.holdTerms()
			w.wants(t, test.want...)
		})
	}
}

// TestWhatOnlyASweepFindsIsJudgedAfterOne: sweeps come as often as the resync.
func TestWhatOnlyASweepFindsIsJudgedAfterOne(t *testing.T) {
	for name, test := range map[string]struct {
		do     deed
		resync time.Duration
		want   bool
	}{
		"no record goes":                  {put, 10 * time.Minute, true},
		"a record goes":                   {noRecord, 10 * time.Minute, false},
		"records go":                      {noRecords, 10 * time.Minute, false},
		"records are restored":            {backupRecords, 10 * time.Minute, false},
		"what is owned is restored":       {backup, 10 * time.Minute, false},
		"what is owned goes":              {noOwned, 10 * time.Minute, true},
		"documents go":                    {noDocs, 10 * time.Minute, true},
		"documents are restored":          {backupDocs, 10 * time.Minute, true},
		"a record goes, and it was swept": {noRecord, time.Minute, true},
	} {
		w := fabricated()
		w.plan, w.calm = Plan{Resync: test.resync, Events: []Event{{Do: test.do}}}, time.Now().Add(-5*time.Minute)
		if got := w.wasSwept(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOneAttemptAtATime(t *testing.T) {
	w := fabricated()
	ctx, cancel := context.WithCancel(t.Context())
	_, end := w.begins(ctx, "r1", controller.Request{Key: "k1"})
	_, endOther := w.begins(t.Context(), "r2", controller.Request{Key: "k2"})
	w.wants(t)
	_, endSecond := w.begins(t.Context(), "r2", controller.Request{Key: "k1"})
	w.wants(t, OneAttempt)
	end(nil)
	endSecond(nil)
	endOther(nil)
	_, _ = w.begins(ctx, "r1", controller.Request{Key: "k1"})
	cancel()
	_, _ = w.begins(t.Context(), "r2", controller.Request{Key: "k1"}) // the first is deaf, and its term is over
	w.wants(t, OneAttempt)
}

// TestAFirstStartOnAnEmptyServerMeetsALeader: only the replica that starts after it came back, and for as long as the
// lease lasts.
func TestAFirstStartOnAnEmptyServerMeetsALeader(t *testing.T) {
	for name, test := range map[string]struct {
		emptied, started time.Duration // before now; 0: no server came back empty
		broken           []Rule
	}{
		"right after it came back":  {10 * time.Second, 9 * time.Second, nil},
		"before it came back":       {10 * time.Second, 11 * time.Second, []Rule{OneAttempt}},
		"where its streams are old": {15 * time.Second, 14 * time.Second, []Rule{OneAttempt}},
		"where no server was empty": {0, 9 * time.Second, []Rule{OneAttempt}},
	} {
		for _, starts := range []string{"r1", "r2"} { // before the other's attempt, and after it
			t.Run(name+" "+starts, func(t *testing.T) {
				w := fabricated()
				now := time.Now()
				if test.emptied > 0 {
					w.emptied = now.Add(-test.emptied)
				}
				w.starts = map[string]time.Time{"r1": now.Add(-time.Hour), "r2": now.Add(-time.Hour)}
				w.starts[starts] = now.Add(-test.started)
				_, _ = w.begins(t.Context(), "r1", controller.Request{Key: "k1"})
				_, _ = w.begins(t.Context(), "r2", controller.Request{Key: "k1"})
				w.wants(t, test.broken...)
			})
		}
	}
}

// TestAReplicaThatARestoredLeaseNamesMeetsALeader: that one alone, and for as long as the lease lasts.
func TestAReplicaThatARestoredLeaseNamesMeetsALeader(t *testing.T) {
	for name, test := range map[string]struct {
		revived revived
		broken  []Rule
	}{
		"one of both":  {revived{"r1", time.Now().Add(-10 * time.Second)}, nil},
		"the other":    {revived{"r2", time.Now().Add(-10 * time.Second)}, nil},
		"a third":      {revived{"r3", time.Now().Add(-10 * time.Second)}, []Rule{OneAttempt}},
		"long ago":     {revived{"r1", time.Now().Add(-15 * time.Second)}, []Rule{OneAttempt}},
		"nothing was":  {revived{}, []Rule{OneAttempt}},
		"a free lease": {revived{"", time.Now()}, []Rule{OneAttempt}},
	} {
		t.Run(name, func(t *testing.T) {
			w := fabricated()
			w.revived = test.revived
			_, _ = w.begins(t.Context(), "r1", controller.Request{Key: "k1"})
			_, _ = w.begins(t.Context(), "r2", controller.Request{Key: "k1"})
			w.wants(t, test.broken...)
		})
	}
}

func TestRecordsDoNotGoBack(t *testing.T) {
	record := func(revision, observed uint64, stream string) Document {
		return Document{fmt.Appendf(nil, `{"observedRevision":%d,"stream":%q}`, observed, stream), revision}
	}
	w := fabricated()
	w.holdOrder("k1", Document{}, record(1, 5, "a"))
	w.holdOrder("k1", record(1, 5, "a"), record(2, 5, "a"))
	w.holdOrder("k1", record(2, 5, "a"), record(3, 2, "b")) // another stream of documents
	w.holdOrder("k1", record(3, 5, "a"), record(2, 4, "a")) // a backup of records
	w.wants(t)
	w.holdOrder("k1", record(2, 5, "a"), record(3, 4, "a"))
	w.wants(t, InOrder)
}

// TestANightTellsABrokenRuleWithAShortPlan: the subject wants no document k0.
func TestANightTellsABrokenRuleWithAShortPlan(t *testing.T) {
	p := Plan{
		Seed: 1, Replicas: 2, Workers: 1, Keys: 2, Resync: time.Minute, Compare: 30 * time.Second,
		Length: 20 * time.Second,
	}
	for i, do := range []deed{cut, put, put, lostAcks} {
		at := time.Duration(i+1) * 2 * time.Second
		p.Events = append(p.Events, Event{At: at, Do: do, Key: p.Key(i / 2), Dice: uint64(i)})
	}
	picky := func(t *testing.T, p Plan) Subject {
		s := sites(t, p)
		s.Agrees = func(s Snapshot) (wrong, left []string) {
			if _, there := s.Primaries["k0"]; there {
				return []string{"k0 is there"}, nil
			}
			return nil, nil
		}
		return s
	}
	broken, lines := play(t, picky, p)
	if len(broken) == 0 || broken[0].Rule != Settled {
		t.Fatalf("broken: %v, want %s", broken, Settled)
	}
	p, broken, _ = reduce(t, picky, p, broken, lines, 20)
	if len(p.Events) != 1 || p.Events[0].Do != put || p.Events[0].Key != "k0" || broken[0].Rule != Settled {
		t.Errorf("reduced to %v%v, want one put of k0", p, broken)
	}
}

// TestANightEndsThoughTheServerLosesASealedStream: no stream can be made with the configuration of a sealed one.
func TestANightEndsThoughTheServerLosesASealedStream(t *testing.T) {
	p := Plan{
		Seed: 1, Replicas: 2, Workers: 1, Keys: 2, File: true, Resync: time.Minute, Compare: 30 * time.Second,
		Length: 30 * time.Second,
		Events: []Event{
			{At: 2 * time.Second, Do: put, Key: "k0"},
			{At: 4 * time.Second, Do: sealed, For: 20 * time.Second},
			{At: 8 * time.Second, Do: empty, For: 4 * time.Second},
		},
	}
	if broken, _ := play(t, sites, p); len(broken) != 0 {
		t.Errorf("broken: %v", broken)
	}
}

func TestASeedMakesOnePlan(t *testing.T) {
	if one, again := PlanOf(7).String(), PlanOf(7).String(); one != again {
		t.Errorf("two plans of one seed:\n%s\n%s", one, again)
	}
	met := map[deed]bool{}
	for seed := range uint64(300) {
		for _, e := range PlanOf(seed).Sharing(16).Events {
			met[e.Do] = true
		}
	}
	for d := range about {
		if !met[d] {
			t.Errorf("no plan of 300 has %q", d)
		}
	}
}

func TestEachDeedComesBeforeAndAfterEachStep(t *testing.T) {
	met := map[occasion]bool{}
	for seed := range uint64(500) {
		for _, e := range PlanOf(seed).Events {
			met[occasion{e.Step, e.When, e.Do}] = true
		}
	}
	for _, o := range occasions() {
		if !met[o] {
			t.Errorf("no plan of 500 has %q %s the step %q", o.do, o.when, o.step)
		}
	}
}
