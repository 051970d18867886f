package faults

import (
	"sync"
	"testing"
	"time"
)

// supervisor runs the controller as a Deployment would. The controller ends by itself if a server that it needs is down
// when it starts; then the supervisor starts it again.
type supervisor struct {
	process

	mu       sync.Mutex
	stopped  bool
	done     chan struct{} // nil before the first start
	restarts int           // after it ended by itself
}

// restartPause is how soon a controller that ended by itself is started again.
const restartPause = 300 * time.Millisecond

func (s *supervisor) start(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped, s.done = false, make(chan struct{})
	if err := s.process.start(); err != nil {
		t.Error(err)
		close(s.done)
		return
	}
	go s.supervise(t, s.done)
}

func (s *supervisor) supervise(t *testing.T, done chan struct{}) {
	defer close(done)
	for {
		_ = s.cmd.Wait() // how it ended is on its standard error
		_ = s.stdin.Close()
		s.mu.Lock()
		if s.stopped {
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		pause(t.Context(), restartPause)
		s.mu.Lock()
		if s.stopped {
			s.mu.Unlock()
			return
		}
		s.restarts++
		err := s.process.start()
		s.mu.Unlock()
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// stop kills the controller.
func (s *supervisor) stop() {
	s.mu.Lock()
	if s.done == nil || s.stopped {
		s.mu.Unlock()
		return
	}
	s.stopped = true
	_ = s.cmd.Process.Kill() // it may have ended by itself
	done := s.done
	s.mu.Unlock()
	<-done
}

func (s *supervisor) ended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}
