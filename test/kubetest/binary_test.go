package kubetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// source is a module that takes a moment to build, in place of the API server's.
func source(t *testing.T, program string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":  "module example.com/server\n\ngo 1.26.0\n",
		"main.go": program,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("NAGI_KUBETEST_BINARY", "")
	t.Setenv("NAGI_KUBETEST_SOURCE", dir)
}

func cache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("NAGI_KUBETEST_CACHE", dir)
	return dir
}

const emptyProgram = "package main\n\nfunc main() {}\n"

func TestABinaryIsBuiltOnceForAllWhoAsk(t *testing.T) {
	source(t, emptyProgram)
	dir := cache(t)
	var wait sync.WaitGroup
	var mu sync.Mutex
	built := map[string]time.Time{}
	for range 5 {
		wait.Go(func() {
			path, err := kubetest.Binary(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			built[fmt.Sprint(path, info.ModTime())] = info.ModTime()
		})
	}
	wait.Wait()
	if len(built) != 1 {
		t.Errorf("built %v", built)
	}
	if left := files(t, dir); len(left) != 2 { // the binary and the lock
		t.Errorf("the cache has %v", left)
	}
}

func TestOtherSourcesAreAnotherBinary(t *testing.T) {
	cache(t)
	paths := map[string]bool{}
	for _, program := range []string{emptyProgram, emptyProgram + "// changed\n"} {
		source(t, program)
		path, err := kubetest.Binary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		paths[path] = true
	}
	if len(paths) != 2 {
		t.Errorf("built %v", paths)
	}
}

// stuckGo is a go command whose build writes half a binary and then does nothing until it is killed.
const stuckGo = `#!/bin/sh
test "$1" = build || exec %s "$@"
while test "$1" != -o; do shift; done
printf half >"$2"
exec sleep 600
`

func TestABuildThatIsKilledHalfwayIsNotUsedAndDoesNotStay(t *testing.T) {
	source(t, emptyProgram)
	dir := cache(t)
	realGo, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	commands, path := t.TempDir(), os.Getenv("PATH")
	if err := os.WriteFile(filepath.Join(commands, "go"), fmt.Appendf(nil, stuckGo, realGo), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", commands+string(filepath.ListSeparator)+path)

	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	built := make(chan error, 1)
	go func() {
		_, err := kubetest.Binary(ctx)
		built <- err
	}()
	halves := func() (found []string) {
		for _, name := range files(t, dir) {
			if content, _ := os.ReadFile(filepath.Join(dir, name)); string(content) == "half" {
				found = append(found, name)
			}
		}
		return found
	}
	natstest.Eventually(t, "half is built", func() bool { return len(halves()) == 1 })
	waiting, giveUp := context.WithTimeout(t.Context(), time.Second)
	defer giveUp()
	if path, err := kubetest.Binary(waiting); err == nil {
		t.Errorf("while it was being built somebody else got %s", path)
	}
	kill()
	if err := <-built; err == nil {
		t.Error("a build that was killed says nothing")
	}

	t.Setenv("PATH", path)
	binary, err := kubetest.Binary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command(binary).Run(); err != nil {
		t.Errorf("the binary does not run: %v", err)
	}
	if left := halves(); len(left) != 0 {
		t.Errorf("the killed build left %v", left)
	}
}

func TestBinariesThatNobodyUsesAnyMoreGo(t *testing.T) {
	dir := cache(t)
	long := time.Now().AddDate(0, -2, 0)
	build := func(program string) string {
		source(t, program)
		path, err := kubetest.Binary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	old, recent := filepath.Join(dir, "kube-apiserver-old"), filepath.Join(dir, "kube-apiserver-recent")
	for _, path := range []string{old, recent} {
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	used := build(emptyProgram)
	for _, path := range []string{old, used} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	build(emptyProgram)                  // uses the first binary again
	build(emptyProgram + "// changed\n") // makes another one
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a binary of two months ago: %v", err)
	}
	for _, path := range []string{recent, used} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("a binary that was used lately: %v", err)
		}
	}
}

func TestABuildThatFailsShowsWhatTheCompilerSaid(t *testing.T) {
	source(t, "package main\n\nfunc main() { undefinedName() }\n")
	dir := cache(t)
	_, err := kubetest.Binary(t.Context())
	if err == nil || !strings.Contains(err.Error(), "undefined: undefinedName") {
		t.Errorf("error: %v", err)
	}
	if left := files(t, dir); len(left) != 1 { // the lock
		t.Errorf("the cache has %v", left)
	}
}

// failing is a testing.TB that remembers what would have failed the test.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f)
}

func TestStartFailsTheTestWhereTheServerCannotBeBuilt(t *testing.T) {
	t.Setenv("NAGI_KUBETEST_BINARY", "")
	t.Setenv("NAGI_KUBETEST_SOURCE", t.TempDir())
	f := &failing{TB: t}
	defer func() {
		if recover() != f || !strings.Contains(f.message, "NAGI_KUBETEST_SOURCE") ||
			!strings.Contains(f.message, "test/kubetest/apiserver") {
			t.Errorf("it said %q", f.message)
		}
	}()
	kubetest.Start(f)
	t.Error("it started")
}

func TestAReadyMadeBinaryThatIsNotThereIsNamed(t *testing.T) {
	t.Setenv("NAGI_KUBETEST_BINARY", filepath.Join(t.TempDir(), "absent"))
	_, err := kubetest.Binary(t.Context())
	if err == nil || !strings.Contains(err.Error(), "absent") ||
		!strings.Contains(err.Error(), "NAGI_KUBETEST_BINARY") {
		t.Errorf("error: %v", err)
	}
}
