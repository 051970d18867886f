package natstest

import "time"

// portWait is how long a restart waits for its port while another program holds it.
const portWait = 5 * time.Second

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
