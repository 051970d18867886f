// Package engine runs a controller: its sources, its queue and workers, and the term in which its replica leads.
//
// A worker takes a key. The steps of its life (package lifecycle) call the reconciler and return an Outcome. One
// function, settle, acts on it: it alone gives keys back to the queue, adds delays, counts failures and parks keys.
//
// The rooms below do not know the engine. It gives each the few methods that the room asks for: source.Listener,
// apisource.Host, kubesource.Host, reconcilectx.Host, brake.Primaries, lifecycle.Caller.
package engine
