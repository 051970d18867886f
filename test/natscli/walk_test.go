// Package natscli walks through the pages with the real nats command line: from an empty server, with accounts and
// users, to a reader's question, and through each command that README.md and docs show.
//
// What is tried here is what the command line sends and what a nats-server that was configured by a file lets pass, so
// server, program and command line are processes with real sockets. nats-server and the command line are those of the
// go.mod of this module, which is one of its own so that Nagi does not depend on them. They are built once: go tool
// keeps the command line in Go's build cache.
package natscli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// folder is that of programs, once it is made.
var folder string

// programs is the folder with nats, nats-server, nagi, websites and quickstart. It is made once, and removed by TestMain.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "natscli")
	if err != nil {
		return "", err
	}
	folder = dir
	goTool := func(in string, args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		var said bytes.Buffer
		cmd.Stderr = &said
		out, failed := cmd.Output()
		if failed != nil {
			err = errors.Join(err, failed, errors.New(said.String()))
		}
		return strings.TrimSpace(string(out))
	}
	nats := goTool(".", "tool", "-n", "nats")
	goTool(root, "build", "-buildvcs=false", "-o", filepath.Join(dir, "nats-server"), "./test/servers/current")
	goTool(root, "build", "-buildvcs=false", "-o", filepath.Join(dir, "quickstart"), "./examples/quickstart")
	goTool(root, "build", "-buildvcs=false", "-o", filepath.Join(dir, "nagi"), "./cmd/nagi")
	goTool(".", "build", "-buildvcs=false", "-o", filepath.Join(dir, "websites"), "./websites")
	return dir, errors.Join(err, os.Symlink(nats, filepath.Join(dir, "nats")))
})

func TestMain(m *testing.M) {
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// walk is a walk on one server.
type walk struct {
	*testing.T
	programs, dir, url string
	ctx                context.Context
}

func begin(t *testing.T) *walk {
	t.Helper()
	dir, err := programs() // the first time it takes minutes
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return &walk{T: t, programs: dir, dir: t.TempDir(), ctx: ctx}
}

// command is a program that knows nothing of the contexts and variables of who runs the test.
func (w *walk) command(name string, args ...string) *exec.Cmd {
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(w.programs, name)
	}
	cmd := exec.CommandContext(w.ctx, path, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{
		"HOME=" + w.dir, "XDG_CONFIG_HOME=" + w.dir, "XDG_DATA_HOME=" + w.dir,
		"PATH=" + w.programs + ":" + os.Getenv("PATH"),
	}
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

// typed runs a command of a page that is none of the nats command line, with other words in place of some.
func (w *walk) typed(page, command string, with ...string) {
	w.Helper()
	w.sh("", w.onPage(page, command, with...))
}

// onPage is a command that the page has.
func (w *walk) onPage(page, command string, with ...string) string {
	w.Helper()
	if !strings.Contains(readPage(w.T, page), command) {
		w.Fatalf("%s does not have: %s", page, command)
	}
	return strings.NewReplacer(append(with, "nats://nats:4222", w.url)...).Replace(command)
}

// shell is a line of a shell, in a context of the nats command line, or at the server as nobody.
func (w *walk) shell(as, line string) *exec.Cmd {
	cmd := w.command("/bin/sh", "-c", line)
	switch as {
	case "":
	case nobody:
		cmd.Env = append(cmd.Env, "NATS_URL="+w.url)
	default:
		cmd.Env = append(cmd.Env, "NATS_CONTEXT="+as)
	}
	return cmd
}

// nobody is at a server without users.
const nobody = "nobody"

// try runs a line of a shell.
func (w *walk) try(as, line string) (out, said string, err error) {
	cmd := w.shell(as, line)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// sh is what a line of a shell prints, which ends well, and soon: what the command line may not do it waits for, for five
// seconds.
func (w *walk) sh(as, line string) string {
	w.Helper()
	began := time.Now()
	out, said, err := w.try(as, line)
	if err != nil || strings.Contains(said, "ermissions Violation") {
		w.Fatalf("%s: %s: %v\n%s%s", as, line, err, out, said)
	}
	if took := time.Since(began); took > 4500*time.Millisecond && strings.HasPrefix(line, "nats") {
		w.Errorf("%s: %s took %v: it waits for what it may not do\n%s%s", as, line, took, out, said)
	}
	return out
}

// until runs a line that asks until it prints a text.
func (w *walk) until(want, as, line string) string {
	w.Helper()
	var out string
	w.untilTrue(as+": "+line+" prints "+want, func() bool {
		var err error
		out, _, err = w.try(as, line)
		return err == nil && strings.Contains(out, want)
	})
	return out
}

func (w *walk) untilTrue(what string, holds func() bool) {
	w.Helper()
	for !holds() {
		select {
		case <-w.ctx.Done():
			w.Fatalf("never: %s", what)
		case <-time.After(50 * time.Millisecond):
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

// saveContexts makes a context for each user, as the page says for the reader.
func (w *walk) saveContexts() {
	w.Helper()
	const command = "nats context save reader --server=nats://nats:4222 --user=reader --password='change me 5' " +
		"--inbox-prefix=_INBOX_reader"
	for user, password := range map[string]string{
		"bootstrap": "change me 1", "operator": "change me 4", "reader": "change me 5", "writer": "change me 6",
	} {
		w.sh("", w.onPage("docs/production.md", command, "reader", user, "change me 5", password))
	}
}

// runProgram makes the buckets and starts the program, as the production page says.
func (w *walk) runProgram(flags ...string) {
	w.Helper()
	const page = "docs/production.md"
	program := strings.Join(append([]string{"exec websites"}, flags...), " ")
	w.sh("", w.onPage(page, "NATS_URL=nats://nats:4222 PASSWORD='change me 1' websites -only=buckets -as=bootstrap",
		" websites", " "+program))
	w.start(w.command("/bin/sh", "-c", w.onPage(page,
		"NATS_URL=nats://nats:4222 PASSWORD='change me 2' SERVICE_PASSWORD='change me 3' websites",
		" websites", " "+program)))
}

// TestFromAnEmptyServerToAReadersQuestion: each user has the printed set of its role, and nothing else.
func TestFromAnEmptyServerToAReadersQuestion(t *testing.T) {
	w := begin(t)
	w.printRoles()
	w.configure("docs/production.md")
	w.saveContexts()
	w.runProgram()

	w.sh("writer", `nats kv put websites shop '{"spec":{"title":"Shop"}}'`)
	w.until(`"phase":"Synced"`, "reader", "nats kv get --raw websites-status shop")
	for _, role := range []string{"reader", "operator"} {
		w.has(w.sh(role, "nats kv get --raw websites shop"), `"title":"Shop"`)
		w.has(w.sh(role, "nats kv ls websites"), "shop")
		w.has(w.sh(role, "nats kv get --raw websites-status _nagi.lease"), "holder")
		w.until("Website", role, "nats kv ls nagi-kinds")
		w.has(w.sh(role, "nats kv get --raw nagi-kinds Website"), `"websites"`)
		w.has(w.sh(role, "nats stream info KV_websites"), "Messages: 1")
		w.until("nagi", role, "nats micro ls")
		w.has(w.until("says", role, `nats req nagi.websites.read.explain '{"key":"shop"}'`), "as it should be")
	}
	w.has(w.sh("operator", `nats req nagi.websites.act.suspend '{"key":"shop"}'`), "{")
	w.until(`"phase":"Suspended"`, "reader", "nats kv get --raw websites-status shop")
	w.has(w.sh("reader", "nats stream info NAGI_EVENTS"), "nagi.events.>")
	w.sh("writer", "nats kv del -f websites shop")

	// What the roles are not for is refused.
	for role, command := range map[string]string{
		"reader":    "nats --timeout=1s kv put websites other {}",
		"writer":    "nats --timeout=1s kv get --raw websites shop",
		"bootstrap": "nats --timeout=1s kv put websites other {}",
	} {
		if out, _, err := w.try(role, command); err == nil {
			t.Errorf("%s may: %s: %s", role, command, out)
		}
	}
}
