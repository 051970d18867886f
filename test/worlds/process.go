package worlds

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// Process is one replica from its start to its end, which is a process as far as the server can tell.
type Process struct {
	// Name is r1, r2 and so on, in the order of the starts.
	Name string
	// JetStream and Conn are over the wire of the process. The world closes the connection.
	JetStream jetstream.JetStream
	Conn      *nats.Conn
	// Plan is the night's, with the Workers, Resync and Compare of this process. What else a subject chooses it may choose
	// by Plan.Dice.
	Plan Plan

	world    *world
	wire     *wire
	settings deployment
	member   string // its name among those that share the keys
	closing  []func()
	c        Controller
	gone     atomic.Bool // it crashed, or was told to stop
	stop     context.CancelFunc
	done     chan struct{}
	err      error // of Run
}

// Closing has f called when the process ends, the last one first.
func (p *Process) Closing(f func()) { p.closing = append(p.closing, f) }

// ReadsBack holds the promise that caches show a process its own writes: a subject calls it after a write of a key, with
// the revisions that were acknowledged and that the lister shows, and an error of the lister. What was found as it
// should be and not written is another's write: caches may show it later. That a saboteur has taken away what was written
// may show at once.
func (p *Process) ReadsBack(key string, wrote, shows uint64, err error) {
	if apierrors.IsNotFound(err) && p.world.tookAway(p.Name, key) {
		return
	}
	if err != nil || shows < wrote {
		p.world.breaks(OwnWrites, "%s wrote %s at %d and reads %d, %v", p.Name, key, wrote, shows, err)
	}
}

// launch starts a process, again and again until it starts, as a supervisor does, unless ctx ends.
func (w *world) launch(ctx context.Context) *Process {
	w.mu.Lock()
	w.started++
	name := fmt.Sprint("r", w.started)
	w.mu.Unlock()
	for ctx.Err() == nil {
		w.mu.Lock()
		w.starts[name] = time.Now()
		w.mu.Unlock()
		p, err := w.start(name)
		if err == nil {
			w.note(name, "starts")
			w.mu.Lock()
			w.processes = append(w.processes, p)
			w.mu.Unlock()
			return p
		}
		w.note(name, "does not start: %v", err)
		sleep(ctx, 2*time.Second)
	}
	return nil
}

func (w *world) start(name string) (_ *Process, err error) {
	p := w.newProcess(name)
	if p.wire, err = newWire(w, name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	p.Conn, err = nats.Connect(p.wire.proxy.URL(), natstest.Dialer(), nats.Name(name), nats.UserInfo(replicaUser, ""),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectWait(500*time.Millisecond),
		nats.PingInterval(10*time.Second), nats.MaxPingsOutstanding(2),
		nats.ReconnectBufSize(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, err
	}
	if p.JetStream, err = jetstream.New(p.Conn); err != nil {
		return nil, err
	}
	ctx := klog.NewContext(context.Background(), w.logger(name))
	starting, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if p.c, err = w.subject.Start(starting, p); err != nil {
		return nil, err
	}
	ctx, p.stop = context.WithCancel(ctx)
	go func() {
		defer close(p.done)
		p.err = p.c.Run(ctx)
		if p.err != nil {
			w.note(name, "Run: %v", p.err)
		}
	}()
	return p, nil
}

// close ends what start began.
func (p *Process) close() {
	for i := len(p.closing) - 1; i >= 0; i-- {
		p.closing[i]()
	}
	if p.Conn != nil {
		p.Conn.Close()
	}
	p.wire.proxy.Close()
}

// end stops a process. After a crash nothing that it still does reaches the server.
func (p *Process) end(crashed bool) {
	p.gone.Store(true)
	p.world.mu.Lock()
	p.world.ends[p.Name] = time.Now()
	p.world.mu.Unlock()
	if crashed {
		p.wire.die()
	}
	p.stop()
	timer := time.NewTimer(longestStop)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.world.breaks(Ended, "%s has not returned from Run %v after its context ended", p.Name, longestStop)
		<-p.done
	}
	if p.err != nil && !crashed {
		p.world.breaks(Ended, "%s: Run returned %v", p.Name, p.err)
	}
	p.close()
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	delete(p.world.members, p.Name)
}

// longestStop is how long Run may take to return: reconciles have their grace period, and more if they are deaf.
const longestStop = 2 * time.Minute

// living are the processes that run.
func (w *world) living() (living []*Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		if !p.gone.Load() {
			living = append(living, p)
		}
	}
	return living
}

// leader is the process that leads, or nil.
func (w *world) leader() *Process {
	for _, p := range w.living() {
		if p.c.Stats().Leading {
			return p
		}
	}
	return nil
}

// victim is the process to which an event happens, or nil.
func (w *world) victim(e Event, at place) *Process {
	living := w.living()
	if len(living) == 0 {
		return nil
	}
	if e.Who == Doer {
		if i := slices.IndexFunc(living, func(p *Process) bool { return p.Name == at.by }); i >= 0 {
			return living[i]
		}
		return nil
	}
	if e.Who == Leader {
		if p := w.leader(); p != nil {
			return p
		}
	}
	return living[max(e.Who, 0)%len(living)]
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
