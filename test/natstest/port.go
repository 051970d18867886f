package natstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"
)

const (
	host = "127.0.0.1"

	// Ports from 32768 on are given to outgoing connections (Linux: 32768 to 60999, elsewhere 49152 to 65535).
	lowestPort  = 10000
	highestPort = 32767
)

// portWait is how long a restart waits for its port while another program holds it.
const portWait = 5 * time.Second

func hostPort(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// freePort returns a random port on which nothing listens.
func freePort() (int, error) {
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// freePorts returns n different free ports.
func freePorts(n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if slices.Contains(ports, port) {
			continue
		}
		if err := probePort(port); err == nil {
			ports = append(ports, port)
		} else if tries > 100*n {
			return nil, fmt.Errorf("no free port between %d and %d on %s: %w", lowestPort, highestPort, host, err)
		}
	}
	return ports, nil
}

func probePort(port int) error {
	l, err := net.Listen("tcp", hostPort(port))
	if err != nil {
		return err
	}
	return l.Close()
}

// retry calls f, a few milliseconds apart, until it succeeds or the time is over. It returns f's last error.
func retry(limit time.Duration, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
