// Package nagi tests the tool on a real API server, as processes with kubeconfigs: what it shows of Kubernetes, and what
// it says of what its user may not see.
package nagi

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nagi-runtime/nagi/test/kubetest"
	"go.uber.org/goleak"
)

var (
	// shared is the API server; each test has namespaces of its own there.
	shared *kubetest.Server
	// binary is the tool.
	binary string
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(withServer{m}) }

type withServer struct{ m *testing.M }

func (w withServer) Run() int {
	dir, err := os.MkdirTemp("", "nagi-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "nagi")
	if said, err := exec.Command("go", "build", "-o", binary, "github.com/nagi-runtime/nagi/cmd/nagi").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build nagi: %v\n%s", err, said)
		return 1
	}
	if shared, err = kubetest.Open(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer shared.Close()
	return w.m.Run()
}
