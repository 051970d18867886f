package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built holds the programs that tests have asked for.
type built struct {
	mu  sync.Mutex // builds go one after the other: each uses all processors
	dir string
	err map[string]error
}

var programs built

// path returns the program of a version, which it builds if no other test did. What Go has compiled before it only
// links.
func (b *built) path(t *testing.T, v version) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		dir, err := os.MkdirTemp("", "nagi-servers-")
		must(t, err)
		b.dir, b.err = dir, map[string]error{}
	}
	path := filepath.Join(b.dir, v.program)
	if _, tried := b.err[v.program]; !tried {
		b.err[v.program] = build(v, path)
	}
	must(t, b.err[v.program])
	return path
}

func build(v version, path string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, ".")
	cmd.Dir = v.program
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build nats-server %s*: %w\n%s", v.line, err, said)
	}
	return nil
}

func (b *built) remove() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}
