package manager

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestTheServiceAndTheEventsOfTheConfigAreThoseOfItsControllers: a request is answered, and recorded as an event; both
// connections are closed at the end.
func TestTheServiceAndTheEventsOfTheConfigAreThoseOfItsControllers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := natstest.Start(t)
		m := open(t, Config{URL: s.URL(), Service: service.For(service.Config{}), Events: &recorder.Config{}})
		must(t, m.Add(siteController(t, m, m.Controller())))
		needs, err := m.Permissions()
		must(t, err)
		if !strings.Contains(needs.NATS(), `"nagi.events.>"`) {
			t.Errorf("the events are not among the permissions:\n%s", needs.NATS())
		}
		life := start(t, m)
		nc, js := natstest.Connect(t, s.URL())
		natstest.Eventually(t, "a request is answered", func() bool {
			msg, err := nc.RequestWithContext(t.Context(), "nagi.sites.act.resync", nil)
			return err == nil && msg.Header.Get("Nats-Service-Error") == ""
		})
		natstest.Eventually(t, "it is an event", func() bool {
			stream, err := js.Stream(t.Context(), recorder.DefaultStream)
			if err != nil {
				return false
			}
			info, err := stream.Info(t.Context())
			return err == nil && info.State.Msgs > 0
		})
		must(t, life.stop())
		if !m.serviceConn.IsClosed() || !m.Conn().IsClosed() {
			t.Error("a connection is open")
		}
	})
}

func TestAServiceNeedsToKnowHowToConnect(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		nc, _ := natstest.Connect(t, natstest.Start(t).URL())
		_, err := New(silent(t.Context()), Config{Conn: nc, Service: service.For(service.Config{})})
		mustSay(t, err, "service.New")
	})
}
