package natscli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// configure starts a server with an account of the printed roles, on a port that was free a moment ago.
func (w *walk) configure(roles string) {
	w.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.T, err)
	address := listener.Addr().String()
	must(w.T, listener.Close())
	var conf strings.Builder
	fmt.Fprintf(&conf, "listen: %q\njetstream: { store_dir: %q }\ninclude roles.conf\n", address,
		filepath.Join(w.dir, "store"))
	conf.WriteString("accounts: { NAGI: { jetstream: enabled, users: [\n")
	for _, role := range []string{"bootstrap", "controller", "operator", "reader", "writer", "service"} {
		fmt.Fprintf(&conf, "{ user: %s, password: x, permissions: $nagi_%s }\n", role, role)
	}
	conf.WriteString("{ user: admin, password: x }\n] } }\n")
	must(w.T, os.WriteFile(filepath.Join(w.dir, "roles.conf"), []byte(roles), 0o600))
	must(w.T, os.WriteFile(filepath.Join(w.dir, "nats.conf"), []byte(conf.String()), 0o600))
	w.url = "nats://" + address
	w.start(w.command(w.server, "-c", "nats.conf"))
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-w.ctx.Done():
			w.Fatalf("the server does not listen: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
