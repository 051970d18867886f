package manager

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
)

// TestWhyItDoesNotReconnectIsToldRarely: each reason once, and then changes of the reason with longer and longer
// pauses.
func TestWhyItDoesNotReconnectIsToldRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		l := newConnLog(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		told := func() int { return strings.Count(strings.Join(lines, "\n"), "Reconnecting to NATS fails") }
		tries := 0
		fail := func(lasts time.Duration, reasons ...string) {
			for began := time.Now(); time.Since(began) < lasts; time.Sleep(200 * time.Millisecond) {
				l.notReconnected(errors.New(reasons[tries%len(reasons)]))
				tries++
			}
		}
		fail(time.Hour, "dial tcp 127.0.0.1:1: connection refused")
		if n := told(); n != 1 {
			t.Errorf("one reason is told %d times", n)
		}
		fail(6*time.Second, "dial tcp a:1: connection refused", "dial tcp b:1: connection refused", "lookup c: no such host")
		if n := told(); n != 4 {
			t.Errorf("three more reasons are told %d times", n-1)
		}
		fail(time.Hour, "dial tcp a:1: connection refused", "dial tcp b:1: connection refused", "lookup c: no such host")
		if n := told(); n < 6 || n > 14 {
			t.Errorf("three reasons that change all the time are told %d times in an hour", n-4)
		}
		before := told()
		for i := range 10_000 {
			fail(1, fmt.Sprintf("read tcp 127.0.0.1:%d: connection reset", i), fmt.Sprintf("reason %c%c", 'a'+i%26, 'a'+i/26%26))
		}
		if n := told() - before; n > 20 {
			t.Errorf("reasons without end are told %d times", n)
		}
		l.reconnected()
		before = told()
		fail(time.Second, "dial tcp a:1: connection refused")
		if n := told() - before; n != 1 {
			t.Errorf("of another loss it is told %d times", n)
		}
	})
}
