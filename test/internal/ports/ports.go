// Package ports gives out TCP ports that stay with their owner while nothing listens on them: those of a server that
// is stopped, or of a proxy that refuses connections. Otherwise another test could start its own server there, and
// clients that reconnect would talk to that one.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Host is the address for which the ports are free.
const Host = "127.0.0.1"

const (
	// Ports from 32768 on are given to outgoing connections (Linux: 32768 to 60999, elsewhere 49152 to 65535).
	lowest  = 10000
	highest = 32767

	// A process has whole blocks of ports. It listens on the first port of a block for as long as it lives, so that no
	// other process takes the block.
	blockSize = 256
	blocks    = (highest + 1 - lowest) / blockSize
)

// Address is host:port.
func Address(port int) string { return net.JoinHostPort(Host, strconv.Itoa(port)) }

// Claim returns a port on which nothing listens. No other call returns it, in this process or in another that uses this
// package, until Release.
func Claim() (int, error) { return mine.claim() }

// Release gives claimed ports back. A port that is not claimed, such as one that a user chose, is left alone.
func Release(ports ...int) { mine.release(ports...) }

// Probe fails if something listens on the port.
func Probe(port int) error {
	l, err := net.Listen("tcp", Address(port))
	if err != nil {
		return err
	}
	return l.Close()
}

var mine = pool{claimed: map[int]bool{}}

// pool holds the ports of a process.
type pool struct {
	mu      sync.Mutex
	held    []net.Listener // one for each block
	ports   []int          // of all blocks
	next    int            // in ports: a port that was given back rests for as long as possible
	claimed map[int]bool
}

func (p *pool) claim() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for range p.ports {
			port := p.ports[p.next]
			p.next = (p.next + 1) % len(p.ports)
			if !p.claimed[port] && Probe(port) == nil {
				p.claimed[port] = true
				return port, nil
			}
		}
		if err := p.grow(); err != nil {
			return 0, err
		}
	}
}

// grow adds a block that no process has.
func (p *pool) grow() error {
	var errs []error
	for i, start := 0, rand.IntN(blocks); i < blocks; i++ {
		first := lowest + (start+i)%blocks*blockSize
		l, err := net.Listen("tcp", Address(first))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.held, p.next = append(p.held, l), len(p.ports)
		for port := first + 1; port < first+blockSize; port++ {
			p.ports = append(p.ports, port)
		}
		return nil
	}
	return fmt.Errorf("no free block of ports between %d and %d on %s: %w", lowest, highest, Host, errors.Join(errs...))
}

func (p *pool) release(ports ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range ports {
		delete(p.claimed, port)
	}
}
