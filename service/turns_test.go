package service

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// stuck is a primary whose stream has no leader until it is let go.
type stuck struct {
	primary
	asked atomic.Int64
	let   chan struct{}
}

func (p *stuck) Suspend(ctx context.Context, key, reason string) (bool, error) {
	p.asked.Add(1)
	<-p.let
	return p.primary.Suspend(context.WithoutCancel(ctx), key, reason) // the time of the request may be over by now
}

func (p *stuck) Resume(ctx context.Context, key string) (bool, error) {
	p.asked.Add(1)
	<-p.let
	return p.primary.Resume(context.WithoutCancel(ctx), key)
}

// stuckSites runs a service with the controller of sites, whose documents have no leader. There is one document.
func (w *world) stuckSites() (s *Service, p *stuck, stop func()) {
	w.Helper()
	s = w.service()
	c := w.controller("sites", s, sitesConfig)
	p = &stuck{primary: c.served().primary, let: make(chan struct{})}
	c.served().primary = p
	w.run(c)
	stop = w.run(s)
	w.answers("nagi.sites.read.stats")
	w.put("sites", "shop.home", `{}`)
	return s, p, stop
}

// TestWhatIsAskedLastHolds: suspends that everybody has given up are not done after a later resume.
func TestWhatIsAskedLastHolds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, p, _ := w.stuckSites()
		const suspends = 3
		const home = `{"key":"shop/home"}`
		nc := w.conn("admin")
		var answered atomic.Int64
		inbox := nc.NewInbox()
		_, err := nc.Subscribe(inbox, func(*nats.Msg) { answered.Add(1) })
		w.must(err)
		for i := range suspends {
			subject := []string{"nagi.sites.act.suspend", "nagi.sites.act.suspend.shop"}[i%2]
			w.must(nc.PublishRequest(subject, inbox, []byte(home)))
		}
		natstest.Eventually(w, "one is being done, and the others wait", func() bool {
			return p.asked.Load() == 1 && len(s.acting.whole.turns)+len(s.acting.confined.turns) == suspends
		})
		close(p.let)
		resumed := ask[Done](w, w.js.Conn(), "nagi.sites.act.resume", home)
		natstest.Eventually(w, "all are answered", func() bool { return answered.Load() == suspends })
		if value := w.value("sites", "shop.home"); !resumed.Changed || strings.Contains(value, "nagi/suspend") {
			t.Errorf("resumed: %+v, and the document is %s", resumed, value)
		}
	})
}

// TestWhatWaitsTooLongIsNotDone, and does not let what comes after it overtake what is being done.
func TestWhatWaitsTooLongIsNotDone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		all, r := &turns{}, &request{verb: &verb{name: "suspend"}}
		first, second, third, other := all.enter("a"), all.enter("a"), all.enter("a"), all.enter("b")
		if err := errors.Join(first.wait(t.Context(), r), other.wait(t.Context(), r)); err != nil {
			t.Fatal(err)
		}
		other.leave()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := second.wait(short, r)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != 503 || !strings.Contains(e.Description, "was not done") {
			t.Errorf("error %v", err)
		}
		go second.leave()
		synctest.Wait()
		select {
		case <-third.before:
			t.Error("it is its turn while the first is being done")
		default:
		}
		first.leave()
		if err := third.wait(t.Context(), r); err != nil {
			t.Error(err)
		}
		if err := third.wait(short, r); err == nil {
			t.Error("its turn comes, and its time is over")
		}
		third.leave()
		if len(all.last) != 0 {
			t.Errorf("%d are left", len(all.last))
		}
	})
}

// TestActsUnderWayAreAnsweredAtTheStop, and others are refused.
func TestActsUnderWayAreAnsweredAtTheStop(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, p, stop := w.stuckSites()
		done := make(chan Done, 1)
		go func() {
			defer close(done) // ask may end the goroutine
			done <- ask[Done](w, w.js.Conn(), "nagi.sites.act.suspend", `{"key":"shop/home"}`)
		}()
		natstest.Eventually(w, "it is being done", func() bool { return p.asked.Load() == 1 })
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		natstest.Eventually(w, "it takes no more", func() bool { return len(s.acting.whole.turns) == mostWaiting })
		e := refused(w, w.js.Conn(), "nagi.sites.act.resume", `{"key":"shop/home"}`, 503)
		if !strings.Contains(e.Description, "was not done") {
			t.Errorf("%v", e)
		}
		close(p.let)
		if d := <-done; !d.Changed {
			t.Errorf("%+v", d)
		}
		<-stopped
	})
}

// TestToDeleteOrphansKeepsNoReleaseWaiting: it has a turn of its own, which is that of no key either.
func TestToDeleteOrphansKeepsNoReleaseWaiting(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := w.sites()
		things := map[string]string{}
		for verb, body := range map[string]string{
			"orphans-delete": `{"list":"x","expect":1}`, "brake-release": `{"engagement":"x","count":1}`,
			"orphans-adopt": `{"list":"x","expect":1,"owner":"shop/a","newOwner":"shop/b"}`,
		} {
			for _, v := range verbs() {
				if v.name == verb {
					thing, err := v.turn(&request{served: c.served(), verb: v, body: []byte(body)})
					w.must(err)
					things[verb] = thing
				}
			}
		}
		if things["orphans-delete"] != things["orphans-adopt"] {
			t.Errorf("the turns are %q: a delete and an adoption of the same orphans go on side by side", things)
		}
		if of := things["orphans-delete"]; of == things["brake-release"] || c.client.CheckKey(of) == nil {
			t.Errorf("the turns are %q", things)
		}
	})
}
