// How to make the Go scheduler poll the network now. The scheduler polls when a processor has nothing to run,
// else every 10 ms, and the runtime has no call for it. So a busy process sees its messages late.
//
// The rule: [Poller.Poll] returns when the network was polled and the goroutines that it woke have run. A plain sleep
// does not do: below a millisecond epoll rounds up. Package queue takes Poll as a function, and says when to call it.

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"syscall"

	"k8s.io/klog/v2"
)

// Poller polls the network: it writes to a pipe of its own and waits until the pipe can be read. Only a poll wakes a
// goroutine that waits for a file, so when this one wakes, the network was polled. A poll takes as long as all
// processors are busy, at most until the scheduler's own.
type Poller struct {
	read, write *os.File
	raw         syscall.RawConn
	wait        func(uintptr) bool // writeOnce, kept so that Poll need not allocate it each time
	written     bool
	err         error
	buf         [1]byte
	samples     []metrics.Sample
}

// pollFor has a queue poll the network until end is called. Without a pipe nothing but speed is lost.
func pollFor(ctx context.Context, set func(poll func() error)) (end func() error) {
	p, err := NewPoller()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Live changes may wait longer while many keys are reconciled")
		return func() error { return nil }
	}
	set(p.Poll)
	return p.Close
}

// pollTurns is how often one Poll goes through the scheduler. The first turn makes the goroutines runnable that wait
// for the network; the second ends when they have run. With one turn alone changes took one and a half times as long.
const pollTurns = 2

// NewPoller returns a Poller, which the caller must Close.
func NewPoller() (*Poller, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for polling the network: %w", err)
	}
	p := &Poller{read: read, write: write, samples: []metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/gomaxprocs:threads"},
	}}
	p.wait = p.writeOnce
	metrics.Read(p.samples)
	for _, sample := range p.samples {
		if sample.Value.Kind() != metrics.KindUint64 {
			return nil, errors.Join(fmt.Errorf("this Go runtime has no metric %s", sample.Name), p.Close())
		}
	}
	if p.raw, err = read.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("poll a pipe: %w", err), p.Close())
	}
	return p, nil
}

// Poll returns when the network was polled and the goroutines that it woke have run, as far as other processors let
// them. It returns at once if a processor is free, since that one polls. It fails after Close, and on Windows, where a
// pipe cannot be waited for as the network can. Only one goroutine at a time may call it.
func (p *Poller) Poll() error {
	if p.someFree() {
		return nil
	}
	for range pollTurns {
		p.written, p.err = false, nil
		if err := p.raw.Read(p.wait); err != nil {
			return err
		}
		if p.err != nil {
			return p.err
		}
		if _, err := p.read.Read(p.buf[:]); err != nil {
			return err
		}
	}
	return nil
}

// someFree reports whether a processor is free: fewer goroutines run than could, and none waits to. It takes a tenth of
// a microsecond. To wake a processor that waits for the network takes some twenty, which cost one worker on two
// processors 3 to 5 % of its throughput.
func (p *Poller) someFree() bool {
	metrics.Read(p.samples)
	running, runnable := p.samples[0].Value.Uint64(), p.samples[1].Value.Uint64()
	processors := p.samples[2].Value.Uint64()
	return runnable == 0 && running < processors
}

// writeOnce writes to the pipe when Poll has begun to wait for it: an earlier write could be noticed before. It returns
// false the first time, so that the runtime calls it again when the pipe can be read.
func (p *Poller) writeOnce(uintptr) bool {
	if p.written {
		return true
	}
	p.written = true
	_, p.err = p.write.Write(p.buf[:])
	return p.err != nil
}

// Close closes the pipe. From then on Poll fails.
func (p *Poller) Close() error { return errors.Join(p.read.Close(), p.write.Close()) }
