package service

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/micro"
)

// TestStatsTellNothingOfErrors: who may ask the library for STATS may be allowed nothing else.
func TestStatsTellNothingOfErrors(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := w.sites()
		w.put("sites", "bank.secret", `{"spec":{"title":"terminal"}}`)
		natstest.Eventually(w, "it is parked", func() bool { return c.Explain("bank/secret").State == controller.StateParked })
		e := refused(w, w.js.Conn(), "nagi.sites.act.reconcile", `{"key":"bank/secret"}`, 409)
		if !strings.Contains(e.Description, "bank/secret") {
			t.Errorf("who asks is told %q", e.Description)
		}
		pinger := w.conn("pinger")
		natstest.Eventually(w, "the error is counted", func() bool {
			msg, err := pinger.Request("$SRV.STATS.nagi", nil, 10*time.Second)
			w.must(err)
			if strings.Contains(string(msg.Data), "secret") || strings.Contains(string(msg.Data), "parked") {
				t.Fatalf("%s", msg.Data)
			}
			var stats micro.Stats
			w.must(json.Unmarshal(msg.Data, &stats))
			failed := 0
			for _, endpoint := range stats.Endpoints {
				failed += endpoint.NumErrors
			}
			return failed == 1
		})
	})
}

// TestAPageThatIsNotCompleteIsNone: without Next it would pass for the last one.
func TestAPageThatIsNotCompleteIsNone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, c := w.sites()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, v := range verbs() {
			if v.name != "keys" && v.name != "brake-list" {
				continue
			}
			_, err := s.answer(ended, &request{served: c.served(), verb: v, room: 1 << 20})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", v.name, err)
			}
		}
	})
}

// TestManyResyncsMakeOneEvent, so that those of the brake, which are about the controller too, are not left out by the
// recorder; the log has each.
func TestManyResyncsMakeOneEvent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		recorded := &events{}
		w.sites(controller.WithEventRecorder(recorded))
		for range 5 {
			ask[Resynced](w, w.conn("shop"), "nagi.sites.act.resync.shop", "")
		}
		if n := strings.Count(recorded.String(), ReasonResync); n != 1 {
			t.Errorf("%d events:\n%v", n, recorded)
		}
		w.log.mu.Lock()
		defer w.log.mu.Unlock()
		if n := strings.Count(strings.Join(w.log.all, "\n"), "Done for a request"); n != 5 {
			t.Errorf("%d lines in the log:\n%s", n, strings.Join(w.log.all, "\n"))
		}
	})
}
