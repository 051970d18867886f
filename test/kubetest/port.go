package kubetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	host = "127.0.0.1"

	// The system gives ports from 32768 on to outgoing connections (Linux: 32768 to 60999, elsewhere 49152 to 65535). A
	// port below stays free while its server is stopped.
	lowestPort  = 10000
	highestPort = 32767
)

// freePort returns a random port on which nothing listens.
func freePort() (int, error) {
	for tries := 0; ; tries++ {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		if tries == 100 {
			return 0, fmt.Errorf("no free port between %d and %d on %s: %w", lowestPort, highestPort, host, err)
		}
	}
}
