package controller

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/nagi-runtime/nagi/internal/lease"
)

// sameSignal is how long after the first signal another one of its kind counts as the same. What sends one signal twice
// does so within milliseconds: timeout(1), and a shell, send it to the process and to its group. A person who presses
// Ctrl-C once more because nothing seems to happen takes longer.
const sameSignal = 500 * time.Millisecond

// SignalContext returns a context that ends with the first SIGINT or SIGTERM, so that Run stops gracefully. The second
// signal ends the process at once with exit code 1, and says so on stderr. Before that it has other replicas wait for
// two seconds only, instead of the whole duration of the lease, if that can be written within a second; it holds for
// what runs under the context. A signal of the same kind within half a second of the first is not a second one. The
// returned function cancels the context and stops catching signals.
func SignalContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, exit := lease.WithExit(parent)
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	done := make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if second := awaitSecond(signals, done, cancel); second != nil {
			tellExit(os.Stderr, second, exit.Leave)
			os.Exit(1)
		}
	}()
	var once sync.Once
	return ctx, func() {
		cancel()
		once.Do(func() {
			signal.Stop(signals)
			close(done)
		})
	}
}

// awaitSecond calls stop for the first signal, and returns the second; nil once done is closed.
func awaitSecond(signals <-chan os.Signal, done <-chan struct{}, stop func()) os.Signal {
	var first os.Signal
	select {
	case first = <-signals:
		stop()
	case <-done:
		return nil
	}
	for began := time.Now(); ; {
		select {
		case s := <-signals:
			if s != first || time.Since(began) >= sameSignal {
				return s
			}
		case <-done:
			return nil
		}
	}
}

// printPatience is how long stderr may hold up the end of the process: nobody may read the pipe that it is.
const printPatience = 100 * time.Millisecond

// tellExit says what the second signal does. leave has other replicas wait less for the leases of this process.
func tellExit(to io.Writer, second os.Signal, leave func() (held, left int)) {
	say(to, "second signal (%v): the process ends at once, with exit code 1, not gracefully\n", second)
	if held, left := leave(); held > 0 {
		say(to, "%d of %d leases are left to other replicas within moments\n", left, held)
	}
}

// say prints, and waits for that no longer than printPatience.
func say(to io.Writer, format string, args ...any) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = fmt.Fprintf(to, format, args...)
	}()
	select {
	case <-said:
	case <-time.After(printPatience):
	}
}
