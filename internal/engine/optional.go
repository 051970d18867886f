package engine

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The rule for an optional source that has not synced, and for one that was added while the engine runs: the rest goes
// on. The source is degraded under its name, and it is outdated, so no sweep, cascade or prune believes what it does
// not show, and a teardown that would delete there waits. When it has synced, the brake decides anew about what it let
// go without knowing how much that owned there. Then all primaries are due, and so are the teardowns that are owed.

// withoutSource says why an optional source is degraded that has not synced.
func withoutSource(s source.Source) error {
	why := "it was added while the controller runs"
	if s.IsOptional() {
		why = "it is optional"
	}
	return fmt.Errorf("%w; %s, so all that does not need it goes on, and nothing is deleted because of "+
		"what it does not show; primaries are reconciled again when it comes", source.NotSynced(s), why)
}

// workWithout makes due what may have waited for a source once it has synced.
func (e *Engine) workWithout(life context.Context, s source.Source) {
	if !cache.WaitFor(life, "", s.Synced()...) {
		return
	}
	if e.brake != nil {
		e.brake.CameLate()
	}
	e.comesLate(life, s)
	e.SourceHealth(life, s)
	klog.FromContext(life).Info("A source has come, and synced; all primaries are reconciled again",
		"source", s.String())
	if owned, ok := s.(source.Owned); ok && owned.Owns() && e.claim != nil {
		e.claim.CameLate(life, s.String(), record.SeenIn([]source.Owned{owned}, e.Claim()))
	}
	if e.Leads() {
		e.renameFormer(life) // before the teardowns look for what their keys own
	}
	e.sweeper.SweepSoon()
	e.EnqueueAll(operationOf(s), nil)
	e.resumeOwed()
}

// operationOf says what an event of a source is to a primary.
func operationOf(s source.Source) operation.Operations {
	if isBehindAPI(s) {
		return operation.Of(operation.External)
	}
	if owned, ok := s.(source.Owned); ok && owned.Owns() {
		return operation.Of(operation.Secondary)
	}
	return operation.Of(operation.Tertiary)
}

// resumeOwed makes the teardowns due that are owed, with their failures forgotten: a pause may have grown to minutes.
func (e *Engine) resumeOwed() {
	if e.records == nil {
		return
	}
	for key, held := range e.records.All() {
		if record.IsAnchor(held) && !e.primary.Exists(key) && !e.brake.Holds(key) {
			e.keys.Amend(key, func(s *keytable.State) { s.Failures = 0 })
			e.resumeKey(key)
		}
	}
}
