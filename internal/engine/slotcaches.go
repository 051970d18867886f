package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/parts"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/shards"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/turn"
)

// slotCaches has the caches of primaries, of their records and of what they own in NATS keep what belongs to some slots
// (WithSlotCaches). The rule: a slot is opened once they have fetched what belongs to it, and what belongs to a slot
// leaves them when nothing was to be done there for a while.
type slotCaches struct {
	*Engine
	turn.Turn
	report *health.Reporter
}

// fetchPatience is after how long a fetch that is not over is told and begun again; what has come by then stays.
const fetchPatience = 2 * time.Minute

// newParts returns nil where caches have all.
func newParts(opts Options) *parts.Parts {
	if !opts.SlotCaches {
		return nil
	}
	return parts.New(opts.Shards, func(key string) int { return shards.SlotOf(record.Plain(key), opts.Shards) })
}

func (e *Engine) newSlotCaches() *slotCaches {
	return &slotCaches{
		Engine: e, Turn: turn.New(),
		report: e.health.Reporter("caches of slots (bucket " + e.statusBucket + ")"),
	}
}

// divide has the caches of a source keep what belongs to slots, if they can.
func (e *Engine) divide(s source.Source) error {
	if divided, is := s.(source.Divided); is {
		return divided.Divide()
	}
	return nil
}

// undivide takes that back, for an engine that is not made.
func (e *Engine) undivide() {
	for _, s := range e.sources.Group() {
		if divided, is := s.(source.Divided); is {
			divided.Undivide()
		}
	}
}

// each does something with all sources whose caches are divided, side by side. One that may be missing is left out
// until it has synced, see workWithout.
func (c *slotCaches) each(ctx context.Context, do func(context.Context, source.Divided) error) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, s := range c.Sources() {
		divided, is := s.(source.Divided)
		if _, missing := c.without.Load(s); !is || missing || !divided.IsDivided() {
			continue
		}
		all.Go(func() {
			if err := do(ctx, divided); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = fmt.Errorf("%s: %w", s, err)
				if why := s.Err(); why != nil {
					failed = fmt.Errorf("%s: %w", s, why)
				}
			}
		})
	}
	all.Wait()
	return failed
}

// fetch returns when the caches have what belongs to some slots.
func (c *slotCaches) fetch(ctx context.Context, slots []int) error {
	if c.parts == nil {
		return nil
	}
	if err := c.Take(ctx); err != nil {
		return err
	}
	defer c.Give()
	return c.fetchInTurn(ctx, slots)
}

// fetchInTurn is fetch for whoever has the turn.
func (c *slotCaches) fetchInTurn(ctx context.Context, slots []int) error {
	if len(slots) == 0 {
		return nil
	}
	c.parts.Set(true, slots...)
	bounded, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	err := c.each(bounded, func(ctx context.Context, s source.Divided) error { return s.Fetch(ctx) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("what belongs to %d slots has not come into the caches within %v, and nothing starts there "+
			"before: %w", len(slots), fetchPatience, err)
		c.report.Report(ctx, err)
		return err
	}
	c.report.Report(ctx, nil)
	c.parts.Fetched(slots...)
	return nil
}

// fetchBefore fetches those of some slots that the member got although it had not loaded them, or has forgotten them,
// and does something then, before the caches may forget anything.
func (c *slotCaches) fetchBefore(ctx context.Context, slots map[int]bool, do func()) error {
	if c.parts == nil {
		do()
		return nil
	}
	if err := c.Take(ctx); err != nil {
		return err
	}
	defer c.Give()
	var missing []int
	for slot := range slots {
		if !c.parts.IsWhole(slot) {
			missing = append(missing, slot)
		}
	}
	if err := c.fetchInTurn(ctx, missing); err != nil {
		return err
	}
	do()
	return nil
}

// keep has the caches forget what belongs to other slots, but for those that are in use.
func (c *slotCaches) keep(ctx context.Context, needed shards.Set, inUse func(slot int) bool) error {
	if err := c.Take(ctx); err != nil {
		return err
	}
	defer c.Give()
	c.report.Report(ctx, nil) // what could not be fetched is not needed any more
	var others []int
	for slot := range c.parts.Many() {
		if !needed.Has(slot) && c.parts.Want(slot) && !inUse(slot) {
			others = append(others, slot)
		}
	}
	if len(others) == 0 {
		return nil
	}
	c.parts.Set(false, others...)
	return c.each(ctx, func(ctx context.Context, s source.Divided) error { return s.PutApart(ctx) })
}

// comesLate is for a source that has just synced: from now on it is one of those that each goes through.
func (e *Engine) comesLate(ctx context.Context, s source.Source) {
	divided, is := s.(source.Divided)
	if e.sharing == nil || !is || !divided.IsDivided() {
		e.without.Delete(s)
		return
	}
	for ctx.Err() == nil && !e.sharing.slotCaches.takeIn(ctx, divided) {
		pause(ctx, time.Second)
	}
}

// takeIn fetches what a source is to have, and reports whether that is there.
func (c *slotCaches) takeIn(ctx context.Context, s source.Divided) bool {
	if c.Take(ctx) != nil {
		return false
	}
	defer c.Give()
	bounded, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	if err := s.Fetch(bounded); err != nil {
		if ctx.Err() == nil {
			c.report.Report(ctx, fmt.Errorf("%s: what belongs to the slots of this replica has not come within %v: %w",
				s, fetchPatience, err))
		}
		return false
	}
	c.report.Report(ctx, nil)
	c.without.Delete(s)
	return true
}
