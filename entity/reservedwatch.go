package entity

import (
	"fmt"

	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/client-go/tools/cache"
)

// runReserved watches the reserved keys once a subscriber wants them. They have their own informer, because a filter
// may exclude them from that of the records, and so that no event handler has to look at every record. The caller holds
// shared.mu.
func (g *generation[T]) runReserved() {
	c := g.client
	if g.reserved || g.records == nil || !g.running.Load() || !c.hooks.wantsReserved() {
		return
	}
	informer, err := natsinformer.New(c.js, natsinformer.Config{
		Bucket:          c.cfg.StatusBucket,
		Filter:          reservedFilter,
		Decode:          decodeReserved,
		CompareInterval: c.cfg.CompareInterval,
		OnError:         g.reservedFails,
		Reported:        g.news.hearsErrors,
	})
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { g.reservedChanged(obj, false) },
			UpdateFunc: func(_, obj any) { g.reservedChanged(obj, false) },
			DeleteFunc: func(obj any) { g.reservedChanged(obj, true) },
		})
	}
	if err != nil {
		g.news.setError(c.cfg.StatusBucket,
			fmt.Errorf("informer of reserved keys of bucket %q: %w", c.cfg.StatusBucket, err))
		return
	}
	g.reserved = true
	g.wg.Go(func() { informer.RunWithContext(g.ctx) })
}

func (g *generation[T]) reservedFails(err error) {
	g.recordNews(func() {
		g.health.reserved = err
		if err != nil {
			g.health.last = nil
		}
	})
}

func (g *generation[T]) reservedChanged(obj any, deleted bool) {
	if name, revision, value, ok := ReservedOf(obj, deleted); ok {
		g.news.setReserved(name, revision, value)
	}
}
