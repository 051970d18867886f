package kubetest

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	storePrefix = "nagi-kubetest-"
	// ownerFile is in each temporary store. The process that made the store locks it for as long as it lives.
	ownerFile = "owner"
)

// newStore makes a temporary store. First it removes the stores that killed processes left: a server that runs when its
// process dies removes its store, but a server that was down by then could not.
func newStore() (dir string, owner *os.File, err error) {
	removeOrphans()
	root, err := filepath.Abs(os.TempDir()) // the server works in its store, where relative paths lead elsewhere
	if err != nil {
		return "", nil, fmt.Errorf("find the directory for temporary files: %w", err)
	}
	if dir, err = os.MkdirTemp(root, storePrefix); err == nil {
		owner, err = own(dir)
	}
	if err != nil {
		return dir, nil, fmt.Errorf("create a temporary store: %w", err)
	}
	return dir, owner, nil
}

// own locks the file before it gives it its name, so that no process takes the store for an orphan.
func own(dir string) (*os.File, error) {
	path := filepath.Join(dir, ownerFile)
	file, err := os.Create(path + "-unlocked")
	if err != nil {
		return nil, err
	}
	// Where files cannot be locked, no process removes the stores of others.
	if _, err := tryLock(file); err == nil {
		err = os.Rename(file.Name(), path)
		if err != nil {
			_ = file.Close()
			return nil, err
		}
	}
	return file, nil
}

func removeOrphans() {
	owners, _ := filepath.Glob(filepath.Join(os.TempDir(), storePrefix+"*", ownerFile)) // fails for bad patterns only
	for _, path := range owners {
		file, err := os.Open(path)
		if err != nil {
			continue // another user has it, or it just went
		}
		if locked, err := tryLock(file); err == nil && locked {
			_ = os.RemoveAll(filepath.Dir(path)) // what is left only takes space
		}
		_ = file.Close()
	}
}
