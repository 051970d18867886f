package netpoll

import (
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"syscall"
)

// poller makes the Go scheduler poll the network. There is no call for that, but whoever waits for a file is woken by
// nothing else: so it writes to a pipe of its own and waits until the pipe can be read. A processor polls when it finds
// nothing to run, so a poll takes as long as all processors are busy; the scheduler itself polls every 10 ms.
type Poller struct {
	read, write *os.File
	raw         syscall.RawConn
	wait        func(uintptr) bool // poll's, kept so that it need not be allocated each time
	written     bool
	err         error
	buf         [1]byte
	samples     []metrics.Sample
}

// pollTurns is how often one poll goes through the scheduler: the first time it makes runnable who waits for the
// network, and it returns from the second when they have run. One turn alone left changes one and a half times as
// slow.
const pollTurns = 2

func New() (*Poller, error) {
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

// poll returns when the network was polled and whoever waited for it has run, as far as other processors let it; at
// once if a processor is free, since that one polls. It fails after close, and where pipes cannot be waited for as
// the network can, which is on Windows. One may call it at a time.
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

// someFree tells whether fewer goroutines run than could, and none waits to. It takes a tenth of a microsecond, while
// to wake a processor that waits for the network takes some twenty, and made one worker on two processors slower by 3
// to 5 %.
func (p *Poller) someFree() bool {
	metrics.Read(p.samples)
	running, runnable := p.samples[0].Value.Uint64(), p.samples[1].Value.Uint64()
	processors := p.samples[2].Value.Uint64()
	return runnable == 0 && running < processors
}

// writeOnce is called when the runtime has begun to look at the pipe. It returns false in order to be called again when
// there is something in it: what is written earlier could be noticed before anybody waits.
func (p *Poller) writeOnce(uintptr) bool {
	if p.written {
		return true
	}
	p.written = true
	_, p.err = p.write.Write(p.buf[:])
	return p.err != nil
}

func (p *Poller) Close() error { return errors.Join(p.read.Close(), p.write.Close()) }
