package rolling

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// beforeRebuild is the last commit of the code before the rebuild.
const beforeRebuild = "9cfc49a8822819f3a95372d1d789a86206499e41"

// side says which code a replica runs.
type side string

const (
	oldCode side = "old"
	newCode side = "new"
)

// childEnv makes this test binary a replica of today's code.
const childEnv = "NAGI_TEST_ROLLING_REPLICA"

// command runs a replica of a side.
func command(s side, args []string) *exec.Cmd {
	if s == oldCode {
		return exec.Command(filepath.Join(oldBuild.dir, "replica"), args...)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	return cmd
}

// oldBuild is the replica of the code before the rebuild.
var oldBuild struct {
	once sync.Once
	dir  string
	err  error
}

// needOldBuild builds the old replica, if no other test did.
func needOldBuild(t *testing.T) {
	t.Helper()
	oldBuild.once.Do(func() {
		if oldBuild.dir, oldBuild.err = os.MkdirTemp("", "nagi-rolling-"); oldBuild.err == nil {
			oldBuild.err = buildOld(oldBuild.dir)
		}
	})
	if oldBuild.err != nil {
		t.Fatal(oldBuild.err)
	}
}

func removeOldBuild() error {
	if oldBuild.dir == "" {
		return nil
	}
	return os.RemoveAll(oldBuild.dir)
}

// buildOld builds the replica in the tree of the old commit, with the files of testdata/old in place of its own.
func buildOld(dir string) error {
	tree := filepath.Join(dir, "tree")
	if err := extract(tree); err != nil {
		return err
	}
	replica := filepath.Join(tree, "test", "rolling", "replica")
	if err := os.CopyFS(replica, os.DirFS("replica")); err != nil {
		return err
	}
	old := filepath.Join("testdata", "old")
	if err := copyFile(filepath.Join(replica, "controller.go"), filepath.Join(old, "controller.go")); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(replica, "main", "main.go"), filepath.Join(old, "main.go")); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "replica"), "./test/rolling/replica/main")
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the code of commit %.7s: %w\n%s", beforeRebuild, err, said)
	}
	return nil
}

// extract writes the files of the old commit below dir.
func extract(dir string) error {
	root, err := git(".", "rev-parse", "--show-toplevel")
	if err != nil {
		return fmt.Errorf("the code before the rebuild comes out of the repository, "+
			"so git and a clone are needed: %w", err)
	}
	top := strings.TrimSpace(string(root))
	if _, err := git(top, "cat-file", "-e", beforeRebuild+"^{commit}"); err != nil {
		return fmt.Errorf("commit %.7s, the code before the rebuild, is missing in %s: "+
			"a shallow clone does not have it; run `git fetch --unshallow` there: %w", beforeRebuild, top, err)
	}
	archive, err := git(top, "archive", "--format=tar", beforeRebuild)
	if err != nil {
		return err
	}
	return untar(dir, archive)
}

func git(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var errout bytes.Buffer
	cmd.Stderr = &errout
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, errout.String())
	}
	return out, nil
}

func untar(dir string, archive []byte) error {
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive of commit %.7s: %w", beforeRebuild, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(header.Name)), data); err != nil {
			return err
		}
	}
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, data)
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
