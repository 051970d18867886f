package natscli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// confs are the configurations that a page shows, by their names.
func (w *walk) confs(page string) map[string]string {
	w.Helper()
	shown := map[string]string{}
	block := regexp.MustCompile("(?ms)^ *```text\n *# (\\w+\\.conf)\n(.*?)^ *```")
	for _, found := range block.FindAllStringSubmatch(readPage(w.T, page), -1) {
		shown[found[1]] = found[2]
	}
	return shown
}

// printRoles makes a roles.conf as the production page says, of a program.
func (w *walk) printRoles(flags ...string) {
	w.Helper()
	w.typed("docs/production.md", "websites -only=permissions > roles.conf",
		"websites", strings.Join(append([]string{"websites"}, flags...), " "))
}

// configure starts a server with what a page shows, and an administrator beside where the page has none.
func (w *walk) configure(page string) {
	w.Helper()
	confs := w.confs(page)
	for name, conf := range confs {
		if name != "nats.conf" {
			must(w.T, os.WriteFile(filepath.Join(w.dir, name), []byte(conf), 0o600))
		}
	}
	conf := confs["nats.conf"]
	if !strings.Contains(conf, "user: admin,") {
		conf = strings.Replace(conf, "users: [", "users: [\n{ user: admin, password: \"change me 7\" }\n", 1)
	}
	w.serve(conf)
	w.sh("", "nats context save admin --server="+w.url+" --user=admin --password='change me 7'")
}

// serve starts a server on a port that was free a moment ago.
func (w *walk) serve(conf string) {
	w.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.T, err)
	address := listener.Addr().String()
	must(w.T, listener.Close())
	store := filepath.Join(w.dir, "store")
	if !strings.Contains(conf, "listen:") {
		conf = "listen: \"0.0.0.0:4222\"\njetstream: { store_dir: \"/data\" }\n" + conf
	}
	conf = strings.NewReplacer("0.0.0.0:4222", address, "/data", store).Replace(conf)
	must(w.T, os.WriteFile(filepath.Join(w.dir, "nats.conf"), []byte(conf), 0o600))
	w.url = "nats://" + address
	w.start(w.command("nats-server", "-c", "nats.conf"))
	w.untilTrue(fmt.Sprintf("the server listens on %s", address), func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
