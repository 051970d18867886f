package entity

import "fmt"

// Warm implements EnginePort.
func (p enginePort[T]) Warm() (retire func(unused bool) (retired bool), err error) {
	for {
		if p.Closed() {
			return nil, fmt.Errorf("entity: the client of kind %s is closed", p.cfg.Kind)
		}
		g := p.generation()
		if stop, err := g.start(); err == nil {
			return func(unused bool) bool { return p.retire(g, unused, stop) }, nil
		}
		// The generation ended between the two calls; take the next one.
	}
}

// retire removes a user that kept a generation warm, if it is the last one.
func (c *Client[T]) retire(g *generation[T], unused bool, stop func()) (retired bool) {
	c.shared.mu.Lock()
	if c.current.Load() == g {
		if g.users > 1 || !g.visited && !unused {
			c.shared.mu.Unlock()
			return false
		}
		c.started = false
	}
	c.shared.mu.Unlock()
	stop() // one that has come since then goes on
	return true
}
