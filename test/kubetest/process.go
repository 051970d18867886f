package kubetest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// stopPatience is how long a server may take to stop in good order before it is killed.
const stopPatience = 15 * time.Second

// process is one life of the server.
type process struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser // when it ends, the process ends: see apiserver/main.go
	logFile string
	done    chan struct{} // closed when the process is gone
}

// startProcess starts the binary with its output appended to logFile.
func startProcess(binary, logFile string, args []string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close() // the child has its own
	p := &process{cmd: exec.Command(binary, args...), logFile: logFile, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("make a pipe to the server: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState has the result
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end in good order, kills it if it does not within stopPatience, and waits until it is gone.
func (p *process) stop() {
	if _, err := io.WriteString(p.stdin, "stop\n"); err == nil {
		select {
		case <-p.done:
			return
		case <-time.After(stopPatience):
		}
	}
	p.kill()
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it fails only if the process is gone already
	<-p.done
}

// exited returns the error for a process that ended by itself. Call it only after done is closed.
func (p *process) exited() error {
	return fmt.Errorf("kube-apiserver ended by itself: %v%s", p.cmd.ProcessState, p.logTail())
}

// logTail returns the last lines of the log, for error messages.
func (p *process) logTail() string {
	const lines = 30
	content, err := os.ReadFile(p.logFile)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return "; its log ends with:\n" + strings.Join(all[max(0, len(all)-lines):], "\n")
}
