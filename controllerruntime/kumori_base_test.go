package controllerruntime

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// What follows are base structs as controllers may have that were written to the original, whose runtime has six
// methods: theirs may have methods and fields of any other name. This file compiles, and theirs are the controller's.

// tidy is a base with the methods of an IController that the original runtime does not have.
type tidy struct{ handled, collected, cleaned atomic.Int64 }

func (b *tidy) HandleSecondary(any) { b.handled.Add(1) }
func (b *tidy) GarbageSecondaries() { b.collected.Add(1) }
func (b *tidy) Clean()              { b.cleaned.Add(1) }

// common is a base with all other names that our runtime has, as fields and methods of other types.
type common struct {
	Operations, Context, SetOwner, ReleaseBrake, ListVanished, RestoreVanished, LastKnown, RequireInstance string
}

func (common) Stats() int          { return 7 }
func (common) WithOptions() string { return "of the base" }

// layered has both one level deeper.
type layered struct {
	*tidy
	common
}

type beside struct {
	*kumoriRuntime
	*tidy
	common
}

func (*beside) SyncHandler(string) error { return nil }

type above struct {
	*kumoriRuntime
	layered
}

func (*above) SyncHandler(string) error { return nil }

var (
	_ IController = (*beside)(nil)
	_ IController = (*above)(nil)

	_ func(*beside) int            = func(c *beside) int { return c.Stats() }
	_ func(*above) string          = func(c *above) string { return c.WithOptions() + c.Context }
	_ func(*beside, string)        = func(c *beside, key string) { c.EnqueueKey(key, OperationPut) }
	_ func(*above) func(...any)    = func(c *above) func(...any) { c.HandleSecondary(nil); return nil }
	_ func(*beside) *kumoriRuntime = func(c *beside) *kumoriRuntime { return c.kumoriRuntime }
	// What the base hides is there by the runtime's name.
	_ func(*beside, string) context.Context = func(c *beside, key string) context.Context {
		return c.kumoriRuntime.Context(key)
	}
)

// TestKumoriAControllerMayEmbedABaseOfItsOwnBesideTheRuntime: what the base has is what is called.
func TestKumoriAControllerMayEmbedABaseOfItsOwnBesideTheRuntime(t *testing.T) {
	for name, make := range map[string]func(*kumoriRuntime, *tidy) IController{
		"beside": func(r *kumoriRuntime, b *tidy) IController { return &beside{kumoriRuntime: r, tidy: b} },
		"above": func(r *kumoriRuntime, b *tidy) IController {
			return &above{kumoriRuntime: r, layered: layered{tidy: b}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, pages := w.sites(), w.pages()
				runtime, base := kumori{sites: sites, pages: pages, resync: time.Minute}.runtime(), &tidy{}
				c := make(runtime, base)
				runtime.SetCustomController(c)
				r := runKumori(t, c)
				must(t, pages.Create(t.Context(), owned(newPage("front", ""), "home")))
				natstest.Eventually(t, "the base hears of the page", func() bool { return base.handled.Load() == 1 })
				natstest.Eventually(t, "the base is asked for garbage", func() bool { return base.collected.Load() > 0 })
				r.halt()
				if n := base.cleaned.Load(); n != 1 {
					t.Errorf("Clean of the base was called %d times", n)
				}
				if s := runtime.Stats(); s.Reconciles != 0 {
					t.Errorf("%d keys were synced, though the base enqueues none", s.Reconciles)
				}
			})
		})
	}
}
