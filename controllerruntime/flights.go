package controllerruntime

import (
	"context"
	"sync"
	"time"
)

// flights are writes whose acknowledgement nobody waits for in line. One goroutine takes the acknowledgements in the order
// of the writes and says what is next; where one is late, because the write is refused or NATS is away, another goroutine
// takes over the rest, so that nobody waits behind it. When too many are under way, launching waits.
type flights struct {
	life  context.Context
	ctx   context.Context // ends flightsGrace after the stop began
	end   context.CancelFunc
	slots chan struct{} // one for each write under way
	under chan flight   // those whose turn has not come
	done  sync.WaitGroup
}

type flight struct {
	wait func(context.Context) error
	then func(context.Context, error)
}

const (
	// flightsMost bounds the writes under way; on loopback 256 hide the round trip, over a network 1024 do.
	flightsMost = 1024
	// flightLate is when the goroutine that waits for an acknowledgement is relieved.
	flightLate = 10 * time.Millisecond
	// flightsGrace is how long a write may take once the controller stops. What is lost the next run writes again.
	flightsGrace = 2 * time.Second
)

func newFlights() *flights {
	return &flights{slots: make(chan struct{}, flightsMost), under: make(chan flight, flightsMost)}
}

// run takes acknowledgements until stop; ctx bounds the waiting.
func (f *flights) run(ctx context.Context) {
	f.life = ctx
	f.ctx, f.end = context.WithCancel(ctx)
	f.done.Go(f.take)
}

// take is the goroutine whose turn it is, until it is relieved.
func (f *flights) take() {
	relieved := make(chan struct{})
	relief := time.AfterFunc(flightLate, func() {
		f.done.Go(f.take)
		close(relieved)
	})
	relief.Stop() // until there is something to wait for
	for flight := range f.under {
		if f.ctx.Err() != nil {
			f.landLast(flight)
			continue
		}
		relief.Reset(flightLate)
		f.land(f.ctx, flight)
		if !relief.Stop() {
			<-relieved // so that stop has somebody to wait for
			return
		}
	}
}

func (f *flights) land(ctx context.Context, flight flight) {
	flight.then(ctx, flight.wait(ctx))
	<-f.slots
}

// launch hands over a write that is under way. then may block, as long as its context lives; it must not launch.
func (f *flights) launch(wait func(context.Context) error, then func(context.Context, error)) {
	f.slots <- struct{}{}
	f.under <- flight{wait: wait, then: then}
}

// landLast is for a write that is left when the others were to have ended: its reconcile may have run on after the stop.
func (f *flights) landLast(flight flight) {
	f.done.Go(func() {
		ctx, cancel := context.WithTimeout(f.life, flightsGrace)
		defer cancel()
		f.land(ctx, flight)
	})
}

// hurry is told that the controller stops.
func (f *flights) hurry() { time.AfterFunc(flightsGrace, f.end) }

// stop waits for the writes under way. Nothing may be launched any more.
func (f *flights) stop() {
	close(f.under)
	f.done.Wait()
	f.end()
}
