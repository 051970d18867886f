package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/health"
	"k8s.io/apimachinery/pkg/util/sets"
)

// watchRights has the board say which of the buckets of the sources the user may not write to, until ctx ends. A
// reconcile that writes there fails for each key apart, and the fact is one. Whether records can be written is reported
// where they are.
func (e *Engine) watchRights(ctx context.Context) {
	nc := e.primary.JetStream()
	if nc == nil || nc.Conn() == nil {
		return
	}
	known := denials.Of(nc.Conn())
	for {
		changed := known.Changed()
		next := time.Hour
		for bucket := range e.bucketsWritten() {
			since, again, err := known.MayNotWrite(bucket)
			name := writesTo(bucket)
			if err == nil {
				e.health.Set(ctx, name, nil)
				continue
			}
			next = min(next, again)
			e.health.Set(ctx, name, &health.Problem{Since: since, Err: err})
		}
		wait := time.NewTimer(next)
		select {
		case <-changed:
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
		wait.Stop()
	}
}

// writesTo is the board's name of the right to write to a bucket.
func writesTo(bucket string) string { return "writes to bucket " + bucket }

// bucketsWritten are those of the documents of the sources.
func (e *Engine) bucketsWritten() sets.Set[string] {
	buckets := sets.New[string]()
	for _, s := range e.sources.Group() {
		if s, ok := s.(interface{ Config() entity.Config }); ok {
			buckets.Insert(s.Config().Bucket)
		}
	}
	return buckets
}

// isTold reports whether an error is that of a missing right which the log has already.
func (e *Engine) isTold(err error) bool {
	right := denials.RightIn(err)
	if right == "" {
		return false
	}
	e.rightsMu.Lock()
	defer e.rightsMu.Unlock()
	return !e.rights.Tell(right, right)
}
