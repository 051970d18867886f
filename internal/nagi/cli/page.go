package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	livepage "github.com/nagi-runtime/nagi/internal/nagi/page"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/spf13/cobra"
)

func (t *tool) pageCommands() []*cobra.Command { return []*cobra.Command{t.uiCommand()} }

func (t *tool) uiCommand() *cobra.Command {
	var listen, output string
	var actions, remote bool
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve the live page",
		Long: `ui serves a page for a browser, and prints its address: controllers with their queues and the
members that share the keys, kinds and documents, one document with what it owns and why it waits, what waits, and a
banner while a brake holds deletes. It follows changes.

It shows what you may read, to whoever can open the address: that is this machine alone, unless --listen and --remote
say otherwise. It changes nothing, unless --allow-actions lets it: then its forms can reconcile, unpark, suspend and
resume a key, delete a document, and restore or release what a brake holds, with your rights. Whatever deletes shows
what goes, and asks for the number.

With --bucket it shows a bucket that the registry does not have, too; --controller names who looks after it.`,
		Example:     "  nagi ui\n  nagi ui --listen 127.0.0.1:0 --allow-actions\n  nagi ui -o json",
		Annotations: map[string]string{"examples": "elsewhere"}, // they serve until they are stopped
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, _, err := net.SplitHostPort(listen)
			if err != nil {
				return usage(fmt.Errorf("--listen %s: want HOST:PORT, as 127.0.0.1:8080: %w", listen, err))
			}
			ip := net.ParseIP(host)
			local := host == "localhost" || ip != nil && ip.IsLoopback()
			switch {
			case !local && !remote:
				return usage(fmt.Errorf("--listen %s: whoever reaches that address would read with your rights: "+
					"listen on 127.0.0.1, or say --remote if that is meant", listen))
			case ip == nil && host != "localhost" || ip != nil && ip.IsUnspecified():
				return usage(fmt.Errorf("--listen %s: name the one address that it is to be asked under", listen))
			}
			hosts := []string{host}
			if local {
				hosts = livepage.LoopbackHosts()
			}
			s, err := t.connect()
			if err != nil {
				return err
			}
			p, err := s.page(&cluster, actions, hosts)
			if err != nil {
				return err
			}
			return t.serve(cmd.Context(), p, listen, output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:0", "address to serve on; port 0 is any that is free")
	flags.BoolVar(&remote, "remote", false, "with --listen: other machines may read with your rights")
	flags.BoolVar(&actions, "allow-actions", false, "let the page act, with your rights")
	cluster.register(cmd, false)
	oneOf(cmd, &output, "text", "json", "yaml")
	return cmd
}

func (s *session) page(flags *clusterFlags, actions bool, hosts []string) (*livepage.Page, error) {
	cluster, err := flags.open(s.t.Cluster)
	if err != nil {
		return nil, err
	}
	cfg := livepage.Config{
		Conn: s.nc, JS: s.js, Prefix: s.t.prefix, Timeout: s.t.flags.Timeout, Cluster: cluster,
		Remedies: clusterRemedies, Actions: actions, Hosts: hosts,
	}
	if s.t.plain.Bucket != "" {
		cfg.Plain = s.t.plain.Kind()
		if name := s.t.plain.controller; name != "" {
			cfg.Plain.Controllers = append(cfg.Plain.Controllers, registry.Controller{Name: name})
		}
	}
	return livepage.New(cfg)
}

// serve serves until ctx ends.
func (t *tool) serve(ctx context.Context, p *livepage.Page, listen, output string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Those who follow are let go with ctx.
	server := &http.Server{
		Handler: p, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	running.Go(func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(last)
	})
	t.tellAddress(output, "http://"+listener.Addr().String())
	t.Notef("Open that address in a browser; stop with Ctrl-C.\n")
	err = server.Serve(listener)
	stop()
	running.Wait()
	p.Close()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// tellAddress prints where the page is, on one line in each format: who reads it waits for no end.
func (t *tool) tellAddress(output, address string) {
	switch output {
	case "json":
		t.Printf("{\"address\":%q}\n", address)
	case "yaml":
		t.Printf("address: %q\n", address)
	default:
		t.Printf("%s\n", address)
	}
}
