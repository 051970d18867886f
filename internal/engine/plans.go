package engine

import (
	"context"
	"sync"
)

// plans are those that are being made. They end with the controller, which does not wait for them before it stops its
// work: nothing of them is written.
type plans struct {
	mu      sync.Mutex
	over    bool
	cancels map[*context.CancelCauseFunc]bool
	making  sync.WaitGroup
}

// begin returns the context of a plan, and what is to be called at its end; ok is false if the controller stops.
func (p *plans) begin(ctx context.Context) (bounded context.Context, end func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, nil, false
	}
	bounded, cancel := context.WithCancelCause(ctx)
	if p.cancels == nil {
		p.cancels = map[*context.CancelCauseFunc]bool{}
	}
	p.cancels[&cancel] = true
	p.making.Add(1)
	return bounded, func() {
		cancel(nil)
		p.mu.Lock()
		delete(p.cancels, &cancel)
		p.mu.Unlock()
		p.making.Done()
	}, true
}

// end ends those under way, and lets none begin any more.
func (p *plans) end(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for cancel := range p.cancels {
		(*cancel)(cause)
	}
}
