package ports

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// TestMain claims ports for another process if that is asked for, and tells them.
func TestMain(m *testing.M) {
	if os.Getenv("NAGI_CLAIM") == "" {
		goleak.VerifyTestMain(m)
		return
	}
	for range 2 * blockSize {
		port, err := Claim()
		if err != nil {
			panic(err)
		}
		fmt.Println(port)
	}
	fmt.Scanln() // holds them until its parent has seen enough
}

func newPool(t *testing.T) *pool {
	p := &pool{claimed: map[int]bool{}}
	t.Cleanup(func() {
		for _, l := range p.held {
			l.Close()
		}
	})
	return p
}

func (p *pool) take(t *testing.T) int {
	t.Helper()
	port, err := p.claim()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestAClaimedPortIsNobodyElses, whether or not something listens on it.
func TestAClaimedPortIsNobodyElses(t *testing.T) {
	p := newPool(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[int]bool{}
	for range 8 {
		wg.Go(func() {
			for range blockSize / 2 {
				port, err := p.claim()
				mu.Lock()
				if err != nil || seen[port] {
					t.Errorf("port %d, %v: it was claimed before: %t", port, err, seen[port])
				}
				seen[port] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestProcessesHaveDifferentPorts(t *testing.T) {
	own := newPool(t)
	var theirs []string
	for range 3 {
		other := exec.Command(os.Args[0])
		other.Env = append(os.Environ(), "NAGI_CLAIM=1")
		hold, err := other.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		told, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			hold.Close()
			if err := other.Wait(); err != nil {
				t.Error(err)
			}
		})
		for range 2 * blockSize {
			var port string
			if _, err := fmt.Fscanln(told, &port); err != nil {
				t.Fatal(err)
			}
			theirs = append(theirs, port)
		}
	}
	for range 2 * blockSize {
		port := own.take(t)
		theirs = append(theirs, fmt.Sprint(port))
	}
	if slices.Sort(theirs); len(slices.Compact(slices.Clone(theirs))) != len(theirs) {
		t.Errorf("a port was claimed twice: %s", strings.Join(theirs, " "))
	}
}

// TestAReleasedPortRests while the others have their turns, and is given out again.
func TestAReleasedPortRests(t *testing.T) {
	p := newPool(t)
	first := p.take(t)
	p.release(first)
	for range blockSize / 2 {
		port := p.take(t)
		if p.release(port); port == first {
			t.Fatal("it was given out again at once")
		}
	}
	for range blockSize {
		port := p.take(t)
		if p.release(port); port == first {
			return
		}
	}
	t.Error("it was never given out again")
}

func TestAPortThatIsInUseIsLeftOut(t *testing.T) {
	p := newPool(t)
	port := p.take(t)
	l, err := net.Listen("tcp", Address(port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.release(port)
	if err := Probe(port); err == nil {
		t.Error("a port on which something listens was not noticed")
	}
	for range 2 * blockSize {
		next := p.take(t)
		if p.release(next); next == port {
			t.Fatal("a port was given out on which something listens")
		}
	}
}
