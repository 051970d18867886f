package kubetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Backup is what etcd held at one moment. It may be restored several times.
//
// A restored etcd is one of the cruellest things that can happen to an informer: resource versions go back, deleted
// objects reappear and others vanish, and a watch that asks for a version which is yet to come is told nothing.
type Backup struct{ dir string }

// Backup keeps what etcd holds now until the test ends. The server is stopped for it, so watches are closed.
func (s *Server) Backup(t testing.TB) *Backup {
	t.Helper()
	b := &Backup{dir: t.TempDir()}
	s.Stop()
	if err := os.CopyFS(b.dir, os.DirFS(s.etcdDir())); err != nil {
		t.Fatalf("kubetest: back etcd up: %v", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	return b
}

// Restore stops the server if it runs, gives etcd the state of the backup, and starts the server on the same port: what
// was written since then never was, and the resource versions since then are given out again.
func (s *Server) Restore(b *Backup) error {
	s.Stop()
	if err := os.RemoveAll(s.etcdDir()); err != nil {
		return fmt.Errorf("remove the state of etcd: %w", err)
	}
	if err := os.CopyFS(s.etcdDir(), os.DirFS(b.dir)); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	return s.Restart()
}

func (s *Server) etcdDir() string { return filepath.Join(s.dir, "etcd") }
