package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestEachFaultHappensAsItsNameSays, once: the next message passes, if the replica is still there.
func TestEachFaultHappensAsItsNameSays(t *testing.T) {
	for f, want := range map[fault]struct {
		answer string // is in it; "" for none
		stored bool   // the stream has got the message
		there  bool   // it still has it
		lives  bool
	}{
		crashBefore: {},
		crashAfter:  {stored: true, there: true},
		lostAck:     {stored: true, there: true, lives: true},
		noRoom:      {answer: `"err_code":10077`, lives: true},
		exhausted:   {answer: `"err_code":10023`, lives: true},
		noRights:    {lives: true},
		vanished:    {answer: `"seq":1`, stored: true, lives: true},
		paused:      {lives: true},
	} {
		t.Run(string(f), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t, cell{step: secondaryWritten, fault: f})
				r := newWire("r1", w.director)
				nc, err := nats.Connect(w.server.URL(), nats.SetCustomDialer(r), nats.MaxReconnects(-1),
					nats.ReconnectWait(10*time.Millisecond),
					nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
				must(t, err)
				defer r.wg.Wait()
				defer nc.Close()
				answer := ""
				if msg, err := nc.Request("$KV.pages.home.0", []byte("{}"), time.Second); err == nil {
					answer = string(msg.Data)
				}
				if want.answer == "" && answer != "" || !strings.Contains(answer, want.answer) {
					t.Errorf("answered %q, want %q", answer, want.answer)
				}
				if denied := errors.Is(nc.LastError(), nats.ErrPermissionViolation); denied != (f == noRights) {
					t.Errorf("told %v", nc.LastError())
				}
				stream, err := w.js.Stream(t.Context(), "KV_pages")
				must(t, err)
				state := stream.CachedInfo().State
				if (state.LastSeq > 0) != want.stored || (state.Msgs > 0) != want.there {
					t.Errorf("the stream has %d messages, and had %d", state.Msgs, state.LastSeq)
				}
				w.director.end() // of a pause
				if _, err := nc.Request("$KV.pages.home.1", []byte("{}"), time.Second); (err == nil) != want.lives {
					t.Errorf("the next message: %v", err)
				}
				if _, left := w.director.next(); left > 0 {
					t.Error("the fault is still to come")
				}
			})
		})
	}
}

// TestTheHistoryHasWhatIsOverwrittenAtOnce, who wrote it, and nothing that was refused.
func TestTheHistoryHasWhatIsOverwrittenAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := newWire("r1", w.director)
		_, js := natstest.Connect(t, w.server.URL(), nats.SetCustomDialer(r))
		const writes = 2000
		for i := range writes {
			_, err := js.PublishAsync("$KV.pages.home.0", []byte(fmt.Sprint(i)))
			must(t, err)
		}
		<-js.PublishAsyncComplete()
		_, err := js.Publish(t.Context(), "$KV.pages.home.0", nil, jetstream.WithExpectLastSequencePerSubject(1))
		if err == nil {
			t.Fatal("it is not refused")
		}
		events := w.history.whole(t, w.js)
		n := 0
		for _, e := range events {
			if e.kind != written {
				continue
			}
			if n++; string(e.value) != fmt.Sprint(n-1) || e.by != "r1" || e.key != "home.0" {
				t.Fatalf("the history has %s as number %d", e, n)
			}
		}
		if n != writes {
			t.Errorf("the history has %d writes", n)
		}
	})
}
