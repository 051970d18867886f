package attacks

import (
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAttacks tries each attack from each role: the server refuses it, or the code holds.
func TestAttacks(t *testing.T) {
	for _, r := range roles(t) {
		t.Run(r.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				var w *world
				all := attacks()
				slices.SortFunc(all, func(a, b attack) int { return strings.Compare(a.name, b.name) })
				for _, k := range all {
					if w == nil {
						w = newWorld(t)
					}
					w.try(t, r, k)
					if t.Failed() {
						t.Fatalf("that was the attack %q", k.name)
					}
					if k.strays && k.allowed(r) {
						w.close() // the next attack gets another one
						w = nil
					}
				}
			})
		})
	}
}

// try attacks, and checks the outcome. What the server refuses did not happen.
func (w *world) try(t *testing.T, r role, k attack) {
	w.t = t
	js, denied := connect(t, w.server, r.name, r.password)
	defer js.Conn().Close() // what it listens to in this attack is not for the next
	a := &attempt{world: w, role: r, js: js, allowed: k.allowed(r)}
	a.note()
	k.do(a)
	must(t, js.Conn().Flush())
	if r.set != nil && !a.allowed {
		natstest.Eventually(t, "the server refuses it", func() bool { return len(denied) >= a.sent })
		return
	}
	w.unharmed(t)
	if !k.strays || r.set == nil {
		w.documentsKept(t)
	}
	if k.after != nil && a.allowed {
		k.after(a)
	}
	if len(denied) > 0 {
		t.Errorf("the server refuses it: %s", <-denied)
	}
}

// mayHear tells whether somebody may hear a subject: its own inbox, and of a tenant what the imports bring.
func (a *attempt) mayHear(subject string) bool {
	return strings.HasPrefix(subject, "_INBOX_"+a.role.name+".") ||
		a.role.set == nil && strings.HasPrefix(subject, "$KV.sites-status.ns1.")
}

func (w *world) close() {
	for _, r := range w.replicas {
		r.stop()
	}
}
