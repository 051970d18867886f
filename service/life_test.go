package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// replica is a process with the controller of sites.
type replica struct {
	*controlled
	serves func() // stops the service
}

func (w *world) replica() *replica {
	w.Helper()
	s := w.service()
	r := &replica{controlled: w.controller("sites", s, sitesConfig)}
	r.halt = w.run(r.controlled)
	r.serves = w.run(s)
	return r
}

// TestTheLeaderAnswers, whichever replica that is; who asks need not know.
func TestTheLeaderAnswers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.replica()
		w.answers("nagi.sites.read.stats")
		w.put("sites", "shop.home", `{}`)
		natstest.Eventually(w, "it is calm", func() bool {
			return first.Explain("shop/home").State == controller.StateCalm
		})
		second := w.replica()
		natstest.Eventually(w, "the other waits", func() bool {
			return second.Explain("shop/home").State == controller.StateStandby
		})
		admin := w.js.Conn()
		for range 20 { // a queue group of both would answer by chance
			if e := ask[controller.Explanation](w, admin, "nagi.sites.read.explain", `{"key":"shop/home"}`); !e.Leading {
				t.Fatalf("%+v", e)
			}
			ask[Done](w, admin, "nagi.sites.act.reconcile", `{"key":"shop/home"}`)
		}
		for range 20 {
			if a := ask[About](w, admin, "nagi.sites.read.about", ""); !a.Leading || a.Leader == "" {
				t.Fatalf("%+v", a)
			}
		}

		first.halt() // its service goes on
		natstest.Eventually(w, "the other leads", func() bool { return second.Stats().Leading })
		w.answers("nagi.sites.read.stats")
		before := second.count("shop/home", controller.OperationManual)
		for range 20 {
			ask[Done](w, admin, "nagi.sites.act.reconcile", `{"key":"shop/home"}`)
		}
		natstest.Eventually(w, "the new leader does it", func() bool {
			return second.count("shop/home", controller.OperationManual) > before
		})
		second.halt()
		refused(w, admin, "nagi.sites.act.resync", "", 503)
		if a := ask[About](w, admin, "nagi.sites.read.about", ""); a.Leading || a.Leader != "" {
			t.Errorf("no replica leads: %+v", a)
		}
	})
}

// TestWhatDoesNotLeadSaysWhoDoes: in the moment in which the lead goes, a request may still come.
func TestWhatDoesNotLeadSaysWhoDoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first, second := w.replica(), w.replica()
		w.answers("nagi.sites.read.stats")
		standby := second
		natstest.Eventually(w, "one leads, and the other knows who", func() bool {
			if second.Stats().Leading {
				standby = first
			}
			return standby.served().leader() != "" && first.Stats().Leading != second.Stats().Leading
		})
		for _, v := range verbs() {
			_, err := standby.service.answer(t.Context(), &request{served: standby.served(), verb: v, room: 1 << 20})
			refusal, ok := errors.AsType[*Error](err)
			if v.standby == ok || ok && (refusal.Code != 503 || refusal.Leader == "" ||
				!strings.Contains(refusal.Description, refusal.Leader)) {
				t.Errorf("%s: %v", v.name, err)
			}
			if v.whole {
				continue
			}
			// Of replicas those learn who may ask about all keys.
			_, err = standby.service.answer(t.Context(), &request{
				served: standby.served(), verb: v, room: 1 << 20, scope: scope{confined: true, namespace: "shop"},
			})
			if told, ok := errors.AsType[*Error](err); !ok || told.Code != 503 || told.Leader != "" ||
				strings.Contains(told.Description, standby.served().leader()) {
				t.Errorf("%s, for a namespace: %v", v.name, err)
			}
		}
	})
}

// TestAConnectionThatComesBackAnswersAgain, by itself.
func TestAConnectionThatComesBackAnswersAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		stored := sitesConfig
		stored.Storage = jetstream.FileStorage // it outlives the restart
		w.run(w.controller("sites", s, stored))
		w.run(s)
		w.answers("nagi.sites.read.stats")
		for range 2 {
			w.must(w.srv.Restart())
			natstest.Eventually(w, "it answers again", func() bool {
				msg, err := w.js.Conn().Request("nagi.sites.read.about", nil, time.Second)
				return err == nil && msg.Header.Get("Nats-Service-Error") == ""
			})
		}
		natstest.Eventually(w, "the leader does, too", func() bool {
			_, err := w.js.Conn().Request("nagi.sites.read.stats", nil, time.Second)
			return err == nil
		})
	})
}

// TestWhatWasAskedBeforeTheStopIsAnswered, and only then Run returns.
func TestWhatWasAskedBeforeTheStopIsAnswered(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		c := w.controller("sites", s, sitesConfig)
		w.run(c)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		w.answers("nagi.sites.read.stats")
		v := &vanishing{listings: make(chan struct{})}
		c.served().restorer = restorerOf(v)
		const requests = 3
		before := s.cfg.Conn.Stats().InMsgs
		answered := make(chan error, requests)
		for range requests {
			go func() {
				_, err := w.js.Conn().Request("nagi.sites.read.brake-vanished", nil, 10*time.Second)
				answered <- err
			}()
		}
		v.listings <- struct{}{} // the first is done, and the others wait
		w.must(<-answered)
		natstest.Eventually(w, "all have arrived", func() bool {
			return s.cfg.Conn.Stats().InMsgs-before >= requests
		})
		stop()
		select {
		case err := <-ended:
			t.Fatalf("Run returned %v before all was answered", err)
		case <-time.After(100 * time.Millisecond):
		}
		for range requests - 1 {
			v.listings <- struct{}{}
			w.must(<-answered)
		}
		w.must(<-ended)
		if !s.cfg.Conn.IsClosed() {
			t.Error("the connection is open")
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs once") {
			t.Errorf("a second Run: %v", err)
		}
	})
}

func TestRunEndsWithItsConnection(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		natstest.Eventually(w, "it is registered", func() bool {
			_, err := w.js.Conn().Request("$SRV.PING.nagi", nil, time.Second)
			return err == nil
		})
		s.cfg.Conn.Close()
		if err := <-ended; !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("Run returned %v", err)
		}

		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		w.must(w.service().Run(stopped))

		away := w.service()
		w.srv.Stop()
		natstest.Eventually(w, "it is noticed", func() bool { return !away.cfg.Conn.IsConnected() })
		began := time.Now()
		w.must(away.Run(stopped))
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("it took %v to stop without a server", took)
		}
	})
}

// TestTheUserIsNamedWhereTheServerTells: of requests from another account, and of no others, whatever they say. It is
// no fact: see TestANameIsNoFact.
func TestTheUserIsNamedWhereTheServerTells(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		recorded := &events{}
		_, c := w.sites(controller.WithEventRecorder(recorded))
		w.put("sites", "shop.home", `{}`)
		natstest.Eventually(w, "it is calm", func() bool {
			return c.Explain("shop/home").State == controller.StateCalm
		})
		forged, err := json.Marshal(map[string]string{"acc": "APP", "user": "mallory"})
		w.must(err)
		ask := func(nc *nats.Conn) {
			t.Helper()
			msg := nats.NewMsg("nagi.sites.act.reconcile.shop")
			msg.Header.Set("Nats-Request-Info", string(forged))
			msg.Data = []byte(`{"key":"shop/home"}`)
			answer, err := nc.RequestMsg(msg, 10*time.Second)
			w.must(err)
			if code := answer.Header.Get("Nats-Service-Error-Code"); code != "" {
				t.Fatalf("%s %s", code, answer.Data)
			}
		}
		ask(w.conn("shop"))
		natstest.Eventually(w, "an event", func() bool {
			return recorded.have("ReconcileRequested", "whom the server does not name")
		})
		ask(w.conn("alice"))
		natstest.Eventually(w, "an event", func() bool {
			return recorded.have("Site shop/home ReconcileRequested", `somebody who says to be user "alice" of account "TENANT"`)
		})
		if recorded.have("mallory") {
			t.Errorf("what a caller says is believed: %v", recorded)
		}
		// And who is in the account of the service cannot name such a reply.
		shop := w.conn("shop")
		msg := nats.NewMsg("nagi.sites.act.reconcile.shop")
		msg.Reply, msg.Data = "_R_.abc.def", []byte(`{"key":"shop/home"}`)
		msg.Header.Set("Nats-Request-Info", string(forged))
		before := fmt.Sprint(recorded)
		w.must(shop.PublishMsg(msg))
		w.must(shop.Flush())
		refused(w, shop, "nagi.sites.act.reconcile.shop", `{}`, 400)
		if after := fmt.Sprint(recorded); after != before {
			t.Errorf("it was done: %v", after)
		}
	})
}

// TestRequestsThatWaitAreFew: who sends many does not fill the memory.
func TestRequestsThatWaitAreFew(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, c := w.sites()
		v := &vanishing{listings: make(chan struct{})}
		c.served().restorer = restorerOf(v)
		const sent = 2000
		nc := w.conn("admin")
		inbox := nc.NewInbox()
		answered, err := nc.SubscribeSync(inbox)
		w.must(err)
		before := s.cfg.Conn.Stats().InMsgs
		for range sent {
			w.must(nc.PublishRequest("nagi.sites.read.brake-vanished", inbox, nil))
		}
		natstest.Eventually(w, "all have arrived", func() bool {
			return s.cfg.Conn.Stats().InMsgs-before >= sent
		})
		close(v.listings)
		w.answers("nagi.sites.read.brake-vanished") // after those before it
		w.must(nc.Flush())
		n, _, err := answered.Pending()
		w.must(err)
		if n == 0 || n > 300 {
			t.Errorf("%d of %d are answered", n, sent)
		}
	})
}
