package faults

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// fault is what happens to a step.
type fault string

const (
	crashBefore fault = "crash before it"             // the replica is gone, and its message was not sent
	crashAfter  fault = "crash after it"              // the stream has the message, and the replica is gone
	lostAck     fault = "lost acknowledgement"        // the stream has the message, and the replica is not told
	noRoom      fault = "refusal 10077"               // the stream is full
	exhausted   fault = "refusal 10023"               // the server is full
	noRights    fault = "no rights"                   // the server drops the message, and tells the connection only
	paused      fault = "pause longer than the lease" // no byte goes or comes before another replica does the step
	pausedLong  fault = "pause for a site's life"     // no byte goes or comes before others have torn a site down
	vanished    fault = "disappearance"               // the key is purged without a message, before the replica is told
)

// cell is one fault at one step.
type cell struct {
	step  step
	fault fault
	// lasts is for how long the fault happens at each message of this step; 0 is once.
	lasts time.Duration
	// later lets a first round pass without it.
	later bool
}

func (c cell) String() string {
	if c.lasts > 0 {
		return fmt.Sprintf("%s: %s for %v", c.step, c.fault, c.lasts)
	}
	if c.later {
		return fmt.Sprintf("%s: %s later", c.step, c.fault)
	}
	return fmt.Sprintf("%s: %s", c.step, c.fault)
}

// director lets the faults of a plan happen, one after the other, to whichever replica comes to the step.
type director struct {
	history *history
	purge   func(bucket, key string) error // by an operator
	crashed func(replica string)           // is told, and must not wait for the wire

	mu         sync.Mutex
	plan       []cell    // that have not happened yet
	busy       bool      // the first of the plan was sent, and its answer is awaited
	standing   cell      // that happens
	until      time.Time // that long
	holder     string    // the identity in the lease
	holdsLease string    // its replica
	rounds     int       // that the users have ended
	failed     []error
	held       int // pauses
	pauses     sync.WaitGroup
	ended      context.Context
	end        context.CancelFunc
}

func newDirector(h *history, plan []cell) *director {
	d := &director{history: h, plan: plan}
	d.ended, d.end = context.WithCancel(context.Background())
	return d
}

// meets says what happens to a message.
func (d *director) meets(m message) (c cell, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := stepOf(m, d.holder)
	if s == d.standing.step && time.Now().Before(d.until) {
		return d.standing, true
	}
	if d.busy || len(d.plan) == 0 || d.plan[0].step != s || d.plan[0].later && d.rounds == 0 {
		return cell{}, false
	}
	if d.held > 0 && (d.plan[0].fault == paused || d.plan[0].fault == pausedLong) {
		return cell{}, false // or nobody would do the step
	}
	d.busy = true
	return d.plan[0], true
}

// happened ends what meets began. If the stream refused the message by itself the fault is still to come.
func (d *director) happened(c cell, did bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.busy || c != d.plan[0] {
		return // a standing one
	}
	d.busy = false
	if !did {
		return
	}
	d.plan = d.plan[1:]
	if c.lasts > 0 {
		d.standing, d.until = c, time.Now().Add(c.lasts)
	}
}

// next is the fault that is still to come, and how many are; the one that lasts counts.
func (d *director) next() (c cell, left int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(d.plan) > 0:
		return d.plan[0], len(d.plan)
	case time.Now().Before(d.until):
		return d.standing, 1
	}
	return cell{}, 0
}

// lasts reports whether a fault happens at each message of its step.
func (d *director) lasts() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.until)
}

// stored notes what the stream has acknowledged.
func (d *director) stored(replica string, m message) {
	if m.bucket != statusBucket || m.key != leaseKey || m.marker {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holder, d.holdsLease = parseLease(m.value).Holder, replica
	if d.holder == "" {
		d.holdsLease = ""
	}
}

// holding is the replica that holds the lease; "" if none does.
func (d *director) holding() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holdsLease
}

func (d *director) vanish(m message) {
	if err := d.purge(m.bucket, m.key); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.failed = append(d.failed, fmt.Errorf("purge %s: %w", m.subject(), err))
	}
}

// longestHold bounds a pause in which no other replica does the step.
const longestHold = 20 * time.Second

func (d *director) roundsOver() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rounds
}

// roundOver notes that the users have ended a round.
func (d *director) roundOver() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rounds++
}

// holds reports whether there is a pause.
func (d *director) pausesOne() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held > 0
}

func (d *director) pause(more int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held += more
}

// hold stops the bytes of a wire until the lease has run out and another replica has written the key, or, if the pause
// is long, until a round is over that began after this one.
func (d *director) hold(w *wire, m message, long bool) {
	from, began, rounds := d.history.len(), time.Now(), d.roundsOver()
	w.hold()
	d.pause(1)
	over := func() bool {
		if long {
			return d.roundsOver() > rounds+1
		}
		return time.Since(began) > leaseDuration*3/2 && d.history.writtenBy(from, m, w.replica)
	}
	d.pauses.Go(func() {
		defer d.pause(-1)
		defer w.release()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-d.ended.Done():
				return
			case <-tick.C:
			}
			if over() || time.Since(began) > longestHold {
				return
			}
		}
	})
}

// close ends the pauses, and returns what went wrong.
func (d *director) close() []error {
	d.end()
	d.pauses.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}
