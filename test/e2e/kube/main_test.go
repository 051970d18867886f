// Package kube tests the promises about Kubernetes secondaries and tertiaries on a real API server.
package kube

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/nagi-runtime/nagi/test/kubetest"
	"go.uber.org/goleak"
)

// shared is the API server of the tests that break none; each test has its own namespace there.
var shared *kubetest.Server

func TestMain(m *testing.M) {
	if v := os.Getenv(victimEnv); v != "" {
		os.Exit(sacrificed(v))
	}
	goleak.VerifyTestMain(withServer{m})
}

// withServer runs the tests between the start and the end of the shared server, so that its goroutines count as leaks
// too.
type withServer struct{ m *testing.M }

func (w withServer) Run() int {
	var err error
	if shared, err = kubetest.Open(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer shared.Close()
	return w.m.Run()
}
