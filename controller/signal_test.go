package controller

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// signalChild names what a child process of these tests does; it is empty in the tests' own process.
const signalChild = "NAGI_TEST_SIGNAL_CHILD"

// TestSignalChild is the child: a main function, as it would use SignalContext.
func TestSignalChild(t *testing.T) {
	role := os.Getenv(signalChild)
	if role == "" {
		return // it is for the tests below
	}
	ctx, cancel := SignalContext(context.Background())
	fmt.Println("ready")
	switch role {
	case "given back":
		cancel()
		cancel() // harmless
		fmt.Println("given back")
		<-time.After(time.Minute)
	case "graceful":
		<-ctx.Done()
		cancel()
		fmt.Println("stopped", ctx.Err())
		os.Exit(7)
	case "leads":
		leadUntilKilled(t, ctx)
	case "stubborn":
		<-ctx.Done()
		fmt.Println("stopped", ctx.Err())
		<-time.After(time.Minute)
	}
	os.Exit(99)
}

// signalServer is where the server of a child is.
const signalServer = "NAGI_TEST_SIGNAL_SERVER"

// leadUntilKilled leads, with a reconcile that does not return when it is stopped.
func leadUntilKilled(t *testing.T, ctx context.Context) {
	conn, err := nats.Connect(os.Getenv(signalServer))
	must(t, err)
	js, err := jetstream.New(conn)
	must(t, err)
	sites, err := entity.NewClient[*site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	must(t, err)
	begun := make(chan struct{})
	c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
		close(begun)
		<-time.After(time.Minute)
		return Result{}, nil
	}), WithGracePeriod(time.Minute))
	must(t, err)
	must(t, sites.Create(ctx, newSite("home", "")))
	go func() { _ = c.Run(ctx) }()
	<-begun
	fmt.Println("leads")
	<-ctx.Done()
	fmt.Println("stopped", ctx.Err())
	<-time.After(time.Minute)
}

// child is a process that runs TestSignalChild.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
	err strings.Builder // to be read when it has ended
}

func startChild(t *testing.T, role string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSignalChild$")
	cmd.Env = append(os.Environ(), signalChild+"="+role)
	out, err := cmd.StdoutPipe()
	must(t, err)
	c := &child{t: t, cmd: cmd, out: bufio.NewReader(out)}
	cmd.Stderr = &c.err
	must(t, cmd.Start())
	c.says("ready")
	return c
}

func (c *child) says(want string) {
	c.t.Helper()
	if line, err := c.out.ReadString('\n'); err != nil || line != want+"\n" {
		c.t.Fatalf("the child says %q, %v; want %q", line, err, want)
	}
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	must(c.t, c.cmd.Process.Signal(s))
}

func (c *child) status() syscall.WaitStatus {
	c.t.Helper()
	_, _ = io.Copy(io.Discard, c.out)
	if err := c.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		c.t.Fatal(err)
	}
	return c.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func TestFirstSignalStopsGracefully(t *testing.T) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			c := startChild(t, "graceful")
			c.signal(s)
			c.says("stopped context canceled")
			if status := c.status(); status.ExitStatus() != 7 {
				t.Errorf("the child ended with %v, want the exit code that it chose, 7", status)
			}
		})
	}
}

func TestSecondSignalEndsTheProcess(t *testing.T) {
	c := startChild(t, "stubborn")
	c.signal(syscall.SIGTERM)
	c.says("stopped context canceled")
	c.signal(os.Interrupt)
	if status := c.status(); status.ExitStatus() != 1 {
		t.Errorf("the child ended with %v, want exit code 1", status)
	}
}

func TestCancelGivesTheSignalsBack(t *testing.T) {
	c := startChild(t, "given back")
	c.says("given back")
	c.signal(syscall.SIGTERM)
	if status := c.status(); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("the child ended with %v, want by the signal, as if nobody had asked for it", status)
	}
}

func TestSignalContextEndsWithItsParent(t *testing.T) {
	type key struct{}
	reason := errors.New("the parent said so")
	parent, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
	ctx, cancel := SignalContext(parent)
	defer cancel()
	if ctx.Value(key{}) != "value" || ctx.Err() != nil {
		t.Errorf("value %v, error %v", ctx.Value(key{}), ctx.Err())
	}
	end(reason)
	receive(t, "the context ends", ctx.Done())
	if !errors.Is(context.Cause(ctx), reason) {
		t.Errorf("cause %v, want %v", context.Cause(ctx), reason)
	}
}

// TestASignalOfTheSameKindWithinMomentsIsTheSameOne: timeout(1) sends it to the process and to its group.
func TestASignalOfTheSameKindWithinMomentsIsTheSameOne(t *testing.T) {
	for name, test := range map[string]struct {
		second os.Signal
		after  time.Duration
		ends   bool
	}{
		"the same at once":                  {syscall.SIGTERM, 0, false},
		"the same a moment before":          {syscall.SIGTERM, sameSignal - time.Nanosecond, false},
		"the same later":                    {syscall.SIGTERM, sameSignal, true},
		"another kind, which is deliberate": {os.Interrupt, time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals, done, stopped := make(chan os.Signal), make(chan struct{}), make(chan struct{})
				second := make(chan os.Signal, 1)
				go func() { second <- awaitSecond(signals, done, func() { close(stopped) }) }()
				signals <- syscall.SIGTERM
				<-stopped
				synctest.Wait()
				time.Sleep(test.after)
				signals <- test.second
				synctest.Wait()
				if ends := len(second) == 1; ends != test.ends {
					t.Errorf("it ends the process: %v, want %v", ends, test.ends)
				}
				close(done)
			})
		})
	}
}

// TestTheSecondSignalLeavesTheLeaseAndSaysSo is in real time, because a process has to end: its stderr, its exit code,
// and that the lease which it held is soon another's. The server is the test's.
func TestTheSecondSignalLeavesTheLeaseAndSaysSo(t *testing.T) {
	s := natstest.Start(t)
	t.Setenv(signalServer, s.URL())
	c := startChild(t, "leads")
	c.says("leads")
	c.signal(syscall.SIGTERM)
	c.says("stopped context canceled")
	time.Sleep(sameSignal) // that of real signals, which is what this is about
	c.signal(syscall.SIGTERM)
	if status := c.status(); status.ExitStatus() != 1 {
		t.Errorf("the child ended with %v, want exit code 1", status)
	}
	said := c.err.String()
	if !strings.Contains(said, "second signal (terminated)") || !strings.Contains(said, "1 of 1 leases") {
		t.Errorf("it said %q", said)
	}
	conn, err := nats.Connect(s.URL())
	must(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	must(t, err)
	kv, err := js.KeyValue(t.Context(), "sites-status")
	must(t, err)
	entry, err := kv.Get(t.Context(), "_nagi.lease")
	must(t, err)
	if !strings.Contains(string(entry.Value()), `"leaseDurationSeconds":2,`) {
		t.Errorf("the lease is %s", entry.Value())
	}
}

// stalled is a stderr whose reader stands still.
type stalled chan struct{}

func (u stalled) Write(p []byte) (int, error) { <-u; return len(p), nil }

// TestAStderrThatNobodyReadsHoldsUpNoExit: it may be a pipe that is full.
func TestAStderrThatNobodyReadsHoldsUpNoExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stderr := make(stalled)
		defer close(stderr)
		began, left := time.Now(), false
		tellExit(stderr, os.Interrupt, func() (int, int) { left = true; return 1, 1 })
		if took := time.Since(began); took != 2*printPatience || !left {
			t.Errorf("it took %v, the leases were left: %v", took, left)
		}
	})
}
