package kubetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/kubetest"
)

// source is a module that takes a moment to build, in place of the API server's.
func source(t *testing.T, program string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module example.com/server\n\ngo 1.26.0\n", "main.go": program} {
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

func TestAHalfBuiltBinaryIsNotUsedAndDoesNotStay(t *testing.T) {
	source(t, emptyProgram)
	dir := cache(t)
	half := filepath.Join(dir, "unfinished-1")
	if err := os.WriteFile(half, []byte("half"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if path, err := kubetest.Binary(ctx); err == nil {
		t.Errorf("a build that was not done gave %s", path)
	}
	path, err := kubetest.Binary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) == "half" {
		t.Errorf("%s is %q, %v", path, content, err)
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed build left: %v", err)
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
		if recover() != f || !strings.Contains(f.message, "NAGI_KUBETEST_SOURCE") || !strings.Contains(f.message, "test/kubetest/apiserver") {
			t.Errorf("it said %q", f.message)
		}
	}()
	kubetest.Start(f)
	t.Error("it started")
}

func TestAReadyMadeBinaryThatIsNotThereIsNamed(t *testing.T) {
	t.Setenv("NAGI_KUBETEST_BINARY", filepath.Join(t.TempDir(), "absent"))
	_, err := kubetest.Binary(t.Context())
	if err == nil || !strings.Contains(err.Error(), "absent") || !strings.Contains(err.Error(), "NAGI_KUBETEST_BINARY") {
		t.Errorf("error: %v", err)
	}
}
