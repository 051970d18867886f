// Command main is a replica with the code before the rebuild.
package main

import (
	"fmt"
	"os"

	"github.com/nagi-runtime/nagi/test/rolling/replica"
)

func main() {
	if err := replica.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
