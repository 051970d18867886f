package apisource

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/notify"
)

const (
	// undeletedAnswers is how many Deletes of a resource have to answer success, each with a list after it that still
	// shows the resource, before that is the API's fault.
	undeletedAnswers = 3
	// undeletedFor is for how long at least. Delete may return before the resource is gone, and an API takes its time.
	undeletedFor = 15 * time.Second
)

// undeleted are the resources that the API has said it deleted and that its lists still show. The zero value is ready.
type undeleted struct {
	mu   sync.Mutex
	byID map[string]*answeredDelete
}

// answeredDelete is what is known of one resource.
type answeredDelete struct {
	owner    string
	begun    time.Time // when the first Delete answered
	last     time.Time // when the last one did
	answered int
	listed   int       // answers after which a list has shown the resource
	shown    time.Time // when the last list began that has shown it
}

// fault is the text of what the API does wrong; "" while it may only be slow.
func (d *answeredDelete) fault(id string) string {
	if d.listed < undeletedAnswers || d.shown.Sub(d.begun) < undeletedFor {
		return ""
	}
	// The count in the text doubles, so that what shows it is not written anew each time.
	return fmt.Sprintf("Delete of %q has answered success at least %d times since %s, and List still shows it: "+
		"look at the resource in the API; it is deleted again and again until no list shows it",
		id, 1<<(bits.Len(uint(d.listed))-1), d.begun.UTC().Format(time.RFC3339))
}

// answered notes that Delete of a resource has answered success.
func (u *undeleted) answered(resource external.Resource) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byID == nil {
		u.byID = map[string]*answeredDelete{}
	}
	d := u.byID[resource.ID]
	if d == nil || d.owner != resource.OwnerKey {
		d = &answeredDelete{owner: resource.OwnerKey, begun: time.Now()}
		u.byID[resource.ID] = d
	}
	d.answered, d.last = d.answered+1, time.Now()
}

// answeredAt is when the last Delete of a resource answered success; zero if none did.
func (u *undeleted) answeredAt(resource external.Resource) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if d := u.byID[resource.ID]; d != nil && d.owner == resource.OwnerKey {
		return d.last
	}
	return time.Time{}
}

// lookedAt compares with a list that began at this time.
func (u *undeleted) lookedAt(begun time.Time, settle time.Duration, owner func(id string) (string, bool)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, d := range u.byID {
		if now, listed := owner(id); !listed || now != d.owner {
			delete(u.byID, id)
		} else if begun.After(d.last.Add(settle)) {
			d.listed, d.shown = d.answered, begun
		}
	}
}

// forget forgets the resources of an owner. It reports whether there were any.
func (u *undeleted) forget(owner string) (any bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, d := range u.byID {
		if d.owner == owner {
			any = true
			delete(u.byID, id)
		}
	}
	return any
}

func (u *undeleted) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.byID)
}

// fault is the first fault by ID of an owner, or of any for ""; "" if there is none. more counts the others.
func (u *undeleted) fault(owner string) (text string, more int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var ids []string
	for id, d := range u.byID {
		if (owner == "" || d.owner == owner) && d.fault(id) != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", 0
	}
	first := slices.Min(ids)
	return u.byID[first].fault(first), len(ids) - 1
}

// undeletedErr is what the API of a source does wrong; nil for nothing. The reason does not change with the numbers.
func (s *Source) undeletedErr(owner string) error {
	text, more := s.undeleted.fault(owner)
	if text == "" {
		return nil
	}
	if more > 0 {
		text += fmt.Sprintf(" (and so with %d other resources)", more)
	}
	return notify.Because(s.kind+" is not deleted", fmt.Errorf("the API of %s: %s", s.kind, text))
}

// Undeleted says which resource of a key an API still shows that it says it has deleted; nil if there is none.
func (s *Set) Undeleted(key string) error {
	for _, each := range s.sources() {
		if err := each.undeletedErr(key); err != nil {
			return err
		}
	}
	return nil
}

// forgetUndeleted is told that the owner is no longer torn down.
func (s *Source) forgetUndeleted(owner string) {
	if s.undeleted.forget(owner) {
		s.shared.Changed(s.breaker.life, s)
	}
}
