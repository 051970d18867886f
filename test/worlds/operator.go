package worlds

import (
	"context"
	"strings"
	"time"
)

// operate is what an operator does now and then: a brake that has been engaged for a while is released, or the documents
// that it holds are put back, and the id of the installation is given to a status bucket that has lost it.
func (w *world) operate(ctx context.Context) {
	r := w.plan.Dice("operator")
	for ctx.Err() == nil {
		sleep(ctx, between(r, 15*time.Second, 35*time.Second))
		w.giveInstance(ctx)
		p := w.leader()
		if p == nil {
			continue
		}
		s := p.c.Stats().Brake
		if !s.Engaged || s.Released || time.Since(s.Since) < 20*time.Second || !w.quiet.Load() && r.IntN(2) == 0 {
			continue
		}
		if r.IntN(2) == 0 && w.putBackVanished(ctx, p, s.Engagement) {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := p.c.ReleaseBrake(asking)
		cancel()
		w.note("operator", "releases the brake of %s (%s): %v", p.Name, s.Reason, err)
	}
}

// putBackVanished restores the documents that a brake holds, and reports whether there were any.
func (w *world) putBackVanished(ctx context.Context, p *Process, engagement string) bool {
	release, ok := w.tryTake("user")
	if !ok {
		return false
	}
	defer release()
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	vanished, err := p.c.ListVanished(asking)
	var keys []string
	for _, v := range vanished {
		if v.NotRestorable == "" {
			keys = append(keys, v.Key)
		}
	}
	if err != nil || len(keys) == 0 {
		return false
	}
	for _, key := range keys {
		w.knows(key, unknown, nil)
	}
	n, err := p.c.RestoreVanished(asking, engagement, len(keys))
	w.note("operator", "has %s put back %q: %d, %v", p.Name, keys, n, err)
	w.learn(keys...)
	return n > 0
}

// instance is the id of the world's installation.
const instance = "world"

// giveInstance does what Degraded says where the status bucket has lost the id and the settings do not give it.
func (w *world) giveInstance(ctx context.Context) {
	for _, says := range w.degraded() {
		if !strings.Contains(says, "nats kv put "+w.subject.status()+" _nagi.instance") {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		kv, err := w.js.KeyValue(asking, w.subject.status())
		if err == nil {
			_, err = kv.PutString(asking, "_nagi.instance", instance)
		}
		w.note("operator", "gives the id of the installation: %v", err)
		return
	}
}
