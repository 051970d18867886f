package worlds

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/shards"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// step is a durable step of a replica: a message that a stream keeps.
type step string

// The steps, in the order of a replica's life and a document's.
const (
	claim          step = "claim"            // the status bucket is this controller's
	installation   step = "installation"     // the id of the installation is made
	leaseTaken     step = "lease taken"      // a term begins
	leaseRenewed   step = "lease renewed"    // a term goes on
	streamKept     step = "stream kept"      // the brake keeps which stream the documents were in, and how far
	recordWritten  step = "record"           // a delete cannot be lost from now on, nor what the record says besides
	ownedWritten   step = "owned object"     // the reconciler creates or updates what it owns
	statusWritten  step = "status"           // the reconciler's UpdateStatus
	outcomeWritten step = "outcome"          // the revision is reconciled
	cascaded       step = "cascade"          // something is deleted whose owner is gone, or does not want it
	recordGone     step = "record gone"      // the teardown is over
	leaseGivenBack step = "lease given back" // a replica stops
)

var steps = []step{
	claim, installation, leaseTaken, leaseRenewed, streamKept, recordWritten, ownedWritten, statusWritten, outcomeWritten,
	cascaded, recordGone, leaseGivenBack,
}

// moment is on which side of its step an event happens.
type moment string

const (
	before moment = "before" // the server has not got the message
	after  moment = "after"  // the stream has the message, and the replica has no answer yet
)

// stepper knows what steps the messages of replicas are, and which events wait for which.
type stepper struct {
	subject Subject
	begin   time.Time
	waiting []Event                  // have a step, and have not happened yet
	holder  string                   // the identity in the lease
	records map[string]entity.Record // as they were sent last
	lives   map[string]string        // replica, by the id of a member
	asked   map[string]place         // by the subject of the answer that is awaited
	met     map[step]int             // how often each step was acknowledged
}

// place is where an event happens: whose message it is, and of which key.
type place struct {
	step        step
	by          string
	bucket, key string
	holder      string // the identity in the lease, if it is a lease
}

func newStepper(s Subject, p Plan, begin time.Time) *stepper {
	return &stepper{
		subject: s, begin: begin, waiting: p.atSteps(), records: map[string]entity.Record{}, asked: map[string]place{},
		met: map[step]int{}, lives: map[string]string{},
	}
}

// sent is told of a message before the server has it, and returns what is to happen before.
func (s *stepper) sent(by string, m message, answer string) (place, []Event) {
	at := place{step: s.stepOf(by, m), by: by, bucket: m.bucket, key: m.key}
	if m.bucket == s.subject.status() && m.key == leaseKey {
		at.holder = holderOf(m.value)
	}
	if at.step == "" {
		return at, nil
	}
	if answer != "" {
		s.asked[answer] = at
	}
	return at, s.due(at.step, before)
}

// answered is told of an answer before the replica has it, and returns what is to happen before, but after the step.
func (s *stepper) answered(answer string, data []byte) (place, []Event) {
	at, ok := s.asked[answer]
	if !ok {
		return place{}, nil
	}
	delete(s.asked, answer)
	if bytes.Contains(data, []byte(`"error"`)) {
		return at, nil
	}
	if at.key == leaseKey && at.bucket == s.subject.status() {
		s.holder = at.holder
	}
	s.met[at.step]++
	return at, s.due(at.step, after)
}

// due takes what waits for a moment.
func (s *stepper) due(at step, when moment) (due []Event) {
	left := s.waiting[:0]
	for _, e := range s.waiting {
		if e.Step != at || e.When != when || time.Since(s.begin) < e.At {
			left = append(left, e)
			continue
		}
		due = append(due, e)
	}
	s.waiting = left
	return due
}

// stepOf names the step that a replica's message is, or "".
func (s *stepper) stepOf(by string, m message) step {
	switch {
	case m.bucket == s.subject.status() && strings.HasPrefix(m.key, sharesKey):
		return s.sharingStep(by, m)
	case m.bucket == s.subject.status() && strings.HasPrefix(m.key, "_nagi."):
		return s.reservedStep(m)
	case m.bucket == s.subject.status() && m.marker:
		return recordGone
	case m.bucket == s.subject.status():
		return s.recordStep(m)
	case m.bucket == s.subject.Primaries:
		return ""
	case m.marker:
		return cascaded
	}
	return ownedWritten
}

func (s *stepper) reservedStep(m message) step {
	if m.marker {
		return ""
	}
	switch m.key {
	case "_nagi.controller":
		return claim
	case "_nagi.instance":
		return installation
	case "_nagi.stream":
		return streamKept
	case leaseKey:
		switch holderOf(m.value) {
		case "":
			return leaseGivenBack
		case s.holder:
			return leaseRenewed
		}
		return leaseTaken
	}
	return ""
}

// sharingStep names the step of a member's message.
func (s *stepper) sharingStep(by string, m message) step {
	if id, ok := strings.CutPrefix(m.key, membersKey); ok {
		var says shards.Member
		_ = json.Unmarshal(m.value, &says)
		known := s.lives[id] != ""
		s.lives[id] = by
		switch {
		case m.marker:
			return memberGone
		case says.Leaving:
			return memberLeaves
		case known:
			return memberRenews
		}
		return memberJoins
	}
	if s.lives[ownerOfSlot(m.value)] == by {
		return slotTaken
	}
	return slotGiven
}

// recordStep tells the writes of a record apart: one that ends a reconcile says so of the document's revision, and one of
// a status changes it.
func (s *stepper) recordStep(m message) step {
	r, last := recordOf(Document{Value: m.value}), s.records[m.key]
	s.records[m.key] = r
	for _, c := range r.Conditions {
		if c.Type == entity.ConditionReconciled && uint64(c.ObservedGeneration) == r.DocumentRevision {
			return outcomeWritten
		}
	}
	if len(r.Status) > 0 && !bytes.Equal(r.Status, last.Status) {
		return statusWritten
	}
	return recordWritten
}

// aroundStep is how long a message waits for what happens at its step. It is long enough, since only time passes while
// nothing else can be done.
const aroundStep = time.Millisecond

// steps shows the world a message, lets happen what is due at its step, and returns when that has begun.
func (x *wire) steps(m *natstest.Message) {
	w := x.world
	w.mu.Lock()
	var at place
	var due []Event
	if m.Direction == natstest.ToServer {
		if bucket, key, ok := bucketAndKey(m.Subject); ok && w.isOurs(bucket) {
			at, due = w.stepper.sent(x.name, messageOf(bucket, key, m), m.Reply)
		}
	} else if m.Request != "" {
		at, due = w.stepper.answered(m.Subject, m.Data)
	}
	begun := false
	for _, e := range due {
		begun = w.strikeLocked(e, at) || begun
	}
	w.mu.Unlock()
	if begun {
		sleep(context.Background(), aroundStep) // no message passes the wire meanwhile
	}
}

// strikeLocked lets an event happen at a step, unless the night's faults are over.
func (w *world) strikeLocked(e Event, at place) bool {
	if w.over {
		return false
	}
	w.events.Go(func() { w.does(w.faults, e, at) })
	return true
}
