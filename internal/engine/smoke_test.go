package engine

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stoppedChild has 60,000 late writes, a thousand at a time, as a thousand controllers would.
func stoppedChild() error {
	var submitters sync.WaitGroup
	for range 1000 {
		w := newAsyncWrites()
		w.Start(context.Background())
		submitters.Go(func() {
			defer w.Close()
			for range 60 {
				finished := make(chan struct{})
				w.Submit(func(context.Context) error {
					time.Sleep(10*time.Millisecond + rand.N(8*time.Millisecond))
					return nil
				}, func(context.Context, error) { close(finished) })
				<-finished
			}
		})
	}
	submitters.Wait()
	return nil
}

// TestLateWritesSurviveAProcessThatIsStoppedNowAndThen, as a CPU quota stops it: between any two statements more time
// may pass than any timer waits. In virtual time none passes there, so this takes a process and signals.
func TestLateWritesSurviveAProcessThatIsStoppedNowAndThen(t *testing.T) {
	child := exec.Command(os.Args[0])
	// More threads than processors, so that the kernel stops each of them at other moments too.
	child.Env = append(os.Environ(), childEnv+"=stopped", "GOMAXPROCS=32")
	var output strings.Builder
	child.Stdout, child.Stderr = &output, &output
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- child.Wait() }()
	for {
		_ = child.Process.Signal(syscall.SIGSTOP) // fails once it has exited
		time.Sleep(13 * time.Millisecond)
		_ = child.Process.Signal(syscall.SIGCONT)
		select {
		case err := <-exited:
			if err != nil {
				text := output.String()
				t.Errorf("the child ended with %v: %s", err, text[:min(len(text), 400)])
			}
			return
		case <-time.After(rand.N(3 * time.Millisecond)):
		}
	}
}
