package controllerruntime

import (
	"context"
	"sync"
)

// flights are writes whose acknowledgement nobody waits for in line: one goroutine takes the acknowledgements in the
// order of the writes and says what is next. When too many are under way, launching waits.
type flights struct {
	under chan flight
	done  sync.WaitGroup
}

type flight struct {
	wait func(context.Context) error
	then func(error)
}

// flightsMost bounds the writes under way; on loopback 256 hide the round trip, over a network 1024 do.
const flightsMost = 1024

func newFlights() *flights { return &flights{under: make(chan flight, flightsMost)} }

// run takes acknowledgements until stop; ctx bounds the waiting.
func (f *flights) run(ctx context.Context) {
	f.done.Go(func() {
		for flight := range f.under {
			flight.then(flight.wait(ctx))
		}
	})
}

// launch hands over a write that is under way. then may block; it must not launch.
func (f *flights) launch(wait func(context.Context) error, then func(error)) {
	f.under <- flight{wait: wait, then: then}
}

// stop waits for the writes under way. Nothing may be launched any more.
func (f *flights) stop() {
	close(f.under)
	f.done.Wait()
}
