package lifecycle

import (
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// SharedLife is the lifecycle where all replicas reconcile, WithoutLease. The one that leads keeps the records, as
// ever. The others, beside it, write none, and follow it:
//
//   - A primary is reconciled once the leader has written its anchor, so its delete is never lost.
//   - A primary that is gone is reconciled once the leader has torn it down, where this replica has reconciled it
//     before. So what the brake holds is held everywhere.
type SharedLife struct {
	*RecordedLife
	beside Unrecorded
}

// NewSharedLife makes one over the lifecycle of the replica that leads.
func NewSharedLife(led *RecordedLife) *SharedLife { return &SharedLife{led, Unrecorded{led.Keys}} }

// Present implements Lifecycle.
func (s *SharedLife) Present(t *Term, it queue.Item, v source.View) *Outcome {
	if t.Beside {
		return s.beside.Present(t, it, v)
	}
	return s.RecordedLife.Present(t, it, v)
}

// MarkNotReconciled implements Lifecycle.
func (s *SharedLife) MarkNotReconciled(t *Term, it queue.Item, v source.View, reason, message string) Outcome {
	if t.Beside {
		return s.beside.MarkNotReconciled(t, it, v, reason, message)
	}
	return s.RecordedLife.MarkNotReconciled(t, it, v, reason, message)
}

// Prepare implements Lifecycle. The record that comes makes the key due again.
func (s *SharedLife) Prepare(
	t *Term, it queue.Item, v source.View,
) (anchor *entity.Record, instead *Outcome, ahead *RecordWrite) {
	if !t.Beside {
		anchor, instead, ahead = s.RecordedLife.Prepare(t, it, v)
		if instead == nil && !s.Keys.Of(it.Key).Met {
			s.Keys.Change(it.Key, func(k *keytable.State) { k.Met = true })
		}
		return anchor, instead, ahead
	}
	if _, instead, _ = s.beside.Prepare(t, it, v); instead == nil && !s.meet(it.Key) {
		instead = &Outcome{Verdict: NotReconciled}
	}
	return nil, instead, nil
}

// meet reports whether the key has its anchor. What comes or goes while it looks finds noted what it has to wake.
func (s *SharedLife) meet(key string) (anchored bool) {
	met, anchored := s.Keys.Of(key).Met, record.IsAnchor(s.Anchors.Cached(key))
	if met && anchored {
		return true
	}
	s.Keys.Change(key, func(k *keytable.State) { k.Met, k.AwaitsAnchor = true, !anchored })
	anchored = record.IsAnchor(s.Anchors.Cached(key))
	s.Keys.Amend(key, func(k *keytable.State) {
		if anchored {
			k.AwaitsAnchor = false
		} else {
			k.Met = met
		}
	})
	return anchored
}

// WriteOutcome implements Lifecycle.
func (s *SharedLife) WriteOutcome(
	t *Term, it queue.Item, v source.View, anchor *entity.Record, came Verdict, a Attempt,
) *RecordWrite {
	if t.Beside {
		return nil
	}
	return s.RecordedLife.WriteOutcome(t, it, v, anchor, came, a)
}

// Absent implements Lifecycle.
func (s *SharedLife) Absent(t *Term, it queue.Item) (calls queue.Item, instead *Outcome) {
	if s.tornDownElsewhere(t, it.Key) {
		if !t.Beside {
			s.Brake.ForgetDelete(it.Key)
		}
		return s.beside.Absent(t, it)
	}
	calls, instead = it, &Outcome{Verdict: NothingOwed}
	if !t.Beside {
		calls, instead = s.RecordedLife.Absent(t, it)
	} else if s.Records.Exists(it.Key) {
		instead.Verdict = NotReconciled // the record that goes makes it due
	}
	if instead != nil && instead.Verdict == NothingOwed && s.Keys.Of(it.Key).Met {
		s.Keys.ForgetButMet(it.Key)
		instead.Verdict = NotReconciled
	}
	return calls, instead
}

// TearDown implements Lifecycle.
func (s *SharedLife) TearDown(t *Term, it queue.Item, a Attempt) Outcome {
	if t.Beside || s.tornDownElsewhere(t, it.Key) {
		return s.beside.TearDown(t, it, a)
	}
	return s.RecordedLife.TearDown(t, it, a)
}

// tornDownElsewhere reports whether another replica has torn a primary down that this one has reconciled: its record
// was seen to be deleted. One that is merely gone, with its stream, says nothing. To the replica that leads a record
// says nothing either that was deleted by hand, or in its own teardown.
func (s *SharedLife) tornDownElsewhere(t *Term, key string) bool {
	state := s.Keys.Of(key)
	return state.Met && state.RecordWent && !s.Records.Exists(key) &&
		(t.Beside || !state.Owed && state.DeletedAnchor == nil)
}
