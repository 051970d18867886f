package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// After a failure, one event at a time is sent until one is taken. A server in trouble is not sent all of them again.
func TestAfterAFailureOneEventAtATimeLooksWhetherItWorksAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const events, window = 200, 64
		srv := natstest.Start(t)
		proxy := natstest.StartProxy(t, srv.URL())
		var refused atomic.Int64 // publishes that no stream took
		proxy.Tamper(func(m *natstest.Message) natstest.Fate {
			if m.Direction == natstest.FromServer && m.Header.Get("Status") == "503" {
				refused.Add(1)
			}
			return natstest.Fate{}
		})
		_, js := natstest.Connect(t, proxy.URL())
		rec := newRecorder(t, recorder.Config{JetStream: js, BindOnly: true})
		proxy.Hold()
		for i := range events {
			rec.Event(website("", fmt.Sprint(i)), corev1.EventTypeNormal, "Synced", "done")
		}
		synctest.Wait() // as many as may be are on the wire
		proxy.Resume()
		synctest.Wait()
		if n := refused.Load(); n != window {
			t.Errorf("%d publishes at first, want %d", n, window)
		}
		// After 100 ms and then twice as long each time, with a jitter of a fifth: six times in ten seconds.
		time.Sleep(10 * time.Second)
		if n := refused.Load() - window; n != 6 {
			t.Errorf("%d publishes more, want 6", n)
		}
	})
}

func TestAnEventThatTheStreamWouldHaveDiscardedByNowIsGivenUp(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		log := &errorLog{}
		cfg := recorder.Config{JetStream: js, BindOnly: true, MaxAge: 200 * time.Millisecond, Logger: log.logger()}
		rec := newRecorder(t, cfg)
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		natstest.Eventually(t, "it is given up", func() bool { return rec.Stats().NATS.Failed == 1 })
		flush(t, rec) // it is logged after it is counted
		if n := len(log.with("giving up on the event Synced about Website /blog")); n != 1 {
			t.Errorf("%d lines in the log: %q", n, log.lines)
		}
		accounted(t, rec.Stats().NATS)
	})
}

// Close counts events on the wire as dropped: their outcome is unknown.
func TestCloseCountsWhatIsOnTheWireAsLost(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		var swallowed atomic.Int64
		_, js := natstest.Connect(t, srv.URL(), natstest.Tamper(func(m *nats.Msg) bool {
			acknowledgement := bytes.Contains(m.Data, []byte(`"stream":"`+recorder.DefaultStream+`"`))
			if acknowledgement {
				swallowed.Add(1)
			}
			return !acknowledgement
		}))
		rec := newRecorder(t, recorder.Config{JetStream: js})
		for i := range 10 {
			rec.Event(website("", fmt.Sprint(i)), corev1.EventTypeNormal, "Synced", "done")
		}
		wantNow(t, "they are on the wire", func() bool { return swallowed.Load() == 10 })
		err := closeWithin(rec, 50*time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "10 events") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if s := rec.Stats().NATS; s.Dropped != 10 {
			t.Errorf("%+v", s)
		}
		accounted(t, rec.Stats().NATS)
	})
}

// The stream is looked up again on the next connection.
func TestAConnectionLostDuringTheLookUpOfTheStreamIsNoProblemOfTheStream(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		asked := make(chan struct{}, 1)
		nc, js := natstest.Connect(t, srv.URL(), natstest.Tamper(func(m *nats.Msg) bool {
			if !bytes.Contains(m.Data, []byte("io.nats.jetstream.api.v1.stream_info_response")) {
				return true
			}
			select {
			case asked <- struct{}{}: // the first time
				return false
			default:
				return true
			}
		}))
		log := &errorLog{}
		rec := newRecorder(t, recorder.Config{JetStream: js, Logger: log.logger()})
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		wantNow(t, "the stream is asked for", func() bool { return len(asked) == 1 })
		if err := nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		flush(t, rec)
		if events := list(t, rec, "Website", "blog"); len(events) != 1 {
			t.Errorf("%+v", events)
		}
		if lines := log.with(""); len(lines) != 0 || rec.Err() != nil {
			t.Errorf("logged %q, Err %v", lines, rec.Err())
		}
	})
}

// A problem is logged once until an event is published, and then again if it comes back.
func TestAProblemThatComesBackIsInTheLogAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		log := &errorLog{}
		rec := newRecorder(t, recorder.Config{JetStream: js, BindOnly: true, Logger: log.logger()})
		for n := range 2 {
			rec.Event(website("", fmt.Sprint(n)), corev1.EventTypeNormal, "Synced", "done")
			wantNow(t, "it is in the log", func() bool { return len(log.with("no stream takes events")) == n+1 })
			subjects := []string{recorder.DefaultSubjectPrefix + ".>"}
			// In memory: the server may still be removing the files of the stream before.
			config := jetstream.StreamConfig{Name: recorder.DefaultStream, Subjects: subjects, Storage: jetstream.MemoryStorage}
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			natstest.Eventually(t, "the event is published", func() bool { return rec.Stats().NATS.Published == uint64(n+1) })
			if err := js.DeleteStream(t.Context(), recorder.DefaultStream); err != nil {
				t.Fatal(err)
			}
		}
	})
}
