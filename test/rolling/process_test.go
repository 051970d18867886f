package rolling

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// event is a line of a replica's output: see replica/replica.go.
type event struct {
	Time  time.Time `json:"time"`
	Began *attempt  `json:"began"`
	Ended *attempt  `json:"ended"`
	State *state    `json:"state"`
}

type attempt struct {
	Key        string `json:"key"`
	Operations string `json:"operations"`
	Exists     bool   `json:"exists"`
	Title      string `json:"title"`
	By         string `json:"by"`
	Error      string `json:"error"`
}

type state struct {
	Leading  bool      `json:"leading"`
	Idle     bool      `json:"idle"`
	Sweeps   uint64    `json:"sweeps"`
	TornDown uint64    `json:"tornDown"`
	Engaged  bool      `json:"engaged"`
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason"`
	Held     int       `json:"held"`
	Released bool      `json:"released"`
}

// process is a replica.
type process struct {
	t     *testing.T
	side  side
	cmd   *exec.Cmd
	stdin io.WriteCloser
	read  chan struct{} // closed when all of its output was read
	over  bool          // wait was called

	mu     sync.Mutex
	events []event
	ended  time.Time // when it was gone; zero while it runs
}

// start runs a replica of a side against the world's server. It is killed at the end of the test.
func (w *world) start(s side, args ...string) *process {
	w.t.Helper()
	log, err := os.Create(filepath.Join(w.t.TempDir(), string(s)+".log"))
	must(w.t, err)
	args = append([]string{"-url", w.server.URL(), "-name", string(s)}, args...)
	r := &process{t: w.t, side: s, cmd: command(s, args), read: make(chan struct{})}
	r.cmd.Stderr = log
	r.stdin, err = r.cmd.StdinPipe()
	must(w.t, err)
	stdout, err := r.cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, r.cmd.Start())
	w.t.Cleanup(func() {
		r.kill()
		defer log.Close()
		if data, err := os.ReadFile(log.Name()); w.t.Failed() && err == nil {
			w.t.Logf("the end of the log of the %s replica %v:\n%s", s, args, data[max(0, len(data)-logShown):])
		}
	})
	go r.listen(stdout)
	return r
}

// logShown is how many bytes of a replica's log are shown if a test fails.
const logShown = 8 << 10

func (r *process) listen(stdout io.Reader) {
	defer close(r.read)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.t.Errorf("the %s replica says %q: %v", r.side, lines.Text(), err)
			return
		}
		r.mu.Lock()
		r.events = append(r.events, e)
		r.mu.Unlock()
	}
}

// kill ends the process at once, whatever it is doing.
func (r *process) kill() {
	if r.over {
		return
	}
	_ = r.cmd.Process.Kill() // it may have ended by itself
	_ = r.wait()             // its error only says that it was killed
}

// stop ends the process gracefully.
func (r *process) stop() {
	r.t.Helper()
	must(r.t, r.cmd.Process.Signal(syscall.SIGTERM))
	tooLate := time.AfterFunc(patience, func() { _ = r.cmd.Process.Kill() }) // the test then fails below
	defer tooLate.Stop()
	if err := r.wait(); err != nil {
		r.t.Fatalf("the %s replica did not stop gracefully: %v", r.side, err)
	}
}

func (r *process) wait() error {
	r.over = true
	<-r.read
	err := r.cmd.Wait()
	_ = r.stdin.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = time.Now()
	return err
}

// said returns the events so far.
func (r *process) said() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[:len(r.events):len(r.events)]
}

// state returns the last state that the replica reported.
func (r *process) state() (last state) {
	for _, e := range r.said() {
		if e.State != nil {
			last = *e.State
		}
	}
	return last
}

// ever reports whether the condition held for a state that the replica reported.
func (r *process) ever(is func(state) bool) bool {
	for _, e := range r.said() {
		if e.State != nil && is(*e.State) {
			return true
		}
	}
	return false
}

// began returns the reconciles of a key, with what they found.
func (r *process) began(key string) (found []attempt) {
	for _, e := range r.said() {
		if e.Began != nil && e.Began.Key == key {
			found = append(found, *e.Began)
		}
	}
	return found
}

// ended counts the reconciles of a key that are over.
func (r *process) endedOf(key string) (n int) {
	for _, e := range r.said() {
		if e.Ended != nil && e.Ended.Key == key {
			n++
		}
	}
	return n
}

// leads waits until the replica leads and has nothing to do.
func (r *process) leads() {
	r.t.Helper()
	natstest.Eventually(r.t, "the "+string(r.side)+" replica leads and is idle", func() bool {
		s := r.state()
		return s.Leading && s.Idle
	})
}

// span is the time of one reconcile.
type span struct {
	side     side
	key      string
	from, to time.Time
}

func (s span) String() string {
	return fmt.Sprintf("%s by the %s replica, %s to %s", s.key, s.side, s.from.Format(precise), s.to.Format(precise))
}

const precise = "15:04:05.000000"

// spans returns the times of all reconciles. One that did not end lasted until the process was gone.
func (r *process) spans() (all []span) {
	open := map[string]time.Time{}
	for _, e := range r.said() {
		switch {
		case e.Began != nil:
			open[e.Began.Key] = e.Time
		case e.Ended != nil:
			all = append(all, span{r.side, e.Ended.Key, open[e.Ended.Key], e.Time})
			delete(open, e.Ended.Key)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	until := r.ended
	if until.IsZero() {
		until = time.Now()
	}
	for key, from := range open {
		all = append(all, span{r.side, key, from, until})
	}
	return all
}
