//go:build race

package natstest

import "runtime"

// oneProcessor lets the goroutines of the process run one at a time until restore is called. Two that read channels of
// timers of one bubble at the same time end the process inside of the race detector: https://go.dev/issue/78156.
func oneProcessor() (restore func()) {
	before := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(before) }
}
