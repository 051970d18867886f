// Package before has a controller on controller-runtime, as docs/from-controller-runtime.md shows it beside one on Nagi.
// It is a module of its own, so that controller-runtime does not become what Nagi depends on. It is compiled, not run.
package before
