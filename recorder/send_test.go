package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// After a failure, one event at a time is sent until one is taken. A server in trouble is not sent all of them again.
func TestAfterAFailureOneEventAtATimeLooksWhetherItWorksAgain(t *testing.T) {
	t.Parallel()
	const events, window = 200, 64
	srv := natstest.Start(t)
	var refused atomic.Int64 // publishes that no stream took
	_, js := natstest.Connect(t, srv.URL(), natstest.Tamper(func(m *nats.Msg) bool {
		if m.Header.Get("Status") == "503" {
			refused.Add(1)
		}
		return true
	}))
	rec := newRecorder(t, recorder.Config{JetStream: js, BindOnly: true})
	t.Cleanup(func() { closeWithin(rec, 0) })
	for i := range events {
		rec.Event(website("", fmt.Sprint(i)), corev1.EventTypeNormal, "Synced", "done")
	}
	before := int64(-1)
	eventually(t, "those that were on the wire are answered", func() bool {
		last := before
		before = refused.Load()
		<-time.After(50 * time.Millisecond) // less than before another try
		return before > 0 && before == last && refused.Load() == last
	})
	eventually(t, "it was tried again and again", func() bool { return refused.Load() >= before+3 })
	if n := refused.Load() - before; n >= window {
		t.Errorf("%d publishes more: all that wait are sent again and again", n)
	}
}

func TestAnEventThatTheStreamWouldHaveDiscardedByNowIsGivenUp(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	_, js := natstest.Connect(t, srv.URL())
	log := &errorLog{}
	cfg := recorder.Config{JetStream: js, BindOnly: true, MaxAge: 200 * time.Millisecond, Logger: log.logger()}
	rec := newRecorder(t, cfg)
	rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
	eventually(t, "it is given up", func() bool { return rec.Stats().NATS.Failed == 1 })
	flush(t, rec) // it is logged after it is counted
	if n := len(log.with("giving up on the event Synced about Website /blog")); n != 1 {
		t.Errorf("%d lines in the log: %q", n, log.lines)
	}
	accounted(t, rec.Stats().NATS)
}

// Close counts events on the wire as dropped: their outcome is unknown.
func TestCloseCountsWhatIsOnTheWireAsLost(t *testing.T) {
	t.Parallel()
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
	eventually(t, "they are on the wire", func() bool { return swallowed.Load() >= 10 }) // some may be sent again
	err := closeWithin(rec, 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "10 events") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if s := rec.Stats().NATS; s.Dropped != 10 {
		t.Errorf("%+v", s)
	}
	accounted(t, rec.Stats().NATS)
}

// The stream is looked up again on the next connection.
func TestAConnectionLostDuringTheLookUpOfTheStreamIsNoProblemOfTheStream(t *testing.T) {
	t.Parallel()
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
	eventually(t, "the stream is asked for", func() bool { return len(asked) == 1 })
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
}

// A problem is logged once until an event is published, and then again if it comes back.
func TestAProblemThatComesBackIsInTheLogAgain(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	_, js := natstest.Connect(t, srv.URL())
	log := &errorLog{}
	rec := newRecorder(t, recorder.Config{JetStream: js, BindOnly: true, Logger: log.logger()})
	for n := range 2 {
		rec.Event(website("", fmt.Sprint(n)), corev1.EventTypeNormal, "Synced", "done")
		eventually(t, "it is in the log", func() bool { return len(log.with("no stream takes events")) == n+1 })
		subjects := []string{recorder.DefaultSubjectPrefix + ".>"}
		// In memory: the server may still be removing the files of the stream before.
		config := jetstream.StreamConfig{Name: recorder.DefaultStream, Subjects: subjects, Storage: jetstream.MemoryStorage}
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the event is published", func() bool { return rec.Stats().NATS.Published == uint64(n+1) })
		if err := js.DeleteStream(t.Context(), recorder.DefaultStream); err != nil {
			t.Fatal(err)
		}
	}
}
