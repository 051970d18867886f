package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// defaultLease is what a controller has that sets nothing.
var defaultLease = controller.LeaseTiming{
	Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
}

// far is a replica behind a wire of its own, with the default lease.
func (w *world) far(opts ...controller.Option) (*replica, *natstest.Proxy) {
	w.Helper()
	proxy := natstest.StartProxy(w.T, w.srv.URL())
	beyond := *w
	_, beyond.js = natstest.Connect(w.T, proxy.URL(), nats.UserInfo("admin", "x"))
	own, _ := natstest.Connect(w.T, proxy.URL(), nats.UserInfo("service", "x"))
	s := w.service(func(c *Config) { c.Conn = own })
	opts = append(opts, controller.WithLeaseTiming(defaultLease))
	return w.runs(s, beyond.controller("sites", s, sitesConfig, opts...)), proxy
}

// near is another replica with the default lease.
func (w *world) near() *replica {
	w.Helper()
	s := w.service()
	return w.runs(s, w.controller("sites", s, sitesConfig, controller.WithLeaseTiming(defaultLease)))
}

func (w *world) runs(s *Service, c *controlled) *replica {
	r := &replica{controlled: c}
	r.halt = w.run(c)
	r.serves = w.run(s)
	return r
}

// leadsFar are two replicas of which the far one leads, and the near one waits.
func (w *world) leadsFar() (far *replica, wire *natstest.Proxy, near *replica) {
	w.Helper()
	far, wire = w.far()
	w.answers("nagi.sites.read.stats")
	w.put("sites", "shop.home", `{}`)
	natstest.Eventually(w, "it is calm", func() bool { return far.Explain("shop/home").State == controller.StateCalm })
	near = w.near()
	natstest.Eventually(w, "the other waits", func() bool {
		return near.Explain("shop/home").State == controller.StateStandby
	})
	return far, wire, near
}

// TestEachRequestIsAnsweredThoughTheFormerLeaderIsCutOff: a wire that is half open keeps the subscriptions of the
// former leader at the server, for minutes. They take no share of the requests.
func TestEachRequestIsAnsweredThoughTheFormerLeaderIsCutOff(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		far, wire, near := w.leadsFar()
		wire.Blackhole()
		defer wire.Refuse() // so that the service behind it can stop
		natstest.Eventually(w, "the other leads", near.served().engine.Leads)
		if far.served().engine.Leads() {
			t.Fatal("both lead")
		}
		for range 20 {
			e := ask[controller.Explanation](w, w.js.Conn(), "nagi.sites.read.explain", `{"key":"shop/home"}`)
			if !e.Leading {
				t.Fatalf("%+v", e)
			}
			ask[Done](w, w.js.Conn(), "nagi.sites.act.reconcile", `{"key":"shop/home"}`)
			if a := ask[About](w, w.js.Conn(), "nagi.sites.read.about", ""); !a.Leading {
				t.Fatalf("%+v", a)
			}
		}
	})
}

// gathered sends requests with one inbox, and returns what comes there.
func (w *world) gathered(n int, subject, body string) *nats.Subscription {
	w.Helper()
	nc := w.js.Conn()
	answers, err := nc.SubscribeSync(nc.NewInbox())
	w.must(err)
	for range n {
		w.must(nc.PublishRequest(subject, answers.Subject, []byte(body)))
	}
	w.must(nc.Flush())
	return answers
}

// TestARequestThatReachesAFormerLeaderLateIsNotDone: what waited while it hung is read when it wakes, and its term is
// over then.
func TestARequestThatReachesAFormerLeaderLateIsNotDone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		far, wire, near := w.leadsFar()
		wire.Hold()
		natstest.Eventually(w, "the other leads", near.served().engine.Leads)
		acts := w.gathered(20, "nagi.sites.act.reconcile", `{"key":"shop/home"}`)
		reads := w.gathered(20, "nagi.sites.read.explain", `{"key":"shop/home"}`)
		abouts := w.gathered(20, "nagi.sites.read.about", "")
		wire.Resume()
		time.Sleep(time.Minute)
		for _, answers := range []*nats.Subscription{acts, reads, abouts} {
			if n, _, err := answers.Pending(); n != 20 || err != nil {
				t.Errorf("%d answers to 20 requests, error %v", n, err)
			}
			for msg, err := answers.NextMsg(time.Second); err == nil; msg, err = answers.NextMsg(time.Second) {
				if msg.Header.Get("Nats-Service-Error-Code") != "" {
					t.Errorf("%s", msg.Data)
				}
			}
		}
		if n := far.count("shop/home", controller.OperationManual); n != 0 {
			t.Errorf("the former leader has acted %d times", n)
		}
	})
}

// TestAStandbySaysThatNoReplicaLeads, in time for a caller that waits 5 s, which is what the command line does.
func TestAStandbySaysThatNoReplicaLeads(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		far, wire, near := w.leadsFar()
		leader := far.served().leader()
		asked := func(subject, body string) (*nats.Msg, error) {
			return w.js.Conn().Request(subject, []byte(body), 5*time.Second)
		}
		const key = `{"key":"shop/home"}`
		wire.Blackhole() // the lease is the far one's for some seconds more
		for subject, body := range map[string]string{
			"nagi.sites.read.explain": key, "nagi.sites.act.reconcile": key, "nagi.sites.act.suspend": key,
		} {
			go func() {
				msg, err := asked(subject, body)
				var e Error
				if err == nil {
					err = json.Unmarshal(msg.Data, &e)
				}
				if err != nil || e.Code != codeNotDone || e.Leader != leader || !strings.Contains(e.Description, "renewed") {
					t.Errorf("%s: %+v, error %v", subject, e, err)
				}
			}()
		}
		msg, err := asked("nagi.sites.read.about", "")
		var a About
		if err == nil {
			err = json.Unmarshal(msg.Data, &a)
		}
		if err != nil || a.Leading || a.Leader != leader {
			t.Errorf("about: %+v, error %v", a, err)
		}
		msg, err = asked("nagi.sites.read.explain.shop", key)
		var e Error
		if err == nil {
			err = json.Unmarshal(msg.Data, &e)
		}
		if err != nil || e.Code != codeNotDone || e.Leader != "" || strings.Contains(e.Description, leader) {
			t.Errorf("who may ask about one namespace is told %+v, error %v", e, err)
		}
		natstest.Eventually(w, "the other leads", near.served().engine.Leads)
		near.halt()
		wire.Refuse()
		if e := refused(w, w.js.Conn(), "nagi.sites.read.explain", key, codeNotDone); e.Leader != "" {
			t.Errorf("the lease was given back: %+v", e)
		}
	})
}

// TestAStandbySaysNothingWhileTheLeaderRenews, however long the leader works for the request.
func TestAStandbySaysNothingWhileTheLeaderRenews(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		far, _, _ := w.leadsFar()
		v := &vanishing{listings: make(chan struct{})}
		far.served().restorer = restorerOf(v)
		answers := w.gathered(1, "nagi.sites.read.brake-vanished", "")
		for range 60 { // the request comes at any moment between two renewals
			time.Sleep(333 * time.Millisecond)
			quick := w.gathered(1, "nagi.sites.read.explain", `{"key":"shop/home"}`)
			defer func() {
				if n, _, err := quick.Pending(); n != 1 || err != nil {
					t.Errorf("%d answers to one request, error %v", n, err)
				}
			}()
		}
		if n, _, err := answers.Pending(); n != 0 || err != nil {
			t.Errorf("%d answers before there is one, error %v", n, err)
		}
		close(v.listings)
		time.Sleep(time.Minute)
		if n, _, err := answers.Pending(); n != 1 || err != nil {
			t.Errorf("%d answers to one request, error %v", n, err)
		}
	})
}

// TestReplicasOfTheFormerVersionTakeTurns: they subscribe in a queue group, to what the leader answers only while they
// lead.
func TestReplicasOfTheFormerVersionTakeTurns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		former, err := controller.New("sites", w.client(sitesConfig), (&reconciles{}).reconciler(w.client(sitesConfig)),
			controller.WithLeaseTiming(defaultLease))
		w.must(err)
		stop := w.run(former)
		natstest.Eventually(w, "the former version leads", func() bool { return former.Stats().Leading })
		svc, err := micro.AddService(w.conn("service"), micro.Config{Name: "nagi", Version: DefaultVersion})
		w.must(err)
		w.must(svc.AddGroup("nagi.sites").AddEndpoint("stats", micro.HandlerFunc(func(req micro.Request) {
			_ = req.Respond([]byte(`{"controller":"former"}`))
		}), micro.WithEndpointSubject("read.stats")))
		w.put("sites", "shop.home", `{}`)
		near := w.near()
		natstest.Eventually(w, "the new version waits", func() bool {
			return near.Explain("shop/home").State == controller.StateStandby
		})
		answers := w.gathered(20, "nagi.sites.read.stats", "")
		time.Sleep(time.Minute)
		for i := range 20 {
			msg, err := answers.NextMsg(time.Second)
			if err != nil || !strings.Contains(string(msg.Data), "former") {
				t.Fatalf("answer %d: %v, error %v", i, msg, err)
			}
		}
		if n, _, _ := answers.Pending(); n != 0 {
			t.Errorf("%d answers too many", n)
		}
		stop() // its subscriptions stay, as those of a process that hangs do
		natstest.Eventually(w, "the new version leads", near.served().engine.Leads)
		newer := 0
		answers = w.gathered(20, "nagi.sites.read.stats", "")
		for msg, err := answers.NextMsg(time.Second); err == nil; msg, err = answers.NextMsg(time.Second) {
			if strings.Contains(string(msg.Data), `"controller":"sites"`) {
				newer++
			}
		}
		if newer != 20 {
			t.Errorf("the leader has answered %d of 20", newer)
		}
	})
}

// TestTheServicesAPIListsEachReplicaWithItsEndpoints, as nats micro ls, info and stats ask for them.
func TestTheServicesAPIListsEachReplicaWithItsEndpoints(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.leadsFar()
		for verb, has := range map[string]string{"PING": `"name":"nagi"`, "INFO": "nagi.sites.act.brake-release", "STATS": "num_requests"} {
			answers := w.gathered(1, "$SRV."+verb+".nagi", "")
			ids := map[string]bool{}
			for msg, err := answers.NextMsg(time.Second); err == nil; msg, err = answers.NextMsg(time.Second) {
				var of micro.ServiceIdentity
				w.must(json.Unmarshal(msg.Data, &of))
				ids[of.ID] = true
				if !strings.Contains(string(msg.Data), has) {
					t.Errorf("%s: no %s in %s", verb, has, msg.Data)
				}
			}
			if len(ids) != 2 {
				t.Errorf("%s: answers of %v, want two instances", verb, ids)
			}
		}
	})
}

// TestEachReplicaWithoutALeaseAnswers: a controller WithoutTeardown works in each process, and one that hangs keeps no
// request from the others.
func TestEachReplicaWithoutALeaseAnswers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bare := sitesConfig
		bare.StatusBucket = entity.NoStatusBucket
		for range 2 {
			s := w.service()
			c, err := controller.New("sites", w.client(bare), (&reconciles{}).reconciler(w.client(bare)),
				s.Controller(), controller.WithoutTeardown())
			w.must(err)
			w.run(c)
			w.run(s)
		}
		natstest.Eventually(w, "both answer", func() bool {
			answers := w.gathered(1, "nagi.sites.read.stats", "")
			time.Sleep(time.Second)
			n, _, err := answers.Pending()
			return n == 2 && err == nil
		})
	})
}

// TestWhatWaitsForTheLeaderEndsWithTheService, and keeps its stop from nothing.
func TestWhatWaitsForTheLeaderEndsWithTheService(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		w.controller("sites", s, sitesConfig) // it does not run
		stop := w.run(s)
		natstest.Eventually(w, "it is registered", func() bool {
			_, err := w.js.Conn().Request("$SRV.PING.nagi", nil, time.Second)
			return err == nil
		})
		answers := w.gathered(2*mostWaiting, "nagi.sites.read.stats", "")
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v to stop", took)
		}
		if msg, err := answers.NextMsg(time.Second); !errors.Is(err, nats.ErrTimeout) {
			t.Errorf("%s", fmt.Sprint(msg, err))
		}
	})
}
