package servers

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/internal/ports"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// process is a nats-server with a port and a store that outlive it.
type process struct {
	t     *testing.T
	v     version
	flags []string
	port  int
	cmd   *exec.Cmd
	stdin io.Closer
	log   string
}

// newProcess starts a server of a version. It is killed at the end of the test.
func newProcess(t *testing.T, v version, flags ...string) *process {
	t.Helper()
	port, err := ports.Claim()
	must(t, err)
	t.Cleanup(func() { ports.Release(port) })
	p := &process{t: t, v: v, flags: flags, port: port, log: filepath.Join(t.TempDir(), "log")}
	t.Cleanup(func() {
		p.kill()
		if said, err := os.ReadFile(p.log); t.Failed() && err == nil {
			t.Logf("the end of the log of nats-server %s*:\n%s", p.v.line, said[max(0, len(said)-logShown):])
		}
	})
	p.start()
	return p
}

// logShown is how many bytes of a server's log are shown if a test fails.
const logShown = 4 << 10

func (p *process) url() string { return "nats://" + ports.Address(p.port) }

// start starts the server, and returns when it serves its version.
func (p *process) start() {
	p.t.Helper()
	flags := append([]string{"-a", ports.Host, "-p", strconv.Itoa(p.port), "-l", p.log}, p.flags...)
	p.cmd = exec.Command(programs.path(p.t, p.v), flags...)
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	must(p.t, err)
	must(p.t, p.cmd.Start())
	natstest.Eventually(p.t, "nats-server "+p.v.line+"* serves", func() bool {
		nc, err := nats.Connect(p.url(), nats.Timeout(time.Second), nats.NoReconnect())
		if err != nil {
			return false
		}
		defer nc.Close()
		if !strings.HasPrefix(nc.ConnectedServerVersion(), p.v.line) {
			p.t.Fatalf("%s serves version %s, want %s*", p.v.program, nc.ConnectedServerVersion(), p.v.line)
		}
		return true
	})
}

// kill ends the server with SIGKILL.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()         // its error only says that it was killed
	_ = p.stdin.Close()
	p.cmd = nil
}

// become starts another version on the port and the store, after the server was stopped as an operator stops it.
func (p *process) become(v version) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(os.Interrupt))
	_ = p.cmd.Wait() // old servers end with an error
	p.kill()
	p.v = v
	p.start()
}
