package engine

import "github.com/nagi-runtime/nagi/internal/explain"

// Explainer explains the keys of this controller.
func (e *Engine) Explainer() *explain.Explainer {
	x := &explain.Explainer{
		Queue: e.queue, Keys: &e.keys, Running: &e.running, Primary: e.primary, WellFormed: e.WellFormed,
		Sources: e.sources.Group(), APIs: e.APIs, Problems: e.health.ByName, Mappings: e.mappings, Lead: e.leading,
		Records: e.records, Brake: e.brake, Teardown: e.teardown, Index: &e.index,
	}
	if e.sharing != nil {
		x.Share = e.sharing.shareOf
	}
	return x
}

// shareOf says which replica works at a key.
func (s *sharing) shareOf(key string) explain.Share {
	slot := s.slotOf(key)
	whose := s.Whose(slot)
	return explain.Share{Slot: slot, Here: s.isOpenSlot(slot), Member: whose.Member, Next: whose.Next}
}

// noteKey has the index look at a key whose document or record has changed.
func (e *Engine) noteKey(key string) {
	if e.index.Begun() {
		e.index.Note(e.Explainer(), key)
	}
}

// leading tells whether this replica works.
func (e *Engine) leading() explain.Lead {
	lead := explain.Lead{
		Started: e.started.Load(), Leads: e.Leads(), Stopped: e.queue.Closed(), Beside: e.opts.WithoutLease,
	}
	e.leadership.mu.RLock()
	lead.Synced = lead.Leads || e.leadership.waits
	e.leadership.mu.RUnlock()
	lead.Synced = lead.Synced || e.sharing != nil && e.synced.Load()
	if holder := e.leadership.holder.Load(); holder != nil {
		lead.Holder = *holder
	}
	return lead
}
