package natsinformer

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// counter finds the cursor without client-go's AtomicFIFO feature: it is an event handler that counts. client-go
// applies an event to the store before it tells any handler.
type counter struct {
	mu      sync.Mutex
	sent    uint64 // events handed to client-go
	applied uint64
	marks   []mark // oldest first
	at      uint64
}

// mark says that after the given number of events everything up to the sequence is applied.
type mark struct{ events, sequence uint64 }

var _ cache.ResourceEventHandler = (*counter)(nil)

func (c *counter) OnAdd(any, bool)   { c.count() }
func (c *counter) OnUpdate(_, _ any) { c.count() }
func (c *counter) OnDelete(any)      { c.count() }

func (c *counter) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied++
	c.settle()
}

// settle moves the cursor over the marks that were reached.
func (c *counter) settle() {
	for len(c.marks) > 0 && c.marks[0].events <= c.applied {
		c.at = c.marks[0].sequence
		c.marks = c.marks[1:]
	}
}

func (c *counter) send(events int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += uint64(events)
}

func (c *counter) mark(sequence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks = append(c.marks, mark{c.sent, sequence})
	c.settle()
}

func (c *counter) freeze(at uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.marks = at, nil
}

// caughtUp reports whether everything sent was applied.
func (c *counter) caughtUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied >= c.sent
}

func (c *counter) cursor() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}
