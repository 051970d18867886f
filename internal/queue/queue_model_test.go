package queue

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"pgregory.net/rapid"
)

// The model is the queue's specification, written down the slow and plain way: it
// searches all keys for each answer. The tests let both take the same random steps
// and compare all that can be seen after each.

// modelRun is one run of a key that is to come.
type modelRun struct {
	ops     operation.Operations
	prio    Priority
	added   time.Time // its first reason
	delayed bool
	kind    DelayKind // while delayed
	at      time.Time // while delayed: when it ends
	set     int       // while delayed: order of equal times
	began   int       // while delayed: in which order the delay of its kind began
	ready   int       // in which order it became ready; 0 if it is not
	placed  int       // in which order it got its place among its priority
	since   time.Time // when it became ready
}

type modelKey struct {
	next    *modelRun // due or delayed
	user    *modelRun // EnqueueAfter
	running bool
	taken   int // while running: in which order it was handed out
}

type model struct {
	quiet, maxHold time.Duration
	keys           map[string]*modelKey
	names          []string
	now            time.Time
	order          int
	handedOut      int

	group func(key string) string // nil: none
	turns map[modelLane]int       // of the lanes with keys, in which order their turns come
}

// modelLane is a lane of a group: of a priority, or by age.
type modelLane struct {
	group string
	byAge bool
	prio  Priority // not by age
}

const lowest Priority = math.MinInt32

func newModel(names []string, opts Options) *model {
	m := &model{quiet: opts.DebounceQuiet, maxHold: opts.DebounceMax, keys: map[string]*modelKey{}, names: names,
		now: time.Now(), group: opts.Group, turns: map[modelLane]int{}}
	for _, name := range names {
		m.keys[name] = &modelKey{}
	}
	return m
}

func (m *model) turn() int { m.order++; return m.order }

func (m *model) add(key string, ops operation.Operations, prio Priority) {
	k := m.keys[key]
	live := prio > Background && ops&operation.ByHand == 0
	if m.quiet == 0 || !live || k.next != nil && !k.next.delayed {
		m.happen(key, ops, prio)
		return
	}
	if k.next == nil {
		k.next = &modelRun{prio: lowest, added: m.now, delayed: true, kind: quietDelay, began: m.turn()}
	}
	if k.next.kind != quietDelay {
		k.next.ops &^= opRetry | opRequeue
		k.next.added, k.next.kind, k.next.began = m.now, quietDelay, m.turn()
	}
	k.next.ops, k.next.prio = operation.Union(k.next.ops, ops), max(k.next.prio, prio)
	k.next.set, k.next.at = m.turn(), m.now.Add(m.quiet)
	if latest := k.next.added.Add(m.maxHold); latest.Before(k.next.at) {
		k.next.at = latest
	}
}

// happen is something that makes the next run due now.
func (m *model) happen(key string, ops operation.Operations, prio Priority) {
	k := m.keys[key]
	if k.next == nil {
		k.next = &modelRun{prio: lowest, added: m.now, delayed: true, kind: RequeueDelay}
	}
	run := k.next
	if run.delayed && run.kind != quietDelay {
		run.ops &^= opRetry | opRequeue
		run.added = m.now
	}
	becomesDue, raised := run.delayed, prio > run.prio
	run.ops, run.prio, run.delayed = operation.Union(run.ops, ops), max(run.prio, prio), false
	switch {
	case k.running:
	case becomesDue:
		m.makeReady(run)
	case raised:
		run.placed = m.turn()
	}
	m.lanes()
}

func (m *model) lane(key string, prio Priority, byAge bool) modelLane {
	l := modelLane{byAge: byAge, prio: prio}
	if byAge {
		l.prio = 0
	}
	if m.group != nil {
		l.group = m.group(key)
	}
	return l
}

// lanes begins the lanes that have keys now, behind the others, and ends those that have none.
func (m *model) lanes() {
	now := map[modelLane]bool{}
	for _, name := range m.names {
		if m.isReady(name) {
			for _, byAge := range []bool{false, true} {
				l := m.lane(name, m.keys[name].next.prio, byAge)
				if now[l] = true; m.turns[l] == 0 {
					m.turns[l] = m.turn()
				}
			}
		}
	}
	maps.DeleteFunc(m.turns, func(l modelLane, _ int) bool { return !now[l] })
}

func (m *model) makeReady(run *modelRun) {
	run.ready = m.turn()
	run.placed, run.since = run.ready, m.now
}

func (m *model) addAfter(key string, ops operation.Operations, prio Priority, d time.Duration, kind DelayKind) {
	k := m.keys[key]
	if kind == UserDelay {
		if d <= 0 {
			m.happen(key, ops, prio)
			return
		}
		m.delay(&k.user, ops, prio, d, kind)
		return
	}
	if k.next != nil && (!k.next.delayed || k.next.kind == quietDelay) {
		k.next.ops = operation.Union(ops&^(opRetry|opRequeue), k.next.ops)
		if prio > k.next.prio {
			k.next.prio = prio
			k.next.placed = m.turn()
			m.lanes()
		}
		return
	}
	if d > 0 {
		m.delay(&k.next, ops, prio, d, kind)
		return
	}
	if k.next != nil {
		ops, prio = operation.Union(k.next.ops, ops), max(k.next.prio, prio)
	}
	k.next = nil
	m.happen(key, ops, prio)
}

func (m *model) delay(run **modelRun, ops operation.Operations, prio Priority, d time.Duration, kind DelayKind) {
	at := m.now.Add(d)
	if *run == nil {
		*run = &modelRun{prio: lowest, delayed: true, kind: kind, at: at, set: m.turn(), began: m.turn()}
	}
	(*run).ops, (*run).prio = operation.Union((*run).ops, ops), max((*run).prio, prio)
	if at.Before((*run).at) {
		(*run).at, (*run).set = at, m.turn()
	}
}

// advance lets the delays end one after the other.
func (m *model) advance(d time.Duration) {
	end := m.now.Add(d)
	for {
		key, run := m.firstDelay()
		if run == nil || run.at.After(end) {
			m.now = end
			return
		}
		m.now = run.at
		k := m.keys[key]
		switch {
		case run == k.user:
			k.user = nil
		case run.kind != quietDelay:
			k.next = nil
		}
		m.happen(key, run.ops, run.prio)
	}
}

func (m *model) firstDelay() (key string, first *modelRun) {
	for _, name := range m.names {
		for _, run := range []*modelRun{m.keys[name].next, m.keys[name].user} {
			if run == nil || !run.delayed {
				continue
			}
			if first == nil || run.at.Before(first.at) || run.at.Equal(first.at) && run.set < first.set {
				key, first = name, run
			}
		}
	}
	return key, first
}

func (m *model) isReady(name string) bool {
	k := m.keys[name]
	return k.next != nil && !k.next.delayed && !k.running
}

// get returns the key that goes next; one must be ready.
func (m *model) get() (string, modelRun) {
	m.handedOut++
	best := ""
	for _, name := range m.names {
		if !m.isReady(name) {
			continue
		}
		if best == "" || m.before(name, best) {
			best = name
		}
	}
	run := *m.keys[best].next
	m.turns[m.lane(best, run.prio, m.handedOut%8 == 0)] = m.turn()
	m.keys[best].next, m.keys[best].running, m.keys[best].taken = nil, true, m.turn()
	m.lanes()
	return best, run
}

func (m *model) before(keyA, keyB string) bool {
	a, b, byAge := m.keys[keyA].next, m.keys[keyB].next, m.handedOut%8 == 0
	if !byAge && a.prio != b.prio {
		return a.prio > b.prio
	}
	if a, b := m.turns[m.lane(keyA, a.prio, byAge)], m.turns[m.lane(keyB, b.prio, byAge)]; a != b {
		return a < b
	}
	if byAge {
		return a.ready < b.ready
	}
	return a.placed < b.placed
}

func (m *model) done(key string) {
	k := m.keys[key]
	k.running = false
	if k.next != nil && !k.next.delayed {
		m.makeReady(k.next)
		m.lanes()
	}
}

func (m *model) drop(key string) {
	k := m.keys[key]
	k.user = nil
	if k.next != nil && k.next.delayed && k.next.kind != quietDelay {
		k.next = nil
	}
}

func (m *model) counts() Counts {
	var c Counts
	oldest := 0
	for l := range m.turns {
		if m.group != nil && l.byAge {
			c.Groups++
		}
	}
	for _, name := range m.names {
		k := m.keys[name]
		if m.isReady(name) {
			c.Ready[k.next.prio.Band()]++
			if oldest == 0 || k.next.ready < oldest {
				oldest, c.Oldest = k.next.ready, m.now.Sub(k.next.since)
			}
		}
		if k.running {
			c.InProgress++
			if k.next != nil && !k.next.delayed {
				c.Rerun++
			}
		}
		if k.next != nil && k.next.delayed {
			c.Delayed++
		}
		if k.user != nil {
			c.Delayed++
		}
	}
	return c
}

// oldest are the keys of a class, the one that is in it for longest first.
func (m *model) oldest(c Class) (keys []string) {
	since := map[string]int{}
	for _, name := range m.names {
		k := m.keys[name]
		delayed := func(kind DelayKind) bool { return k.next != nil && k.next.delayed && k.next.kind == kind }
		switch {
		case c == InHand && k.running:
			since[name] = k.taken
		case c == Ready && m.isReady(name):
			since[name] = k.next.ready
		case c == Quiet && delayed(quietDelay), c == Requeued && delayed(RequeueDelay):
			since[name] = k.next.began
		case c == ByUser && k.user != nil:
			since[name] = k.user.began
		}
	}
	return slices.SortedFunc(maps.Keys(since), func(a, b string) int { return since[a] - since[b] })
}

func (m *model) remembered() int {
	n := 0
	for _, k := range m.keys {
		if k.next != nil || k.user != nil || k.running {
			n++
		}
	}
	return n
}

func (m *model) inProgress() []string {
	var running []string
	for _, name := range m.names {
		if m.keys[name].running {
			running = append(running, name)
		}
	}
	return running
}

// fataler is what *testing.T and *rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// comparison takes random steps with both; choose(n) draws from 0 to n-1.
type comparison struct {
	queue  *Queue
	model  *model
	choose func(n int) int
	tally  map[string]int
}

var modelPriorities = []Priority{Background, Secondary, Live, Background, Secondary, Live, -200, -50, -1, 7, 1 << 30}

var modelReasons = []operation.Operations{
	1 << operation.Put, 1 << operation.Delete, 1 << operation.Delete, 1 << operation.Purge, 1 << operation.Secondary,
	1 << operation.External, 1 << operation.Resync, 1 << operation.Retry, 1 << operation.Requeue,
	1<<operation.Manual | operation.ByHand,
}

func (c *comparison) step(t fataler) {
	t.Helper()
	key := c.model.names[c.choose(len(c.model.names))]
	ops := modelReasons[c.choose(len(modelReasons))]
	prio := modelPriorities[c.choose(len(modelPriorities))]
	what := "add"
	switch c.choose(10) {
	case 0, 1, 2:
		c.queue.Add(key, ops, prio)
		c.model.add(key, ops, prio)
	case 3, 4:
		what = "addAfter"
		d, kind := time.Duration(c.choose(50)-2)*time.Millisecond, DelayKind(c.choose(3))
		c.queue.AddAfter(key, ops, prio, d, kind)
		c.model.addAfter(key, ops, prio, d, kind)
	case 5, 6:
		what = "get"
		c.get(t)
	case 7:
		what = "done"
		if running := c.model.inProgress(); len(running) > 0 {
			key = running[c.choose(len(running))]
			c.queue.Done(key)
			c.model.done(key)
		}
	case 8:
		if c.choose(10) > 0 {
			break
		}
		what = "drop"
		c.queue.CancelDelays(key)
		c.model.drop(key)
	case 9:
		what = "advance"
		d := time.Duration(c.choose(20)) * time.Millisecond
		advance(d)
		c.model.advance(d)
	}
	c.tally[what]++
	c.compare(t, what, key)
}

func (c *comparison) get(t fataler) {
	t.Helper()
	if c.queue.depth() == 0 {
		return
	}
	key, run := c.model.get()
	want := Item{Key: key, Ops: run.ops, Prio: run.prio, Added: run.added}
	got, ok := c.queue.Get(context.Background())
	if !ok || got.Key != want.Key || got.Ops != want.Ops || got.Prio != want.Prio || !got.Added.Equal(want.Added) {
		t.Fatalf("hand-out %d (shutdown %v):\n got %+v\nwant %+v", c.model.handedOut, !ok, got, want)
	}
}

func (c *comparison) compare(t fataler, what, key string) {
	t.Helper()
	if got, want := c.queue.Counts(), c.model.counts(); got != want {
		t.Fatalf("after %s of %s:\n got %+v\nwant %+v", what, key, got, want)
	}
	var want operation.Operations
	if next := c.model.keys[key].next; next != nil {
		want = next.ops
	}
	if got := c.queue.Pending(key); got != want {
		t.Fatalf("after %s of %s: pending %s, want %s", what, key, got, want)
	}
	if got, want := len(c.queue.entries), c.model.remembered(); got != want {
		t.Fatalf("after %s of %s: remembers %d keys, want %d", what, key, got, want)
	}
	for class := range AnyClass {
		most := c.choose(len(c.model.names) + 2)
		got, all := c.queue.Oldest(class, most)
		want := c.model.oldest(class)
		first := want[:min(len(want), most)]
		if wantAll := len(want) <= most; all != wantAll || !c.sameOrder(class, got, first) {
			t.Fatalf("after %s of %s: the oldest %d of class %d: %v, all: %v; want of %v", what, key, most, class, got,
				all, want)
		}
		if got := c.queue.KeysIn(class); !c.sameOrder(class, got, want) {
			t.Fatalf("after %s of %s: in class %d: %v, want %v", what, key, class, got, want)
		}
	}
}

// sameOrder tells whether these are the same keys in the same order. With groups those that became ready at one time
// may be in any.
func (c *comparison) sameOrder(class Class, got, want []string) bool {
	if class != Ready || c.model.group == nil {
		return slices.Equal(got, want)
	}
	return slices.EqualFunc(got, want, func(a, b string) bool {
		return c.model.isReady(a) && c.model.keys[a].next.since.Equal(c.model.keys[b].next.since)
	}) && len(slices.Compact(slices.Sorted(slices.Values(got)))) == len(got)
}

func modelNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("key-%d", i)
	}
	return names
}

func modelOptions(t *testing.T, test func(t *testing.T, opts Options)) {
	t.Run("plain", func(t *testing.T) { test(t, Options{}) })
	t.Run("debounced", func(t *testing.T) {
		test(t, Options{DebounceQuiet: 7 * time.Millisecond, DebounceMax: 25 * time.Millisecond})
	})
	t.Run("in groups", func(t *testing.T) {
		test(t, Options{Group: func(key string) string { return strconv.Itoa(int(key[len(key)-1]) % 3) }})
	})
}

func TestQueueDoesWhatTheModelDoes(t *testing.T) {
	modelOptions(t, func(t *testing.T, opts Options) {
		synctest.Test(t, func(t *testing.T) {
			// Wrapped, because rapid asks a *testing.T for its deadline, which a bubble forbids.
			rapid.Check(struct{ *testing.T }{t}, func(rt *rapid.T) {
				c := comparison{
					queue:  New(opts),
					model:  newModel(modelNames(5), opts),
					choose: func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "choice") },
					tally:  map[string]int{},
				}
				defer c.queue.ShutDown()
				for range 200 {
					c.step(rt)
				}
			})
		})
	})
}

func TestDepthAndCountersAreExactAfterManyOperations(t *testing.T) { compareLong(t, 50_000) }

func TestSoakDepthAndCountersAreExactAfterAMillionOperations(t *testing.T) { compareLong(t, 500_000) }

// compareLong lets queue and model take the same steps, and works off what is left: then the queue is empty.
func compareLong(t *testing.T, steps int) {
	const seed = 20260101
	modelOptions(t, func(t *testing.T, opts Options) {
		synctest.Test(t, func(t *testing.T) {
			c := comparison{
				queue:  New(opts),
				model:  newModel(modelNames(16), opts),
				choose: rand.New(rand.NewPCG(seed, seed)).IntN,
				tally:  map[string]int{},
			}
			for range steps {
				c.step(t)
			}
			for _, key := range c.model.inProgress() { // work it all off
				c.queue.Done(key)
				c.model.done(key)
			}
			advance(time.Second)
			c.model.advance(time.Second)
			for c.queue.depth() > 0 {
				c.get(t)
				for _, key := range c.model.inProgress() {
					c.queue.Done(key)
					c.model.done(key)
				}
			}
			requireEmpty(t, c.queue)
			c.queue.ShutDown()
			t.Log(c.tally)
		})
	})
}
