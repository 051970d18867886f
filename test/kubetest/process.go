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
	stdin   io.WriteCloser // see apiserver/main.go: its end is the end of the process
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
		_ = p.cmd.Wait() // what it says is in ProcessState
		close(p.done)
	}()
	return p, nil
}

// stop ends the process in good order, or kills it if it does not, and waits until it is gone.
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

// exited is the error for a process that ended by itself. It may be called after done.
func (p *process) exited() error {
	return fmt.Errorf("kube-apiserver ended by itself: %v%s", p.cmd.ProcessState, p.logTail())
}

// logTail is the last part of the log, for error messages.
func (p *process) logTail() string {
	const lines = 30
	content, err := os.ReadFile(p.logFile)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return "; its log ends with:\n" + strings.Join(all[max(0, len(all)-lines):], "\n")
}
