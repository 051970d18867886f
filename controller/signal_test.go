package controller

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
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
	case "stubborn":
		<-ctx.Done()
		fmt.Println("stopped", ctx.Err())
		<-time.After(time.Minute)
	}
	os.Exit(99)
}

// child is a process that runs TestSignalChild.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
}

func startChild(t *testing.T, role string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSignalChild$")
	cmd.Env = append(os.Environ(), signalChild+"="+role)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	c := &child{t: t, cmd: cmd, out: bufio.NewReader(out)}
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
