package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// binary is the program, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "quickstart")
	code := 1
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// quickstart returns a command that runs the program.
func quickstart(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, binary, args...)
}

func TestScenarioHoldsOnAnEmbeddedServer(t *testing.T) {
	t.Parallel()
	out, err := quickstart(t).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "steps hold") {
		t.Fatalf("exit: %v\n%s", err, out)
	}
}

func TestScenarioHoldsTwiceOnTheUsersServer(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	for range 2 {
		out, err := quickstart(t, "-url", server.URL()).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "steps hold") {
			t.Fatalf("exit: %v\n%s", err, out)
		}
	}
}

func TestFailureNamesWhatFailedAndExitsWithOne(t *testing.T) {
	t.Parallel()
	out, err := quickstart(t, "-url", "nats://127.0.0.1:1").CombinedOutput()
	exit, ok := err.(*exec.ExitError)
	if !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "FAILED: connect to nats://127.0.0.1:1") {
		t.Fatalf("exit: %v\n%s", err, out)
	}
}

func TestServeReconcilesWhatAnotherProgramPuts(t *testing.T) { // not in parallel: another server could take its port
	free := natstest.Start(t) // it finds a port, which is free after it has stopped
	free.Stop()
	program := quickstart(t, "-serve", "-port", strconv.Itoa(free.Port()))
	says, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(says)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Interrupt") {
	}
	_, js := natstest.Connect(t, free.URL())
	websites, err := js.KeyValue(t.Context(), "websites")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := js.KeyValue(t.Context(), "pages")
	if err != nil {
		t.Fatal(err)
	}
	watch, err := pages.Watch(t.Context(), "blog.home", jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Stop() }()
	if _, err := websites.Put(t.Context(), "blog",
		[]byte(`{"spec":{"domain":"blog.example","pages":["home"]}}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-watch.Updates():
	case <-time.After(time.Minute):
		t.Error("no page for the website that was put")
	}
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := program.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}
