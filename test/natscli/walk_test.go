// Package natscli walks through the production page with the real nats command line: from an empty server, with
// accounts and users, to a reader's question. And it restores a backup with the commands of the page about that.
//
// What is tried here is what the command line sends and what a nats-server that was configured by a file lets pass, so
// server, program and command line are processes with real sockets. nats-server and the command line are those of the
// go.mod of this module, which is one of its own so that Nagi does not depend on them. They are built once: go tool
// keeps the command line in Go's build cache.
package natscli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// root is the main module.
const root = "../.."

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// built are the programs of the walk.
type built struct{ nats, server, program string }

func build(t *testing.T) (b built) {
	t.Helper()
	goTool := func(dir string, args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &said)
		}
		return strings.TrimSpace(string(out))
	}
	b.nats = goTool(".", "tool", "-n", "nats")
	dir := t.TempDir()
	b.server, b.program = filepath.Join(dir, "nats-server"), filepath.Join(dir, "websites")
	goTool(root, "build", "-buildvcs=false", "-o", b.server, "./test/servers/current")
	goTool(".", "build", "-buildvcs=false", "-o", b.program, "./websites")
	return b
}

// walk is a walk on one server.
type walk struct {
	*testing.T
	built
	dir, url string
	ctx      context.Context
}

// command is a program that knows nothing of the contexts and variables of who runs the test.
func (w *walk) command(path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.ctx, path, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{"HOME=" + w.dir, "XDG_CONFIG_HOME=" + w.dir, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// start runs a program until the end of the test. What it says is shown if the test fails.
func (w *walk) start(cmd *exec.Cmd) {
	w.Helper()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	stdin, err := cmd.StdinPipe() // the server ends with it
	must(w.T, err)
	must(w.T, cmd.Start())
	w.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = stdin.Close()
		_ = cmd.Wait()
		if w.Failed() {
			w.Logf("%s said:\n%s", filepath.Base(cmd.Path), &said)
		}
	})
}

// asked is what the command line of a role says, at once: what it may not do it waits for, for five seconds.
func (w *walk) asked(role string, args ...string) string {
	w.Helper()
	began := time.Now()
	out, err := w.tried(role, args...)
	if err != nil || strings.Contains(out, "ermissions") {
		w.Fatalf("%s: nats %q: %v\n%s", role, args, err, out)
	}
	if took := time.Since(began); took > 4*time.Second {
		w.Errorf("%s: nats %q took %v: it waits for what it may not do\n%s", role, args, took, out)
	}
	return out
}

// tried is asked without a demand.
func (w *walk) tried(role string, args ...string) (string, error) {
	cmd := w.command(w.nats, append([]string{
		"--server", w.url, "--user", role, "--password", "x", "--inbox-prefix=_INBOX_" + role}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// until asks until the answer has a text.
func (w *walk) until(want, role string, args ...string) string {
	w.Helper()
	for {
		out, err := w.tried(role, args...)
		if err == nil && strings.Contains(out, want) {
			return w.asked(role, args...)
		}
		select {
		case <-w.ctx.Done():
			w.Fatalf("%s: nats %q never says %q: %v\n%s", role, args, want, err, out)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// has checks an answer.
func (w *walk) has(out string, wants ...string) {
	w.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			w.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestFromAnEmptyServerToAReadersQuestion: each user has the printed set of its role, and nothing else.
func TestFromAnEmptyServerToAReadersQuestion(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	w := &walk{T: t, built: build(t), dir: t.TempDir(), ctx: ctx}

	// What the program needs is printed, and configured.
	roles, err := w.command(w.program, "-only=permissions").Output()
	must(t, err)
	w.configure(string(roles))

	// The buckets are made, once.
	if said, err := w.command(w.program, "-only=buckets", "-url="+w.url, "-user=bootstrap").CombinedOutput(); err != nil {
		t.Fatalf("making the buckets: %v\n%s", err, said)
	}
	// The program runs, and only binds.
	w.start(w.command(w.program, "-url="+w.url))

	w.asked("writer", "kv", "put", "websites", "shop", `{"spec":{"title":"Shop"}}`)
	w.until(`"phase":"Synced"`, "reader", "kv", "get", "--raw", "websites-status", "shop")
	for _, role := range []string{"reader", "operator"} {
		w.has(w.asked(role, "kv", "get", "--raw", "websites", "shop"), `"title":"Shop"`)
		w.has(w.asked(role, "kv", "ls", "websites"), "shop")
		w.has(w.asked(role, "kv", "get", "--raw", "websites-status", "_nagi.lease"), "holder")
		w.until("Website", role, "kv", "ls", "nagi-kinds")
		w.has(w.asked(role, "kv", "get", "--raw", "nagi-kinds", "Website"), `"websites"`)
		w.has(w.asked(role, "stream", "info", "KV_websites"), "Messages: 1")
		w.until("nagi", role, "micro", "ls")
		w.has(w.until("says", role, "req", "--raw", "nagi.websites.read.explain", `{"key":"shop"}`), "as it should be")
	}
	w.has(w.asked("operator", "req", "--raw", "nagi.websites.act.suspend", `{"key":"shop"}`), "{")
	w.until(`"phase":"Suspended"`, "reader", "kv", "get", "--raw", "websites-status", "shop")
	w.has(w.asked("reader", "stream", "info", "NAGI_EVENTS"), "nagi.events.>")
	w.asked("writer", "kv", "del", "-f", "websites", "shop")

	// What the roles are not for is refused.
	for role, args := range map[string][]string{
		"reader":    {"kv", "put", "websites", "other", "{}"},
		"writer":    {"kv", "get", "--raw", "websites", "shop"},
		"bootstrap": {"kv", "put", "websites", "other", "{}"},
	} {
		if out, err := w.tried(role, append([]string{"--timeout=1s"}, args...)...); err == nil {
			t.Errorf("%s may %q: %s", role, args, out)
		}
	}
}
