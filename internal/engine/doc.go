// Package engine runs a controller: its sources, its queue and workers, and the term in which its replica leads.
//
// A worker takes a key. It asks the key's life (package lifecycle) for the step before the reconcile, calls the
// reconciler, and asks for the step after it. What that comes to is an Outcome. One function, settle, acts on it: it
// alone gives keys back to the queue, adds delays, counts failures and parks keys.
//
// The rooms below do not know the engine. It gives each the few methods that the room asks for: source.Listener,
// apisource.Host, kubesource.Host, reconcilectx.Host, brake.Primaries.
package engine
