// Package deletes is the one guard before each delete that the runtime makes by itself. Three ways lead to a delete:
// the cascade deletes what a primary that is gone still owns, the sweep what names a primary without a record, and the
// prune what a reconcile no longer wants.
//
// The rule: an object goes if all of this is so, right before it goes:
//
//   - The term leads. Its context has not ended, and by the clock its lease has not run out.
//   - The cache and the leader agree that the primary is gone, or, for a prune, there as it was reconciled. The leader
//     has said so at most [LeaderTrusted] ago.
//   - The source has synced and shows no older state than its server has. Of one that has come late the brake knows.
//   - The object is for certain that primary's: kind, key, installation, proof and namespace. See owner.Claim.
//   - The delete is evidenced, or the brake lets it go.
//
// It goes with a precondition on what was seen, as far as its server takes one: the revision in NATS, the uid in
// Kubernetes and the resourceVersion too unless a transform took that off, and behind an API what its client can do
// (external.ConditionalDeleter). A deleter of the user's is told what was seen.
//
// A source deletes for a [Permit] alone, and only [Round.Delete] makes one. test/house counts who makes a guard, begins
// a round or calls what deletes, so that another way is noticed. A user's own call, as Handle.Delete of package kube,
// is not the runtime's. What holds of each way is tested in internal/lifecycle/guard_test.go.
package deletes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Permit lets a source delete an object as it was seen. The zero value permits nothing.
type Permit struct{ object metav1.Object }

// Object is what may be deleted. It panics for the zero value.
func (p Permit) Object() metav1.Object {
	if p.object == nil {
		panic("deletes: a source was told to delete without a permit")
	}
	return p.object
}

// Source is where an object is deleted.
type Source interface {
	owner.Source
	String() string
	// Outdated is why what the source shows must not be acted on for deletes; nil if it may.
	Outdated() error
	// Remove deletes the object if it is still what was seen. One that is absent is success.
	Remove(ctx context.Context, permit Permit) error
}

// Primaries are the documents of the primaries.
type Primaries interface {
	// Exists reports whether the cache has a document, also one that does not decode.
	Exists(key string) bool
	// Decoded returns the revision of the document in the cache; ok is false if there is none that decodes.
	Decoded(key string) (revision uint64, ok bool)
	// Confirm asks the leader.
	Confirm(ctx context.Context, key string) (entity.Presence, error)
}

// Config is what a guard asks. Everything is needed.
type Config struct {
	Kind      string // of the primaries
	Primaries Primaries
	Claim     func() owner.Claim
	// Leads is nil while the term of ctx leads.
	Leads func(ctx context.Context) error
	// Late tells of a source that has come late that the brake has not been told yet, and of one that was taken away.
	Late func(Source) bool
	// Contest is told of a primary of which a delete may be under way from now on that is not answered.
	Contest func(key string)
	// LeaderErrors is told of a leader that did not answer.
	LeaderErrors func()
}

// Guard is that of a controller. Its methods may be called concurrently.
type Guard struct{ config Config }

// New makes a guard.
func New(config Config) *Guard { return &Guard{config} }

// LeaderTrusted is how long the leader's answer is acted on, with the cache alone to say otherwise.
const LeaderTrusted = 100 * time.Millisecond

// SentFor is how long a delete in NATS is sent again and again to a stream that does not answer. After that it is
// decided anew: the document may be back by then, and so may the stream, with what it had.
const SentFor = 2 * time.Second

var (
	// ErrDocumentReturned is why nothing more goes of a primary that was gone: its document was there when the leader
	// was asked.
	ErrDocumentReturned = errors.New("the document exists again")
	// ErrAnotherRevision is why nothing more goes that a primary does not want: it is not at the revision any more that
	// was reconciled.
	ErrAnotherRevision = errors.New("the document is not at the revision that was reconciled")
	// ErrHeld is why an object stays: the brake holds it.
	ErrHeld = errors.New("the brake holds it")
	// errMoves is why nothing is deleted in a source that has come late, or was taken away.
	errMoves = fmt.Errorf("it has just come, and the brake is about to be told, or it was just taken away: %w", ErrHeld)
)

// Outdated says why what a source shows must not be acted on for deletes; nil if it may.
func (g *Guard) Outdated(s Source) error {
	err := s.Outdated()
	if err == nil && g.config.Late(s) {
		err = errMoves
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// Gone asks the leader whether a document is gone, and returns what it has in its place; ErrDocumentReturned if it
// exists.
func (g *Guard) Gone(ctx context.Context, key string) (entity.Presence, error) {
	found, err := g.ask(ctx, key, "gone")
	if err == nil && found.Exists {
		err = ErrDocumentReturned
	}
	return found, err
}

// There asks the leader whether a document is there.
func (g *Guard) There(ctx context.Context, key string) (bool, error) {
	found, err := g.ask(ctx, key, "there")
	return found.Exists, err
}

// Leads is nil while the term of ctx leads.
func (g *Guard) Leads(ctx context.Context) error { return g.config.Leads(ctx) }

func (g *Guard) ask(ctx context.Context, key, whether string) (entity.Presence, error) {
	found, err := g.config.Primaries.Confirm(ctx, key)
	if err != nil {
		g.config.LeaderErrors()
		return found, fmt.Errorf("ask the leader whether %s %q is %s: %w", g.config.Kind, key, whether, err)
	}
	return found, nil
}

// Brake reports whether an object of a source may go: its delete is evidenced, or the brake lets it go.
type Brake func(ctx context.Context, s Source, obj metav1.Object) bool

// OfGone begins the deletes of what a primary owns that is gone.
func (g *Guard) OfGone(key string, brake Brake) *Round {
	return &Round{guard: g, key: key, brake: brake}
}

// OfUnwanted begins the deletes of what a primary does not want any more, as it was reconciled at a revision.
func (g *Guard) OfUnwanted(key string, revision uint64, brake Brake) *Round {
	return &Round{guard: g, key: key, revision: revision, wants: true, brake: brake}
}
