// Package ownwrites lets a process read its own writes before its caches show them.
//
// An [Overlay] holds the last own write of each key until the cache has it: a reader looks there before it looks into
// the cache. A [Log] holds what was written under a context: its holder waits until the caches show all of it.
package ownwrites
