package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stuckTeardowns are those that failed twice or more in a row, but for the fault of the reconciler, and those that wait
// for what is being deleted. Few read the record of a document that is gone, so they show as degraded. One of them
// stands for all, and stays until it goes on.
type stuckTeardowns struct {
	count atomic.Int64 // of errs and held, so that others need no lock

	mu    sync.Mutex
	term  *Term // which they are of
	errs  map[string]error
	held  map[string]time.Time // since when something does not go; what does not for long has an error, too
	shown string
}

// heldPatience is for how long what a teardown deleted may stay before that is worth telling: a garbage collector takes
// most finalizers off within moments.
const heldPatience = time.Second

// noteStuck notes why a teardown fails; nil if it does not, or there is none.
func (r *RecordedLife) noteStuck(t *Term, key string, err error) {
	s := &r.stuck
	if err == nil && s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	s.ofLocked(r, t)
	if err == nil {
		delete(s.held, key) // else it was not looked at, and what held it does so for all that is known
	}
	s.setLocked(key, err)
	s.mu.Unlock()
	r.Health.Change(t.Ctx, "teardown", r.oneStuck)
}

// noteHeld notes for what a teardown waits. It reports whether it has waited for long enough to be told.
func (r *RecordedLife) noteHeld(t *Term, key string, held error) (told bool) {
	s := &r.stuck
	s.mu.Lock()
	s.ofLocked(r, t)
	since, before := s.held[key]
	if !before {
		since = time.Now()
		s.held[key] = since
	}
	if told = time.Since(since) >= heldPatience; !told {
		held = nil
	}
	s.setLocked(key, held)
	s.mu.Unlock()
	r.Health.Change(t.Ctx, "teardown", r.oneStuck)
	return told
}

// ofLocked forgets those of another term, and this term's when it ends.
func (s *stuckTeardowns) ofLocked(r *RecordedLife, t *Term) {
	if s.term != t {
		s.term, s.errs, s.held = t, map[string]error{}, map[string]time.Time{}
		context.AfterFunc(t.Ctx, func() { r.forgetStuck(t) })
	}
}

func (s *stuckTeardowns) setLocked(key string, err error) {
	if err == nil {
		delete(s.errs, key)
	} else {
		s.errs[key] = err
	}
	s.count.Store(int64(len(s.errs) + len(s.held)))
}

// annotateDeleting says in the record why a teardown does not go on, if there is one. The record stays what it is, an
// anchor.
func (r *RecordedLife) annotateDeleting(t *Term, key, reason string, why error) {
	anchor := r.Anchors.Cached(key)
	if !record.IsAnchor(anchor) {
		return
	}
	condition := record.Condition(metav1.ConditionFalse, reason, why.Error(), anchor.DocumentRevision)
	note := record.Note{Condition: condition, Deleting: true}
	if err := r.Anchors.Annotate(t.Ctx, key, source.View{}, note); err != nil && t.Ctx.Err() == nil {
		t.Logger.Error(err, "Cannot say in the record why the teardown does not go on; it is tried on", "key", key)
	}
}

// forgetStuck ends a term: another replica goes on.
func (r *RecordedLife) forgetStuck(t *Term) {
	s := &r.stuck
	s.mu.Lock()
	if s.term == t {
		s.term, s.errs, s.held = nil, nil, nil
		s.count.Store(0)
	}
	s.mu.Unlock()
	r.Health.Leave(t.Ctx, "teardown", r.oneStuck)
}

func (r *RecordedLife) oneStuck() error {
	s := &r.stuck
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, still := s.errs[s.shown]; !still {
		for s.shown = range s.errs {
			break
		}
	}
	if err := s.errs[s.shown]; err != nil {
		return fmt.Errorf("the teardown of %s %q, and maybe of others, does not go on: %w",
			r.Teardown.Kind, s.shown, err)
	}
	return nil
}
