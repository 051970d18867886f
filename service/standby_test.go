package service

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// leaderless is the service of a controller that does not run, and which others ask.
func (w *world) leaderless(change ...func(*Config)) *Service {
	w.Helper()
	s := w.service(change...)
	w.controller("sites", s, sitesConfig)
	w.run(s)
	natstest.Eventually(w, "it is registered", func() bool {
		_, err := w.js.Conn().Request("$SRV.PING.nagi", nil, time.Second)
		return err == nil
	})
	return s
}

// TestWhoFillsWhatWaitsForTheLeaderKeepsNoneOfAnotherKindFromAnAnswer: who may ask about one namespace keeps the
// operator from nothing, and who may read keeps nobody from an act.
func TestWhoFillsWhatWaitsForTheLeaderKeepsNoneOfAnotherKindFromAnAnswer(t *testing.T) {
	kinds := []struct{ subject, body string }{
		{"read.explain.shop", `{"key":"shop/home"}`}, {"act.reconcile.shop", `{"key":"shop/home"}`},
		{"read.brake-list", ""}, {"act.resync", ""},
	}
	for i, filled := range kinds {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.leaderless()
			w.gathered(2*mostWaiting, "nagi.sites."+filled.subject, filled.body)
			time.Sleep(10 * time.Millisecond)
			for k, of := range kinds {
				if k != i {
					refused(w, w.js.Conn(), "nagi.sites."+of.subject, of.body, 503)
				}
			}
		})
	}
}

// TestWhatIsBeyondTheRateDoesNotWaitForTheLeader, and what waits is counted once.
func TestWhatIsBeyondTheRateDoesNotWaitForTheLeader(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.leaderless(func(c *Config) { c.ReadRate = 0.001 }) // one request, and no more
		answers := w.gathered(20, "nagi.sites.read.about", "")
		natstest.Eventually(w, "one waits", func() bool { return len(s.reading.whole.standby) == 1 })
		time.Sleep(10 * time.Millisecond)
		if n := len(s.reading.whole.standby); n != 1 {
			t.Errorf("%d wait", n)
		}
		msg, err := answers.NextMsg(time.Minute)
		w.must(err)
		if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" {
			t.Errorf("the one is not answered: %s", msg.Data)
		}
	})
}
