// Package after has the controllers that docs/from-controller-runtime.md and docs/from-kube-rs.md show after the move to
// Nagi. Its tests run them.
package after
