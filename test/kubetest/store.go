package kubetest

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	storePrefix = "nagi-kubetest-"
	// ownerFile, in a temporary store, is locked by the process that made it for as long as that lives.
	ownerFile = "owner"
)

// newStore makes a temporary store. Before it removes those that killed processes left: a server that runs when its process
// dies removes its store, and one that was down at that time could not.
func newStore() (dir string, owner *os.File, err error) {
	removeOrphans()
	if dir, err = os.MkdirTemp("", storePrefix); err == nil {
		owner, err = own(dir)
	}
	if err != nil {
		return dir, nil, fmt.Errorf("create a temporary store: %w", err)
	}
	return dir, owner, nil
}

// own gives the file its name when it is locked already, so that nobody takes the store for an orphan.
func own(dir string) (*os.File, error) {
	path := filepath.Join(dir, ownerFile)
	file, err := os.Create(path + "-unlocked")
	if err != nil {
		return nil, err
	}
	// Where files cannot be locked nobody removes what others left.
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
	owners, _ := filepath.Glob(filepath.Join(os.TempDir(), storePrefix+"*", ownerFile)) // it fails for bad patterns only
	for _, path := range owners {
		file, err := os.Open(path)
		if err != nil {
			continue // it is somebody else's, or just went
		}
		if locked, err := tryLock(file); err == nil && locked {
			_ = os.RemoveAll(filepath.Dir(path)) // it takes space, no more
		}
		_ = file.Close()
	}
}
