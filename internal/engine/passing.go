package engine

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// passed is a key that was made due by hand at a member that does not work at it, or all keys with a prefix.
type passed struct {
	N      uint64               `json:"n"` // of one member they grow
	Key    string               `json:"key,omitempty"`
	All    bool                 `json:"all,omitempty"`
	Prefix string               `json:"prefix,omitempty"`
	Ops    operation.Operations `json:"ops"`
}

func (p passed) long() int { return len(p.Key) + len(p.Prefix) }

// passing has what others are told of, and what they have told. What is said is a state: it stays until each other
// member has said that it heard of it, or has lost its lease. Who gains a slot looks at all its keys anyway.
type passing struct {
	lasts time.Duration // how long each is said

	mu      sync.Mutex
	last    uint64
	waiting []passed
	queued  map[passed]bool // those that wait, without their N
	says    []saidUntil
	heard   map[string]uint64 // the highest N of others, by member
}

type saidUntil struct {
	passed
	until time.Time
}

const (
	// mostPassed is how many keys and prefixes are told at once, and longestPassed how long they are, in bytes.
	mostPassed    = 200
	longestPassed = 32 << 10
	// mostWaiting is how many may wait for that. Beyond, all keys are made due.
	mostWaiting = 20_000
)

// pass tells the others of a key, or of all with a prefix.
func (p *passing) pass(what passed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queued[what] {
		return
	}
	if len(p.waiting) >= mostWaiting {
		all := passed{All: true, Ops: what.Ops}
		for _, w := range p.waiting {
			all.Ops |= w.Ops
		}
		p.waiting, p.queued, what = nil, nil, all
	}
	if p.queued == nil {
		p.queued = map[passed]bool{}
	}
	p.queued[what] = true
	p.last++
	what.N = p.last
	p.waiting = append(p.waiting, what)
}

// acknowledged is told up to which N each other member has heard: what all have is said no more.
func (p *passing) acknowledged(upTo []uint64) {
	if len(upTo) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Min(upTo)
	for len(p.says) > 0 && p.says[0].N <= all {
		p.says = p.says[1:]
	}
}

// hears is what this member has heard, by member; nil if nothing.
func (p *passing) hears() map[string]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.heard)
}

// now returns what is to be said now.
func (p *passing) now() (all []passed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.says) > 0 && !now.Before(p.says[0].until) {
		p.says = p.says[1:]
	}
	long := 0
	for _, s := range p.says {
		all, long = append(all, s.passed), long+s.long()
	}
	for len(all) < mostPassed && long < longestPassed && len(p.waiting) > 0 {
		next := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.says = append(p.says, saidUntil{next, now.Add(p.lasts)})
		all, long = append(all, next), long+next.long()
		next.N = 0
		delete(p.queued, next)
	}
	return all
}

// any reports whether something is said, or waits for that.
func (p *passing) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.says)+len(p.waiting) > 0
}

// news are those of what a member says that it had not said before.
func (p *passing) news(member string, says []passed) (news []passed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range says {
		if one.N > p.heard[member] {
			news = append(news, one)
		}
	}
	if len(says) > 0 {
		if p.heard == nil {
			p.heard = map[string]uint64{}
		}
		p.heard[member] = max(p.heard[member], says[len(says)-1].N)
	}
	return news
}

// forget forgets members that are gone.
func (p *passing) forget(here func(member string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for member := range p.heard {
		if !here(member) {
			delete(p.heard, member)
		}
	}
}

// pass tells the others of a key that a worker has taken and that is not this member's, if somebody asked for it here.
func (s *sharing) pass(it queue.Item) {
	if it.Ops&operation.Anywhere != 0 {
		s.passing.pass(passed{Key: it.Key, Ops: it.Ops &^ operation.Anywhere})
		notifyOf(s.changed)
	}
}

// EnqueueEverywhere is EnqueueAll of the keys with a prefix, also of those at which other replicas work.
func (e *Engine) EnqueueEverywhere(ops operation.Operations, prefix string) (n int) {
	if e.sharing != nil {
		e.sharing.passing.pass(passed{All: true, Prefix: prefix, Ops: ops})
		notifyOf(e.sharing.changed)
	}
	return e.enqueuePrefix(ops, prefix)
}

func (e *Engine) enqueuePrefix(ops operation.Operations, prefix string) (n int) {
	return e.EnqueueAll(ops, func(key string) bool { return strings.HasPrefix(key, prefix) })
}

// takePassed makes due what another member was asked for.
func (t *talk) takePassed(member string, says []passed) {
	for _, one := range t.passing.news(member, says) {
		if one.All {
			t.enqueuePrefix(one.Ops, one.Prefix)
		} else {
			t.queue.Add(one.Key, one.Ops, queue.Live)
		}
	}
}
