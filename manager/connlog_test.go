package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/foreign"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/klog/v2"
)

const notReconnected = "Reconnecting to NATS fails"

// TestWhyItDoesNotReconnectIsToldRarely: each reason once, and then changes of the reason with longer and longer pauses.
func TestWhyItDoesNotReconnectIsToldRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, log := withLog(context.Background())
		l := &connLog{log: foreign.Logger(klog.FromContext(ctx))}
		told := func() int { return strings.Count(log.text(), notReconnected) }
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

func TestDeadServersDoNotFillTheLog(t *testing.T) {
	isolated(t)
	s := startServer(t)
	urls := []string{s.URL()}
	for range 3 {
		dead := natstest.Start(t)
		dead.Stop()
		urls = append(urls, dead.URL())
	}
	ctx, log := withLog(t.Context())
	m, err := New(ctx, Config{URL: strings.Join(urls, ",")})
	must(t, err)
	defer m.Close(context.Background())
	s.Stop()
	eventually(t, "told that it does not reconnect", func() bool { return strings.Contains(log.text(), notReconnected) })
	time.Sleep(4 * time.Second) // some twenty tries
	if n := strings.Count(log.text(), notReconnected); n > 4 {
		t.Errorf("%d lines:\n%s", n, log.text())
	}
	must(t, s.Start())
	eventually(t, "connected again", m.Conn().IsConnected)
}
