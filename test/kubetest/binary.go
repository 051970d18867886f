package kubetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	binaryVariable = "NAGI_KUBETEST_BINARY"
	cacheVariable  = "NAGI_KUBETEST_CACHE"
	sourceVariable = "NAGI_KUBETEST_SOURCE"

	modulePath = "github.com/nagi-runtime/nagi"
	// sourceDir is where the module of the server is, below the root of Nagi.
	sourceDir = "test/kubetest/apiserver"

	binaryPrefix = "kube-apiserver-"
	// keepUnused is how long a binary is kept that nobody uses. A branch may be left for holidays.
	keepUnused = 30 * 24 * time.Hour
)

// buildFlags make the binary small, without symbols for debuggers. Packages are compiled with the usual flags, so that
// go vet and this build share the compiled packages, which take minutes.
var buildFlags = []string{"-buildvcs=false", "-ldflags=-s -w"}

// Binary returns the path of the server's binary, and builds it first if this machine has none yet. That takes
// minutes. Processes that ask at the same time wait for one build. [Open] and [Start] call Binary; call it earlier to
// keep the build out of their time limits.
func Binary(ctx context.Context) (string, error) {
	if path := os.Getenv(binaryVariable); path != "" {
		return readyMade(path)
	}
	source, err := findSource(ctx)
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	key, err := buildKey(ctx, source)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, binaryPrefix+key)
	if use(path) {
		return path, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return "", fmt.Errorf("wait for another process that builds kube-apiserver: %w", err)
	}
	defer unlock()
	if use(path) {
		return path, nil
	}
	removeUnused(cache)
	return path, build(ctx, source, path)
}

// use reports whether the binary exists, and marks it as used for removeUnused, once a day. A binary that exists is
// complete: the last step of a build gives it its name.
func use(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	now := time.Now()
	if now.Sub(info.ModTime()) < 24*time.Hour {
		return true
	}
	return !errors.Is(os.Chtimes(path, now, now), os.ErrNotExist) // a read-only cache will do
}

// removeUnused removes the binaries of former sources and Go versions: each takes 100 MB. The caller holds the lock.
func removeUnused(cache string) {
	binaries, _ := filepath.Glob(filepath.Join(cache, binaryPrefix+"*")) // it fails for bad patterns only
	for _, path := range binaries {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > keepUnused {
			_ = os.Remove(path) // what is left only takes space
		}
	}
}

func readyMade(path string) (string, error) {
	path, err := filepath.Abs(path) // go test runs in the directory of the package
	if err != nil {
		return "", fmt.Errorf("%s: %w", binaryVariable, err)
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("%s does not name a program: %w; correct it, or unset it to have one built",
			binaryVariable, err)
	}
	return path, nil
}

func cacheDir() (string, error) {
	dir := os.Getenv(cacheVariable)
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a directory for the built kube-apiserver: %w; name one with %s",
				err, cacheVariable)
		}
		dir = filepath.Join(user, "nagi", "kubetest")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", cacheVariable, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the directory for the built kube-apiserver: %w; name another one with %s",
			err, cacheVariable)
	}
	return dir, nil
}

// findSource finds the server's module: where the user says, beside this file, or in the checkout of the go command.
func findSource(ctx context.Context) (string, error) {
	if dir := os.Getenv(sourceVariable); dir != "" {
		if !isModule(dir) {
			return "", fmt.Errorf("%s=%s holds no go.mod; it must be %s in a clone of %s",
				sourceVariable, dir, sourceDir, modulePath)
		}
		return filepath.Abs(dir)
	}
	// With -trimpath the name of this file begins with the module's path and is no help.
	if _, file, _, ok := runtime.Caller(0); ok {
		if dir := filepath.Join(filepath.Dir(file), filepath.Base(sourceDir)); filepath.IsAbs(dir) && isModule(dir) {
			return dir, nil
		}
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", modulePath)
	if root, err := list.Output(); err == nil {
		if dir := filepath.Join(strings.TrimSpace(string(root)), filepath.FromSlash(sourceDir)); isModule(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("the sources of the API server are not here: "+
		"the module cache does not hold them, as they are a module of their own; "+
		"clone %s and set %s to its %s, or set %s to a binary built there",
		modulePath, sourceVariable, sourceDir, binaryVariable)
}

func isModule(dir string) bool { return isFile(filepath.Join(dir, "go.mod")) }

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// buildKey returns a key that changes with everything that makes a different binary.
func buildKey(ctx context.Context, source string) (string, error) {
	version, err := goCommand(ctx, source, "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED").Output()
	if err != nil {
		return "", fmt.Errorf("ask the go command for its version: %w", withStderr(err))
	}
	sum := sha256.New()
	fmt.Fprintln(sum, string(version), buildFlags)
	entries, err := os.ReadDir(source) // in the order of names
	if err != nil {
		return "", fmt.Errorf("read the sources of the API server: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if name != "go.mod" && name != "go.sum" && filepath.Ext(name) != ".go" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", fmt.Errorf("read the sources of the API server: %w", err)
		}
		fmt.Fprintln(sum, name, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// build makes the binary at path, whole or not at all. The caller holds the lock.
func build(ctx context.Context, source, path string) error {
	fmt.Fprintf(os.Stderr, "kubetest: building kube-apiserver, once and for some minutes, as %s\n", path)
	unfinished := filepath.Join(filepath.Dir(path), "unfinished-")
	removeUnfinished(unfinished)
	temporary := fmt.Sprint(unfinished, os.Getpid())
	command := goCommand(ctx, source, append(append([]string{"build"}, buildFlags...), "-o", temporary, ".")...)
	if output, err := command.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w); what is compiled by now is kept by Go, so another try gets further",
				err, ctx.Err())
		}
		return fmt.Errorf("build kube-apiserver in %s: %w\n%s", source, err, output)
	}
	if err := syncFile(temporary); err != nil {
		return fmt.Errorf("write kube-apiserver to disk: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("name the built kube-apiserver: %w", err)
	}
	return nil
}

// removeUnfinished removes the files of builds that were killed.
func removeUnfinished(prefix string) {
	left, _ := filepath.Glob(prefix + "*") // it fails for bad patterns only
	for _, path := range left {
		_ = os.Remove(path) // what is left only takes space
	}
}

// goCommand returns a go command in the server's module, without the flags and the workspace of the test.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	return command
}

// syncFile writes a file's content to disk, so that the file with its final name is whole even if the machine goes
// down.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// withStderr adds what a command printed to its error.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}
