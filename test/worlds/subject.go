package worlds

import (
	"context"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
)

// Subject is the controller that is tried, and what the world has to know of it.
type Subject struct {
	// Primaries is the bucket of the documents, Status that of their records. Without Status it is Primaries-status.
	Primaries, Status string
	// Owned are the buckets of what the controller owns in NATS. The saboteur touches them, too.
	Owned []string
	// Start makes the controller of one replica, with clients over p.JetStream. It is called at each start of a
	// replica. It passes p.Reconciler(r) and p.Options() to the controller, and gives p.Closing what closes the clients.
	// An error is a start that failed; it is tried again, as a supervisor does.
	Start func(ctx context.Context, p *Process) (Controller, error)
	// Document makes a document, as JSON. n grows with each.
	Document func(r *rand.Rand, n int) []byte
	// Faults are of the subject's own world, such as an API that is away. Each lasts until its context ends, and has
	// mended what it broke when it returns.
	Faults []func(ctx context.Context, r *rand.Rand)
	// Wants reports whether a document wants a key of an owned bucket to exist. Without it no delete is judged.
	Wants func(document []byte, bucket, key string) bool
	// Agrees is asked when the world has been quiet for long, and says each thing that is not as it should be. left are
	// things of owners that are gone. Those of Stats.NeverWas may be left: nothing deletes them.
	Agrees func(s Snapshot) (wrong, left []string)
}

// Maker makes the subject of a night, in its virtual time. It may start what the subject needs besides NATS, and ends it
// by t.Cleanup.
type Maker func(t *testing.T, p Plan) Subject

// Controller is what the world needs of a controller.Controller.
type Controller interface {
	Run(ctx context.Context) error
	Stats() controller.Stats
	Explain(key string) controller.Explanation
	Keys(states ...controller.KeyState) iter.Seq[controller.Explanation]
	ReleaseBrake(ctx context.Context) error
	ListVanished(ctx context.Context) ([]controller.Vanished, error)
	RestoreVanished(ctx context.Context, engagement string, count int) (restored int, err error)
}

// Snapshot is what the buckets of a subject have, read by a user whom no fault disturbs.
type Snapshot struct {
	Primaries, Records map[string]Document
	Owned              map[string]map[string]Document // by bucket
}

// Document is a document of a bucket.
type Document struct {
	Value    []byte
	Revision uint64
}

func (s Subject) status() string {
	if s.Status != "" {
		return s.Status
	}
	return s.Primaries + "-status"
}

// buckets are all of a subject's.
func (s Subject) buckets() []string {
	return append([]string{s.Primaries, s.status()}, s.Owned...)
}
