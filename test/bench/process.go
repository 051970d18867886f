package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a child: this program, started again with a role.
type process struct {
	role    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	log     *os.File
	ended   bool
}

// callLimit is how long a child may take for one command. No command needs as long; the limit only ends a hang.
const callLimit = 15 * time.Minute

// stopLimit is how long a child may take to end by itself.
const stopLimit = time.Minute

// startProcess starts a child and returns when it has taken its configuration.
func startProcess(ctx context.Context, role string, config any, environment ...string) (_ *process, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{role: role, command: exec.Command(self)}
	p.command.Env = append(append(os.Environ(), childVariable+"="+role), environment...)
	if p.log, err = os.CreateTemp("", "nagi-bench-*.log"); err != nil {
		return nil, err
	}
	p.command.Stderr = p.log
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	if err := p.exchange(ctx, config, nil); err != nil {
		p.kill()
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	return p, nil
}

// call has the child do something, and decodes what it returns.
func (p *process) call(ctx context.Context, do string, with, result any) error {
	data, err := json.Marshal(with)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := p.exchange(ctx, request{Do: do, With: data}, result); err != nil {
		return fmt.Errorf("%s: %s: %w", p.role, do, err)
	}
	return nil
}

func (p *process) exchange(ctx context.Context, send, result any) error {
	if p.ended {
		return errors.New("it has ended")
	}
	defer context.AfterFunc(ctx, p.kill)() // kill a child that does not answer: it has nothing to lose
	if err := json.NewEncoder(p.in).Encode(send); err != nil {
		return fmt.Errorf("%w\n%s", err, p.logged())
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%w\n%s", errors.Join(err, ctx.Err()), p.logged())
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return err
	}
	if a.Error != "" {
		return fmt.Errorf("%s\n%s", a.Error, p.logged())
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.Result, result)
}

func (p *process) usage(ctx context.Context) (u usage, err error) {
	err = p.call(ctx, "usage", nil, &u)
	return u, err
}

// logged returns the end of the child's standard error.
func (p *process) logged() string {
	data, err := os.ReadFile(p.log.Name())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data[max(0, len(data)-2000):]))
}

func (p *process) kill() { _ = p.command.Process.Kill() }

// stop ends the child in good order.
func (p *process) stop() error {
	if p.ended {
		return nil
	}
	p.ended = true
	_ = p.in.Close()
	impatient := time.AfterFunc(stopLimit, func() {
		_ = p.command.Process.Signal(syscall.SIGQUIT) // its goroutines go to the log
		time.AfterFunc(time.Second, p.kill)
	})
	defer impatient.Stop()
	err := p.command.Wait()
	if err != nil {
		err = fmt.Errorf("%s ended with: %w\n%s", p.role, err, p.logged())
	}
	_ = p.log.Close()
	_ = os.Remove(p.log.Name())
	return err
}

// stopAll stops children and adds their errors to err. It is for defer.
func stopAll(err *error, children ...*process) {
	for _, p := range children {
		if p != nil {
			*err = errors.Join(*err, p.stop())
		}
	}
}
