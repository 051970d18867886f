// Package faults injects one fault, or two after each other, at each durable step of a reconcile, a teardown and a
// replica's life, and lets an oracle read the history of the streams. It has only tests.
//
// Two replicas of one controller run on a real server. Each speaks to it over a wire of its own (wire_test.go), which
// knows the durable steps by the messages (steps_test.go) and can make one fail (director_test.go). A user creates,
// updates and deletes primaries meanwhile, over a connection that nobody tampers with. In the end the secondaries and
// the records agree with the primaries, and the history (history_test.go) breaks no rule (oracle_test.go).
package faults

import (
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // what has a context goes to the log of its world
	goleak.VerifyTestMain(m)
}
