//go:build unix

// Command naps runs a program and stops it for 13 ms at a time, as a quota of processor time does to a container that
// has used it up: timers fire late and several at once, and a goroutine may rest between any two instructions. make
// naps runs all tests that way.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// nap is how long a program stands still. A quota counts in periods of 100 ms, and is often used up early by programs
// with many threads; so the program works for about as long as it rests.
const nap = 13 * time.Millisecond

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: naps program [argument…]")
		os.Exit(2)
	}
	program := exec.Command(os.Args[1], os.Args[2:]...)
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := program.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "naps:", err)
		os.Exit(1)
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	for asleep := false; ; {
		wait := nap
		if !asleep {
			wait = nap/2 + rand.N(nap)
		}
		select {
		case err := <-ended:
			os.Exit(exitCode(err))
		case got := <-signals:
			_ = program.Process.Signal(got)
		case <-time.After(wait):
			asleep = !asleep
			next := syscall.SIGCONT
			if asleep {
				next = syscall.SIGSTOP
			}
			_ = program.Process.Signal(next) // fails if it has ended, which the next round finds
		}
	}
}

func exitCode(err error) int {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(failed.ExitCode(), 1) // -1 if a signal ended it
	}
	if err != nil {
		return 1
	}
	return 0
}
