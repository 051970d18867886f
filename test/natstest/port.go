package natstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

const (
	host = "127.0.0.1"

	// Ports from 32768 on are given to outgoing connections (Linux: 32768 to 60999, elsewhere 49152 to 65535).
	lowestPort  = 10000
	highestPort = 32767
)

// portWait is how long a start waits for a kept port that somebody else holds.
const portWait = 5 * time.Second

func hostPort(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// freePort returns a random port on which nothing listens.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if last = probePort(port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d on %s: %w", lowestPort, highestPort, host, last)
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
