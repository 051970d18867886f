package source

import (
	"context"
	"fmt"
)

// trying is a mapping that is called again.
type trying struct {
	*mapping
	end  context.CancelFunc
	done chan struct{} // closed when the mapper has returned
	gone bool          // the source was taken away meanwhile
}

// take begins a call. The context is that of the call.
func (m *Mappings) take(ctx context.Context, id mappingID) (*mapping, context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	call := m.waiting[id]
	if call == nil {
		return nil, ctx
	}
	call.retried = true
	delete(m.waiting, id)
	m.trying = &trying{mapping: call, done: make(chan struct{})}
	ctx, m.trying.end = context.WithCancel(ctx)
	return call, ctx
}

// tried notes the end of a call that take began.
func (m *Mappings) tried() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trying == nil {
		return
	}
	id := m.trying.id()
	m.trying.end()
	close(m.trying.done)
	m.trying = nil
	if behind := m.behind[id.events]; behind != nil && m.waiting[id] == nil {
		if behind.Objects--; behind.Objects == 0 {
			delete(m.behind, id.events)
		}
	}
}

// Forget drops what waits for the mapper of a source that was taken away, and waits for one that is called again just
// now. The context of the source's events must have ended, so that no more comes. What was logged is forgotten: the
// mapper of a source of that name which comes later is logged again.
func (m *Mappings) Forget(s fmt.Stringer) {
	if trying := m.forget(s); trying != nil {
		<-trying.done
	}
	m.reports.Forget(namesOf(s))
}

func (m *Mappings) forget(s fmt.Stringer) (waitFor *trying) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trying != nil && m.trying.events.Source == s {
		waitFor = m.trying
		waitFor.gone = true
		waitFor.end()
	}
	for id := range m.waiting {
		if id.events.Source == s {
			delete(m.waiting, id)
			m.retries.Forget(id)
		}
	}
	for events := range m.behind {
		if events.Source == s {
			delete(m.behind, events)
		}
	}
	return waitFor
}
