package apisource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/external"
)

// returnPatience is how long a call may take to return after its context has ended before it counts as hung. A client
// that heeds its context needs far less.
const returnPatience = time.Second

// calls are the calls of the API that ignore their contexts. Nothing can end such a call but the client itself. Until
// it returns, no second List begins, nor another reconcile of its key: the first may still have its effect. The zero
// value is ready.
type calls struct {
	mu   sync.Mutex
	hung []*call
}

// call is one call of a client or a driver.
type call struct {
	name     string // List, Delete, …
	begun    time.Time
	patience *time.Timer // runs once the context has ended; nil before
	returned bool
}

// hungError says that a call ignores its context.
type hungError struct {
	kind    string
	call    *call
	timeout time.Duration
}

func (h *hungError) Error() string {
	return fmt.Sprintf("%s of %s has not returned since %s and ignores its context, which ended after %v at the "+
		"latest (Timeout of external.Config): keys that need the API wait, the others go on; if the API answers "+
		"others, restart this replica alone to end the call, and let the client heed its context",
		h.call.name, h.kind, h.call.begun.UTC().Format(time.RFC3339), h.timeout)
}

// follow notices if a call does not return when its context ends. The caller calls returned when it has.
func (s *Source) follow(limited context.Context, name string) (returned func()) {
	c := &call{name: name, begun: time.Now()}
	stop := context.AfterFunc(limited, func() {
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		if !c.returned {
			c.patience = time.AfterFunc(returnPatience, func() { s.hangs(c) })
		}
	})
	return func() {
		if !stop() {
			s.hangsNoMore(c)
		}
	}
}

func (s *Source) hangs(c *call) {
	s.calls.mu.Lock()
	hung := !c.returned
	if hung {
		s.calls.hung = append(s.calls.hung, c)
	}
	s.calls.mu.Unlock()
	switch life := s.breaker.life; {
	case !hung || life.Err() != nil: // who stops the source waits for the call, and names it
	case c.name == callList:
		s.breaker.pollFailed(s.hungErr(c)) // as one that fails when its time is over
	default:
		s.shared.Changed(life, s)
	}
}

func (s *Source) hangsNoMore(c *call) {
	s.calls.mu.Lock()
	c.returned = true
	if c.patience != nil {
		c.patience.Stop()
	}
	before := len(s.calls.hung)
	s.calls.hung = slices.DeleteFunc(s.calls.hung, func(other *call) bool { return other == c })
	hung := len(s.calls.hung) < before
	s.calls.mu.Unlock()
	if life := s.breaker.life; hung && life.Err() == nil && c.name != callList { // else its result tells
		s.shared.Changed(life, s)
	}
}

func (s *Source) hungErr(c *call) error {
	return &hungError{kind: s.kind, call: c, timeout: s.config.Timeout}
}

// firstHung is nil if none of these calls hangs.
func (s *Source) firstHung(of func(*call) bool) error {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	i := slices.IndexFunc(s.calls.hung, of)
	if i < 0 {
		return nil
	}
	return fmt.Errorf("the API of %s: %w", s.kind, s.hungErr(s.calls.hung[i]))
}

func isList(c *call) bool   { return c.name == callList }
func isNoList(c *call) bool { return !isList(c) }

// The names of the calls that this package makes itself. The others are those of package external.
const (
	callList, callDelete, callWatch = "List", "Delete", "Watch"
)

// nameOf is the name of the call that a gate is entered for.
func nameOf(ctx context.Context) string {
	if name := external.CallFrom(ctx); name != "" {
		return name
	}
	return "a call"
}

// Hung names the calls of the API that have not returned though their contexts have ended; "" if there are none.
func (s *Source) Hung() string { return namesOf(s.hungNames()) }

// Hung is that of all sources, also of those that were taken out.
func (s *Set) Hung() string {
	s.mu.Lock()
	all := slices.Concat(s.sources(), s.goes)
	s.mu.Unlock()
	var names []string
	for _, each := range all {
		names = append(names, each.hungNames()...)
	}
	return namesOf(names)
}

func (s *Source) hungNames() (names []string) {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	for _, c := range s.calls.hung {
		names = append(names, c.name+" of "+s.kind)
	}
	return names
}

// namesOf lists names, each once.
func namesOf(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
