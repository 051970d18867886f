package entity

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/jsonshape"
	"github.com/nats-io/nats.go"
)

// plannedRevision is above each revision that a stream has.
const plannedRevision = 1 << 62

// isPlanned reports whether a revision is of what was written in a plan, so that nothing may be remembered of it: who
// has another context sees what is there.
func isPlanned(revision uint64) bool { return revision >= plannedRevision }

func (s sequence) isPlanned() bool { return isPlanned(s.revision) }

// shown says how a bucket's values are told of in a plan.
type shown struct {
	kind    string
	keys    keyspace
	records bool // only the status is told of
	secrets *jsonshape.Secrets
}

// plannedAt tells the keys of all buckets apart.
type plannedAt struct {
	nc              *nats.Conn
	api, stream, at string
}

func (b *bucket) plannedAt(natsKey string) plannedAt {
	return plannedAt{b.nc, b.apiPrefix, b.stream, natsKey}
}

// planned is put in a plan: the write is compared with what is there, noted, and not sent.
func (b *bucket) planned(ctx context.Context, plan *dryrun.Plan, w write) (uint64, error) {
	last, err := b.last(ctx, w.key)
	if err != nil {
		return 0, err
	}
	if last.revision() != w.expected {
		return 0, &casError{bucket: b.name, key: w.key, expected: w.expected, actual: last}
	}
	header := nats.Header{}
	w.lasts.tell(header)
	if w.op != "" {
		header.Set(operationHeader, w.op)
	}
	next := &stored{
		Revision: plannedRevision + plan.Number(), Created: time.Now(), Header: header, Value: w.value,
	}
	plan.Wrote(b.plannedAt(w.key), b.shows.object(b.name, w.key), b.shows.state(last), b.shows.state(next))
	return next.Revision, nil
}

// plannedLast is last in a plan; ok is false if the plan has not written the key.
func (b *bucket) plannedLast(ctx context.Context, natsKey string) (last *stored, ok bool) {
	plan := dryrun.Of(ctx)
	if plan == nil {
		return nil, false
	}
	state, ok := plan.Seen(b.plannedAt(natsKey))
	if !ok {
		return nil, false
	}
	last, _ = state.Raw.(*stored)
	return last, true
}

func (s *shown) object(bucket, natsKey string) dryrun.Object {
	of := dryrun.Object{System: dryrun.NATS, Bucket: bucket, Key: natsKey}
	if s != nil {
		of.Kind, of.Status, of.Key = s.kind, s.records, s.keys.display(natsKey)
	}
	return of
}

func (s *shown) state(at *stored) dryrun.State {
	state := dryrun.State{Exists: at.live() != nil, Raw: at}
	if !state.Exists {
		return state
	}
	state.JSON = dryrun.Decoded(at.Value)
	switch {
	case s == nil:
		state.Open = state.JSON
	case s.records:
		record, _ := state.JSON.(map[string]any)
		state.JSON = map[string]any{"status": record["status"]}
		state.Open = state.JSON
	default:
		if open, err := s.secrets.Drop(at.Value); err == nil {
			state.Open = dryrun.Decoded(open)
		}
	}
	return state
}
