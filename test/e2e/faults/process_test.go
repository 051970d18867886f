package faults

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// process is a child that is killed with SIGKILL and started again.
type process struct {
	name  string
	env   []string
	log   *os.File // its standard error
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  *bufio.Reader
}

// newProcess makes a child that does not run yet. If the test fails, its log is shown.
func newProcess(t *testing.T, name string, env ...string) process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	must(t, err)
	t.Cleanup(func() {
		defer log.Close()
		if data, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the end of the log of %s:\n%s", name, data[max(0, len(data)-logShown):])
		}
	})
	return process{name: name, env: env, log: log}
}

// logShown is how many bytes of a log are shown.
const logShown = 16 << 10

func (p *process) start() error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+p.name), p.env...)
	cmd.Stderr = p.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.stdin, p.said = cmd, stdin, bufio.NewReader(stdout)
	return nil
}

// kill ends the process at once, whatever it is doing.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()         // its error only says that it was killed
	_ = p.stdin.Close()
	p.cmd = nil
}

const (
	portEnv  = "NAGI_TEST_PORT"
	storeEnv = "NAGI_TEST_STORE"
)

// natsChild is a NATS server, until it is killed.
func natsChild() error {
	port, err := strconv.Atoi(os.Getenv(portEnv))
	if err != nil {
		return err
	}
	server, err := natstest.New(natstest.WithPort(port), natstest.WithStoreDir(os.Getenv(storeEnv)))
	if err != nil {
		return err
	}
	fmt.Println(server.URL())
	select {}
}

// natsServer is the NATS server of the scenario, on one port and store over all its lives.
type natsServer struct {
	process
	url string
}

func startNATS(t *testing.T) *natsServer {
	t.Helper()
	s := &natsServer{process: newProcess(t, "nats", storeEnv+"="+t.TempDir(), portEnv+"=0")}
	t.Cleanup(s.kill)
	must(t, s.restart())
	parsed, err := url.Parse(s.url)
	must(t, err)
	s.env[1] = portEnv + "=" + parsed.Port()
	return s
}

// restart starts the server and waits until it serves.
func (s *natsServer) restart() error {
	if err := s.start(); err != nil {
		return err
	}
	line, err := s.said.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the NATS server did not start: %w", err)
	}
	s.url = line[:len(line)-1]
	return nil
}

// connect makes a connection that outlasts every fault.
func connect(url string) (*nats.Conn, error) {
	return nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(natsReconnectWait),
		nats.RetryOnFailedConnect(false))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
