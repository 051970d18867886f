// Command nats209 is nats-server 2.9, for tests that start it as a process of its own. It takes the flags of
// nats-server, and ends with its standard input: a test that is killed leaves no server behind.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	flags := flag.NewFlagSet("nats-server", flag.ExitOnError)
	opts, err := server.ConfigureOptions(flags, os.Args[1:],
		server.PrintServerAndExit, flags.Usage, server.PrintTLSHelpAndDie)
	if err != nil {
		fail(err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		fail(err)
	}
	s.ConfigureLogger()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends either way
		os.Exit(0)
	}()
	if err := server.Run(s); err != nil {
		fail(err)
	}
	s.WaitForShutdown()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "nats-server:", err)
	os.Exit(1)
}
