package queue

import "time"

// Rate bounds how many keys are reconciled. The zero value does not.
type Rate struct {
	Every time.Duration // one key in each
	Burst int           // how many at once, after a time without any; at least 1
}

// rate is a token bucket over all keys. Its credit is time. Each hand-out pays for one reconcile, and is paid back if
// the key is not reconciled: Spend says that it is, and Refund, or Done, that it is not. So what keys are handed out
// for beside their reconcile costs nothing, and holds up no other key for longer than the rate does.
//
// The queue's lock guards it.
type rate struct {
	every, most time.Duration
	credit      time.Duration // at the time at
	at          time.Duration
	held        bool   // a worker waits for the rate, or did since the last hand-out
	waits       uint64 // how many hand-outs had to wait for it
	timer       timer  // wakes a worker when the next key may be handed out
}

func newRate(r Rate) *rate {
	if r.Every <= 0 {
		return nil
	}
	most := r.Every * time.Duration(max(r.Burst, 1))
	return &rate{every: r.Every, most: most, credit: most, timer: timer{index: -1, kind: rateDelay}}
}

// add adds what has come until now, and more.
func (r *rate) add(now, more time.Duration) {
	if passed := now - r.at; passed > 0 {
		more, r.at = more+min(passed, r.most), now
	}
	r.credit = min(r.most, r.credit+more)
}

// wait is how long no key may be handed out.
func (r *rate) wait(now time.Duration) time.Duration {
	r.add(now, 0)
	return max(0, r.every-r.credit)
}

// inRate tells whether the rate allows to hand out a key now. If not, a worker is woken when it does.
func (q *Queue) inRate() bool {
	if q.rate == nil {
		return true
	}
	now := q.now()
	wait := q.rate.wait(now)
	if wait == 0 {
		return true
	}
	q.rate.held = true
	if due := later(now, wait); q.rate.timer.index < 0 || q.rate.timer.due != due {
		q.timers.set(&q.rate.timer, due, now)
	}
	return false
}

// pay is for a key that is handed out. It wakes the worker that waits for the next one.
func (q *Queue) pay(e *entry) {
	if q.rate == nil {
		return
	}
	e.paid = true
	q.rate.credit -= q.rate.every
	if q.rate.held {
		q.rate.held = false
		q.rate.waits++
	}
	q.wakeForRate()
}

// Spend says that a key, which a worker has, is reconciled now. Without a rate it does nothing.
func (q *Queue) Spend(key string) {
	if q.rate == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil {
		e.paid = false
	}
}

// Refund says that a key, which a worker has, is not reconciled in this hand-out. Done says so, too; what takes time
// before Done is not to hold up others. Without a rate it does nothing.
func (q *Queue) Refund(key string) {
	if q.rate == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[key]; e != nil {
		q.refund(e)
	}
}

func (q *Queue) refund(e *entry) {
	if !e.paid {
		return
	}
	e.paid = false
	q.rate.add(q.now(), q.rate.every)
	q.wakeForRate()
}

func (q *Queue) wakeForRate() {
	if q.ready.len() > 0 {
		q.wake.Signal()
	}
}
