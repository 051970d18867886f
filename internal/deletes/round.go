package deletes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Round are the deletes of one primary's objects, which rest on one ground: it is gone, or it is there at a revision.
// They may take long, and the document may be put back or changed meanwhile: from then on nothing more goes. A round is
// for one goroutine.
type Round struct {
	guard     *Guard
	key       string
	wants     bool // the primary is there, at this revision
	revision  uint64
	brake     Brake
	asked     time.Time // the leader
	contested bool
}

// Key is that of the primary.
func (r *Round) Key() string { return r.key }

// Ends reports whether an error of [Round.Delete] or [Round.Still] is about the whole round.
func Ends(err error) bool {
	_, ends := errors.AsType[*endError](err)
	return ends
}

// End is an error that [Ends] a round.
func End(err error) error { return &endError{err} }

// endError is why nothing more of a round goes.
type endError struct{ err error }

func (e *endError) Error() string { return e.err.Error() }
func (e *endError) Unwrap() error { return e.err }

// Delete deletes an object as it was seen, if the guard lets it go. The error says why it stays: [ErrHeld], or one of
// the source. After one that [Ends] the round nothing more of it goes.
func (r *Round) Delete(ctx context.Context, s Source, obj metav1.Object) error {
	if err := r.Still(ctx); err != nil {
		return err
	}
	if err := r.guard.Outdated(s); err != nil {
		return err
	}
	claim := r.guard.config.Claim().In(s)
	if !claim.Owns(obj, r.key) || !entity.IsOwnedBy(obj, claim.Kind, r.key) {
		return fmt.Errorf("%s: it is not certain that the object is that of %s %q", s, r.guard.config.Kind, r.key)
	}
	if !r.brake(ctx, s, obj) {
		return ErrHeld
	}
	if !r.contested {
		r.contested = true
		r.guard.config.Contest(r.key)
	}
	return s.Remove(ctx, Permit{obj})
}

// Still is nil while the round may go on. It asks the cache, and the leader if its last answer is old. The error is
// ErrDocumentReturned or ErrAnotherRevision if the primary is not what it was.
func (r *Round) Still(ctx context.Context) error {
	if err := r.still(ctx); err != nil {
		return End(err)
	}
	return nil
}

func (r *Round) still(ctx context.Context) error {
	if err := r.guard.config.Leads(ctx); err != nil {
		return err
	}
	if err := r.InCache(); err != nil {
		return err
	}
	now := time.Now()
	if now.Sub(r.asked) < LeaderTrusted {
		return nil
	}
	err := r.confirm(ctx)
	if err == nil {
		r.asked = now
	}
	return err
}

// InCache is Still as far as the cache knows.
func (r *Round) InCache() error {
	if !r.wants {
		if r.guard.config.Primaries.Exists(r.key) {
			return ErrDocumentReturned
		}
		return nil
	}
	if revision, ok := r.guard.config.Primaries.Decoded(r.key); !ok || revision != r.revision {
		return ErrAnotherRevision
	}
	return nil
}

func (r *Round) confirm(ctx context.Context) error {
	if !r.wants {
		_, err := r.guard.Gone(ctx, r.key)
		return err
	}
	found, err := r.guard.ask(ctx, r.key, fmt.Sprintf("still at revision %d", r.revision))
	if err == nil && (!found.Exists || found.Revision != r.revision) {
		err = ErrAnotherRevision
	}
	return err
}
