// Command build makes the binary that package kubetest starts, if this machine has none yet, and prints its path. Run
// it before tests that have a time limit: the first build takes minutes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/nagi-runtime/nagi/test/kubetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, err := kubetest.Binary(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubetest:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
