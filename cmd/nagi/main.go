// Nagi is the tool for documents in NATS that controllers look after: it shows, explains and changes them, and acts on
// their controllers, with the rights of the user that the nats command line would connect as.
//
//	go install github.com/nagi-runtime/nagi/cmd/nagi@latest
//	nagi kinds
//	nagi get websites
//	nagi why websites/shop
//
// docs/nagi.md has each command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/nagi-runtime/nagi/internal/nagi/cli"
)

//go:generate go test ../../internal/nagi/cli -run ^TestThePageIsThatOfTheCommands$ -update

func main() {
	// A second interrupt ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	os.Exit(cli.Run(ctx, cli.Process(), os.Args[1:]))
}
