package worlds

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// What happens where replicas share the keys, beside all else.
const (
	join      deed = "one replica more"
	leave     deed = "a replica stops for a while"
	kill      deed = "a crash, and no start for a while"
	lateViews deed = "views late, by 1 to 50 ms a message"
	oldViews  deed = "views stand still"
)

// The steps of members.
const (
	memberJoins  step = "member joins"
	memberRenews step = "member renews"
	memberLeaves step = "member leaves"
	memberGone   step = "member gone"
	slotGiven    step = "slot given"
	slotTaken    step = "slot taken"
)

var sharingSteps = []step{memberJoins, memberRenews, memberLeaves, memberGone, slotGiven, slotTaken}

// Sharing is the plan with replicas that share the keys, which are divided into so many slots. What it has besides does
// not change: replicas join, leave and are killed, their views of members are late, and acknowledgements are lost as a
// lease is renewed and a slot is given or taken.
func (p Plan) Sharing(slots int) Plan {
	p.Shards = slots
	r := p.Dice("sharing")
	events := append([]Event(nil), p.Events...)
	for at := between(r, 5*time.Second, 30*time.Second); at < p.Length; at += between(r, 15*time.Second, 45*time.Second) {
		e := Event{
			At: at, Do: pick(r, join, leave, kill, lateViews, oldViews, paused), For: between(r, time.Second, 40*time.Second),
			Who: r.IntN(p.Replicas), Dice: r.Uint64(),
		}
		events = append(events, e)
	}
	if r.IntN(2) == 0 { // nobody ever sees what is, but what was
		for i := range p.Replicas {
			events = append(events, Event{At: 5 * time.Second, Do: lateViews, For: p.Length, Who: i, Dice: r.Uint64()})
		}
	}
	for _, s := range sharingSteps {
		for range 2 {
			events = append(events, Event{
				At: between(r, 0, p.Length), Step: s, When: after, Do: lostAcks, Who: Doer, Dice: r.Uint64(),
			})
		}
		for range 2 {
			e := Event{
				At: between(r, 0, p.Length), Step: s, When: pick(r, before, after), Do: pick(r, faults()...), Who: Doer,
				For: between(r, time.Second, 40*time.Second), Dice: r.Uint64(),
			}
			if e.Do == serverRestarts && !p.File {
				e.Do = cut
			}
			if !about[e.Do].lasts {
				e.For = 0
			}
			events = append(events, e)
		}
	}
	sortEvents(events)
	p.Events = events
	return p
}

// viewing is how late a replica is shown what streams store.
type viewing struct {
	late  int       // how many events make each message late
	still time.Time // nothing is shown before
	last  time.Time // when the last message arrives
	dice  *rand.Rand
}

// latestView is how late a view may be in all, where each message is late: beyond, no consumer would seem to be alive.
const latestView = time.Second

// lateView says how late a message arrives that shows what a stream has stored, or that there is nothing more. All of
// these keep their order. x.mu is held.
func (x *wire) lateView(m *natstest.Message) natstest.Fate {
	if !isNews(m) && (m.Direction != natstest.FromServer || !strings.HasPrefix(m.Request, "$JS.API.CONSUMER.MSG.NEXT.")) {
		return natstest.Fate{}
	}
	v, now := &x.views, time.Now()
	at := later(now, later(v.still, v.last))
	if v.late > 0 && at.Sub(now) < latestView {
		at = at.Add(between(v.dice, time.Millisecond, 50*time.Millisecond))
	}
	v.last = at
	return natstest.Fate{Late: at.Sub(now)}
}

// seesLate has all that shows a replica what streams store be late, until ctx ends.
func (x *wire) seesLate(ctx context.Context, lasts time.Duration, r *rand.Rand) {
	x.mu.Lock()
	x.views.late++
	x.views.dice = r
	x.mu.Unlock()
	sleep(ctx, lasts)
	x.mu.Lock()
	x.views.late = max(x.views.late-1, 0)
	x.mu.Unlock()
}

// seesNothing has nothing that shows a replica what streams store arrive for a while.
func (x *wire) seesNothing(lasts time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.views.still = time.Now().Add(lasts)
}

// oneMore starts a replica, which stops after a while.
func (w *world) oneMore(ctx context.Context, lasts time.Duration) {
	if len(w.living()) > w.plan.Replicas+1 {
		return
	}
	p := w.launch(context.Background())
	sleep(ctx, lasts)
	if len(w.living()) > w.plan.Replicas && p.gone.CompareAndSwap(false, true) {
		p.end(false)
	}
}

// loseOneInCalm kills a replica while nothing else happens: others have to take its slots in time.
func (w *world) loseOneInCalm() {
	living := w.living()
	p := living[w.plan.Dice("calm").IntN(len(living))]
	if len(living) > 1 && p.gone.CompareAndSwap(false, true) {
		w.note("world", "%s is killed", p.Name)
		p.end(true)
		sleep(context.Background(), longestLease+latest+time.Second)
		w.launch(context.Background())
	}
}

// memberLocked names a process among those that share the keys. In half of the nights a replica that starts has the name
// of one that has ended, as a pod of a StatefulSet has.
func (w *world) memberLocked(process string) string {
	if w.members[process] != "" {
		return w.members[process]
	}
	name := process
	if w.plan.Dice("names").IntN(2) == 0 {
		used := slices.Collect(maps.Values(w.members))
		for i := 0; slices.Contains(used, name) || name == process; i++ {
			name = fmt.Sprint("m", i)
		}
	}
	w.members[process] = name
	return name
}

// clockOf is how far the clock of a replica is off, from its start to its end.
func (p Plan) clockOf(process string) time.Duration {
	if p.Shards == 0 {
		return 0
	}
	return pick(p.Dice("clock", process), 0, 0, time.Hour, -time.Hour, 20*time.Second)
}
