package attacks

import (
	"slices"
	"strings"
	"testing"
)

// TestAttacks tries each attack from each role: the server refuses it, or the code holds.
func TestAttacks(t *testing.T) {
	for _, r := range roles(t) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel() // it waits
			var w *world
			all := attacks()
			slices.SortFunc(all, func(a, b attack) int { return strings.Compare(a.name, b.name) })
			for _, k := range all {
				if w == nil {
					w = newWorld(t)
				}
				if !t.Run(k.name, func(t *testing.T) { w.try(t, r, k) }) {
					w.close() // the next attack gets another one
					w = nil
				}
			}
		})
	}
}

// try attacks, and checks the outcome.
func (w *world) try(t *testing.T, r role, k attack) {
	w.t = t
	js, denied := connect(t, w.server, r.name, r.password)
	k.do(&attempt{world: w, role: r, js: js})
	must(t, js.Conn().Flush())
	w.unharmed(t)
	if r.set == nil {
		w.documentsKept(t)
		return // another account refuses nothing, and nobody is there
	}
	js.Conn().Close() // after which nothing more is told
	refused := len(denied) > 0
	if refused == k.allowed(r) && !k.trusted(r) {
		t.Errorf("the server refuses: %v; want %v", refused, !k.allowed(r))
	}
}

// trusted tells of the one attack that is a right: an operator may change all documents.
func (k attack) trusted(r role) bool {
	return r.name == "operator" && k.name == "a document of another namespace"
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
