package service

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/micro"
	"k8s.io/klog/v2"
)

// standby is a service that runs, with a controller that does not: it answers "about" alone.
func (w *world) standby() *Service {
	w.Helper()
	s := w.service()
	w.controller("sites", s, sitesConfig)
	w.run(s)
	w.answers("nagi.sites.read.about")
	return s
}

// allAnswered sends requests until so many in a row are answered. If the server kept a subscription that nobody reads,
// beside one that is read, each second request would be lost for good.
func (w *world) allAnswered(subject string) {
	w.Helper()
	const requests = 20
	nc := w.conn("admin")
	natstest.Eventually(w, fmt.Sprintf("%d requests in a row are answered on %s", requests, subject), func() bool {
		for range requests {
			if _, err := nc.Request(subject, nil, time.Second); err != nil {
				return false
			}
		}
		return true
	})
}

// TestATermThatEndsInAnOutageLosesNoRequests: the server must not keep subscriptions that the service has given up.
func TestATermThatEndsInAnOutageLosesNoRequests(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.standby()
		nc := s.cfg.Conn
		w.srv.Stop()
		natstest.Eventually(w, "it is noticed", func() bool { return !nc.IsConnected() })
		subscriptions := nc.NumSubscriptions()
		s.changed()
		natstest.Eventually(w, "it subscribes anew", func() bool { return nc.NumSubscriptions() > subscriptions })
		time.Sleep(500 * time.Millisecond)
		w.must(w.srv.Start())
		natstest.Eventually(w, "it gives up what it had", func() bool {
			return nc.IsConnected() && nc.NumSubscriptions() <= subscriptions
		})
		natstest.Eventually(w, "the service answers", func() bool {
			_, err := w.js.Conn().Request("nagi.sites.read.about", nil, time.Second)
			return err == nil
		})
		w.allAnswered("nagi.sites.read.about")
	})
}

// TestAServiceThatIsStillAnsweringIsForgotten, though the connection is lost between its stop and its answer.
func TestAServiceThatIsStillAnsweringIsForgotten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nc := w.conn("admin")
		logger := klog.New(w.log.logger().GetSink())
		taken, answer := make(chan struct{}, 1), make(chan struct{})
		all := &registrations{nc: nc}
		register := func(answer func()) {
			svc, err := micro.AddService(nc, micro.Config{Name: "nagi", Version: DefaultVersion})
			w.must(err)
			w.must(svc.AddEndpoint("about", micro.HandlerFunc(func(req micro.Request) {
				answer()
				_ = req.Respond(nil)
			})))
			all.add(svc)
			all.settle(logger)
			w.must(nc.Flush())
		}
		register(func() {
			taken <- struct{}{}
			<-answer
		})
		go func() { _, _ = w.js.Conn().Request("about", nil, 10*time.Second) }()
		<-taken
		register(func() {})
		w.must(nc.ForceReconnect())
		natstest.Eventually(w, "it is back", func() bool { return nc.IsConnected() && nc.Stats().Reconnects == 1 })
		all.settle(logger)
		if !all.pending() {
			t.Error("it does not wait for the answer")
		}
		close(answer)
		natstest.Eventually(w, "it is given up", func() bool {
			all.settle(logger)
			return !all.pending()
		})
		natstest.Eventually(w, "the connection is made anew", func() bool { return nc.IsConnected() && nc.Stats().Reconnects == 2 })
		w.must(nc.Flush())
		w.allAnswered("about")
	})
}
