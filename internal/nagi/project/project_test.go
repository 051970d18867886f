package project

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// inProject runs a program of Go in a project.
func inProject(t *testing.T, p Project, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = p.Dir
	// A project of its own is in no workspace, and what it needs is what the source of Nagi needs.
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func source(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestWhatIsMadeBuildsPassesItsTestsAndRuns meets the real go command, and the program that it builds: real processes.
func TestWhatIsMadeBuildsPassesItsTestsAndRuns(t *testing.T) {
	p := Project{Dir: filepath.Join(t.TempDir(), "sites"), Module: "example.com/sites", Source: source(t)}
	site := Kind{Kind: "Site", APIVersion: "example.com/v1", Bucket: "sites", Namespaced: true}
	if _, err := p.Init(site); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddKind(Kind{Kind: "PageTheme", Bucket: "themes"}); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(source(t), "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	// The sums are known, so that nothing is asked of the network.
	if err := os.WriteFile(filepath.Join(p.Dir, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := inProject(t, p, "vet", "./..."); out != "" {
		t.Errorf("go vet says\n%s", out)
	}
	if out := inProject(t, p, "test", "./..."); strings.Count(out, "ok  \t") != 1 {
		t.Errorf("go test says\n%s", out)
	}
	bin := filepath.Join(p.Dir, p.Name())
	inProject(t, p, "build", "-o", bin, ".")
	roles, err := exec.CommandContext(t.Context(), bin, "-only=permissions").Output()
	if err != nil || !bytes.Contains(roles, []byte("$KV.themes-status.>")) || !bytes.Contains(roles, []byte("nagi_service")) {
		t.Errorf("the roles are\n%s%v", roles, err)
	}
	runs(t, p)
}

// runs builds the program of the folder dev, on another port, and waits until its kinds are in the registry.
func runs(t *testing.T, p Project) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	dev := filepath.Join(p.Dir, "dev.bin")
	inProject(t, p, "build", "-o", dev, "./dev")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, dev, "-port", strconv.Itoa(port), "-address", "")
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("nats://127.0.0.1:"+strconv.Itoa(port), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for ctx.Err() == nil && len(have) < 2 {
		time.Sleep(50 * time.Millisecond)
		have = nil
		if found, err := registry.List(ctx, js); err == nil {
			for _, e := range found.Entries {
				have = append(have, e.Kind)
			}
		}
	}
	cancel()
	_ = cmd.Wait()
	if !slices.Equal(have, []string{"PageTheme", "Site"}) {
		t.Errorf("the registry has %v; the program said\n%s", have, said.String())
	}
}

func TestNothingIsWrittenOver(t *testing.T) {
	p := Project{Dir: t.TempDir(), Module: "example.com/sites", Version: "v1.0.0"}
	site := Kind{Kind: "Site", Bucket: "sites"}
	mine := filepath.Join(p.Dir, "mine.txt")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Init(site); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("into a directory with a file: %v", err)
	}
	if _, err := p.AddKind(site); err == nil || !strings.Contains(err.Error(), "no project that nagi init made") {
		t.Errorf("a kind for no project: %v", err)
	}
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Init(site); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddKind(site); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a kind that is there: %v", err)
	}
	setup := filepath.Join(p.Dir, "internal", "controllers", "setup.go")
	if err := os.WriteFile(setup, []byte("package controllers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddKind(Kind{Kind: "Other", Bucket: "others"}); err == nil || !strings.Contains(err.Error(), marker) {
		t.Errorf("where the line is gone: %v", err)
	}
	if module, err := Module(p.Dir); module != p.Module {
		t.Errorf("module %q, %v", module, err)
	}
}

func TestNamesThatCannotBeAreRefused(t *testing.T) {
	for _, k := range []Kind{
		{Kind: "site", Bucket: "b"}, {Kind: "", Bucket: "b"}, {Kind: "Si te", Bucket: "b"}, {Kind: "Site", Bucket: "a.b"},
		{Kind: "Site"}, {Kind: "Setup", Bucket: "b"},
	} {
		if k.Check() == nil {
			t.Errorf("%+v is taken", k)
		}
	}
	for _, module := range []string{"", "sites", "example.com/", "exa mple.com/x", `example.com/"x`} {
		p := Project{Dir: filepath.Join(t.TempDir(), "x"), Module: module}
		if _, err := p.Init(Kind{Kind: "Site", Bucket: "sites"}); err == nil {
			t.Errorf("the module %q is taken", module)
		}
	}
}
