package service

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// denied checks that the server takes no such request of a user.
func (w *world) denied(nc *nats.Conn, subject, body string) {
	w.Helper()
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	w.must(err)
	w.must(nc.PublishRequest(subject, inbox, []byte(body)))
	w.must(nc.Flush()) // the server says what it denies before it answers this
	if last := nc.LastError(); !errors.Is(last, nats.ErrPermissionViolation) ||
		!strings.Contains(last.Error(), `"`+subject+`"`) {
		w.Errorf("%s: the server says %v", subject, last)
	}
	// What the service got is answered before what comes later on the same subject.
	refused(w, w.js.Conn(), subject, `[]`, 400)
	w.must(nc.Flush())
	if n, _, err := answers.Pending(); n != 0 || err != nil {
		w.Errorf("%s is answered: %d, %v", subject, n, err)
	}
	w.must(answers.Unsubscribe())
}

func TestSubjectsSayWhoMayDoWhat(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := w.sites()
		w.put("sites", "shop.home", `{}`)
		w.put("sites", "bank.home", `{}`)
		natstest.Eventually(w, "both are calm", func() bool {
			return c.Explain("shop/home").State == controller.StateCalm && c.Explain("bank/home").State == controller.StateCalm
		})
		const shopHome, bankHome = `{"key":"shop/home"}`, `{"key":"bank/home"}`

		reader := w.conn("reader")
		for _, subject := range []string{"nagi.sites.read.explain", "nagi.sites.read.explain.bank"} {
			if e := ask[controller.Explanation](w, reader, subject, bankHome); e.State != controller.StateCalm {
				t.Errorf("%s: %+v", subject, e)
			}
		}
		w.denied(reader, "nagi.sites.act.reconcile", bankHome)
		w.denied(reader, "nagi.sites.act.reconcile.bank", bankHome)
		w.denied(reader, "nagi.sites.act.brake-release", `{}`)

		shop := w.conn("shop")
		ask[controller.Explanation](w, shop, "nagi.sites.read.explain.shop", shopHome)
		ask[Done](w, shop, "nagi.sites.act.reconcile.shop", shopHome)
		natstest.Eventually(w, "it is reconciled", func() bool { return c.count("shop/home", controller.OperationManual) == 1 })
		for _, subject := range []string{
			"nagi.sites.read.explain", "nagi.sites.read.explain.bank", "nagi.sites.read.keys", "nagi.sites.read.stats",
			"nagi.sites.act.reconcile", "nagi.sites.act.reconcile.bank", "nagi.sites.act.resync", "nagi.sites.act.brake-release",
		} {
			w.denied(shop, subject, shopHome)
		}

		nothing := w.conn("nothing")
		w.denied(nothing, "nagi.sites.read.about", "")
		w.denied(nothing, "nagi.sites.read.explain.shop", shopHome)
		w.denied(nothing, "nagi.sites.act.reconcile.shop", shopHome)
		if n := c.count("bank/home", controller.OperationManual); n != 0 {
			t.Errorf("bank/home was reconciled by hand %d times", n)
		}
	})
}

// TestTheBodyNamesNoOtherNamespace than the subject does.
func TestTheBodyNamesNoOtherNamespace(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := w.sites()
		w.put("sites", "shop.home", `{}`)
		w.put("sites", "bank.home", `{}`)
		natstest.Eventually(w, "both are calm", func() bool { return c.Explain("bank/home").State == controller.StateCalm })
		shop := w.conn("shop")
		for _, body := range []string{`{"key":"bank/home"}`, `{"key":"bank/none"}`, `{"key":"shopping/home"}`, `{"key":"shop"}`} {
			for _, verb := range []string{"read.explain", "act.reconcile", "act.unpark", "act.suspend", "act.resume"} {
				e := refused(w, shop, "nagi.sites."+verb+".shop", body, 403)
				if strings.Contains(e.Description, "neither a document") {
					t.Errorf("%s tells whether %s exists: %v", verb, body, e.Description)
				}
			}
		}
		for _, body := range []string{
			`{"key":"shop/home","namespace":"bank"}`, `{"key":"shop/home"} {"key":"bank/home"}`, `{"key":7}`, `[]`, `{"key":""}`,
			`{`, `{"key":"shop/a b"}`, `{"key":"shop/a/b"}`, `{"key":"shop/` + strings.Repeat("x", 100<<10) + `"}`,
		} {
			refused(w, shop, "nagi.sites.act.suspend.shop", body, 400)
		}
		if n := c.count("bank/home", controller.OperationManual); n != 0 || w.value("sites", "bank.home") != "{}" {
			t.Errorf("bank/home was reconciled by hand %d times, and is %s", n, w.value("sites", "bank.home"))
		}
		for _, subject := range []string{"nagi.sites.read.keys.a+b", "nagi.sites.act.resync.a$"} {
			refused(w, w.js.Conn(), subject, "", 400)
		}
	})
}

func TestANamespaceSeesOnlyItself(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, c := w.sites()
		for _, key := range []string{"bank.a", "shop.a", "shop.b", "shop.c", "shop-2.a", "shopping.a", "zoo.a"} {
			w.put("sites", key, `{"spec":{"title":"terminal"}}`)
		}
		w.put("sites", "shop/x.y", `{}`) // no key that the bucket can have, which looks like one of the namespace
		natstest.Eventually(w, "all are parked", func() bool { return c.Stats().Parked == 7 })
		shop := w.conn("shop")
		list := func(body string) (keys []string, next string) {
			t.Helper()
			page := ask[Keys](w, shop, "nagi.sites.read.keys.shop", body)
			for _, e := range page.Keys {
				if e.Leader != "" {
					t.Errorf("%s tells of the replica %s", e.Key, e.Leader)
				}
				keys = append(keys, e.Key)
			}
			return keys, page.Next
		}
		for body, want := range map[string]string{
			`{}`: "shop/a shop/b shop/c ", `{"states":["parked"]}`: "shop/a shop/b shop/c ", `{"states":["calm"]}`: "",
			`{"limit":2}`: "shop/a shop/b next shop/b", `{"limit":2,"after":"shop/b"}`: "shop/c ",
			`{"after":"bank/a"}`: "shop/a shop/b shop/c ", `{"after":"zoo"}`: "", `{"limit":3}`: "shop/a shop/b shop/c ",
		} {
			keys, next := list(body)
			got := strings.Join(append(keys, ""), " ")
			if next != "" {
				got += "next " + next
			}
			if got != want {
				t.Errorf("%s: %q, want %q", body, got, want)
			}
		}
		natstest.Eventually(w, "who may ask about all keys sees what is malformed, too", func() bool {
			return len(ask[Keys](w, w.js.Conn(), "nagi.sites.read.keys", `{}`).Keys) == 8
		})
		if n := ask[Resynced](w, shop, "nagi.sites.act.resync.shop", ``); n.Count != 3 {
			t.Errorf("resynced %+v", n)
		}
	})
}

// TestAnAnswerGoesToInboxesOnly: not into a bucket, whoever asks; and what asks for that is not done.
func TestAnAnswerGoesToInboxesOnly(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service(func(c *Config) { c.Conn = w.conn("admin") }) // the code alone has to refuse
		c := w.controller("sites", s, sitesConfig)
		w.run(c)
		w.run(s)
		w.answers("nagi.sites.read.stats")
		w.put("sites", "shop.home", `{}`)
		natstest.Eventually(w, "it is calm", func() bool { return c.Explain("shop/home").State == controller.StateCalm })
		for _, reply := range []string{
			"$KV.sites-status._nagi.release", "$KV.sites.shop.other", "nagi.sites.act.resync", "_INBOX", "_INBOX.", "_INBOXES.x",
			"$JS.API.STREAM.DELETE.KV_sites", "",
		} {
			for _, verb := range []string{"read.about", "read.explain", "act.reconcile", "act.suspend", "read.nothing"} {
				msg := nats.NewMsg("nagi.sites." + verb)
				msg.Reply, msg.Data = reply, []byte(`{"key":"shop/home"}`)
				if err := w.js.Conn().PublishMsg(msg); err != nil && reply != "_INBOX." {
					t.Fatal(reply, err)
				}
			}
		}
		w.answers("nagi.sites.read.about") // after those before it
		for _, verb := range []string{"read.explain", "act.reconcile", "act.suspend"} {
			refused(w, w.js.Conn(), "nagi.sites."+verb, `{}`, 400)
		}
		if n := c.count("shop/home", controller.OperationManual); n != 0 {
			t.Errorf("it was reconciled by hand %d times", n)
		}
		for bucket, key := range map[string]string{"sites-status": "_nagi.release", "sites": "shop.other"} {
			if value := w.value(bucket, key); value != "" {
				t.Errorf("%s has %s: %s", bucket, key, value)
			}
		}
		if value := w.value("sites", "shop.home"); value != "{}" {
			t.Errorf("shop/home is %s", value)
		}
		if !w.log.have("wants its answer elsewhere") || !w.log.have("may publish to other subjects than inboxes") {
			t.Errorf("the log: %s", strings.Join(w.log.all, "\n"))
		}
	})
}

// TestThePermissionsGuardWhatTheLibraryAnswers, which has no other guard: PING, INFO and STATS.
func TestThePermissionsGuardWhatTheLibraryAnswers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		attack := func(w *world) {
			pinger := w.conn("pinger")
			for _, subject := range []string{"$SRV.PING", "$SRV.INFO.nagi", "$SRV.STATS"} {
				w.must(pinger.PublishRequest(subject, "$KV.sites.shop.other", nil))
			}
			w.must(pinger.Flush())
			// A subscription has one goroutine: a request after those is answered after them.
			for _, subject := range []string{"$SRV.PING", "$SRV.INFO.nagi", "$SRV.STATS"} {
				_, err := pinger.Request(subject, nil, 10*time.Second)
				w.must(err)
			}
		}
		w := newWorld(t)
		w.sites()
		attack(w)
		if value := w.value("sites", "shop.other"); value != "" {
			t.Errorf("the key holds %s", value)
		}
		if w.log.have("may publish to other subjects") {
			t.Error("it warns of a connection that is confined")
		}

		w = newWorld(t)
		s := w.service(func(c *Config) { c.Conn = w.conn("admin") })
		w.run(w.controller("sites", s, sitesConfig))
		w.run(s)
		w.answers("nagi.sites.read.stats") // the library's STATS races with the making of a service
		if !w.log.have("may publish to other subjects than inboxes") {
			t.Error("it does not warn")
		}
		attack(w)
		natstest.Eventually(w, "the library answers everywhere; if it does not any more the permissions may not be needed",
			func() bool { return w.value("sites", "shop.other") != "" })
	})
}

// TestAUserWhoMayPublishElsewhereIsWarnedOf, whatever it is beside inboxes: each of these is dangerous by itself.
func TestAUserWhoMayPublishElsewhereIsWarnedOf(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		elsewhere := []string{"$KV.>", "$KV.*.>", "$JS.API.>", "nagi.>", "*.>"}
		srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
			o.Users = []*server.User{{Username: "service", Password: "x"}} // whom world.service connects before
			for _, subject := range elsewhere {
				o.Users = append(o.Users, &server.User{Username: subject, Password: "x", Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Allow: []string{"_INBOX.>", subject}},
				}})
			}
		}))
		for _, subject := range elsewhere {
			w := &world{T: t, srv: srv, log: &lines{}}
			stop := w.run(w.service(func(c *Config) { c.Conn = w.conn(subject) }))
			natstest.Eventually(w, "it warns of who may publish to "+subject, func() bool {
				return w.log.have("may publish to other subjects than inboxes")
			})
			stop()
		}
	})
}

func TestTheServicesConnectionIsItsOwn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.client(sitesConfig)
		s := w.service(func(c *Config) { c.Conn = w.js.Conn() })
		embedded := struct{ entity.IEntityClient[*site] }{client}
		for _, primary := range []entity.IEntityClient[*site]{client, embedded} {
			_, err := controller.New("sites", primary, (&reconciles{}).reconciler(client), s.Controller())
			if err == nil || !strings.Contains(err.Error(), "connection of its own") {
				t.Errorf("%T: error %v", primary, err)
			}
		}
	})
}

// TestTheServicesRightsAreEnough, and each is needed: a probe of the rights themselves is in lookAtRights.
func TestTheServicesRights(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		set, err := Config{Prefix: "nagi.staging", Name: "x", Inboxes: []string{"_INBOX", "_INBOX_alice"}}.Permissions()
		if err != nil {
			t.Fatal(err)
		}
		data, _ := json.Marshal(set)
		const want = `{"publish":["_INBOX.\u003e","_INBOX_alice.\u003e","_R_.\u003e"],"subscribe":["$SRV.*.x","$SRV.*.x.*",` +
			`"$SRV.INFO","$SRV.PING","$SRV.STATS","nagi.staging.*.act.\u003e","nagi.staging.*.read.\u003e"]}`
		if string(data) != want {
			t.Errorf("%s", data)
		}
		own, _ := natstest.Connect(t, natstest.Start(t).URL())
		for _, tt := range []struct {
			cfg   Config
			wrong string // the field that the error names; "" if all is fine
		}{
			{Config{}, ""},
			{Config{Prefix: "a b"}, "Config.Prefix"},
			{Config{Prefix: "$JS"}, "Config.Prefix"},
			{Config{Prefix: "a.*"}, "Config.Prefix"},
			{Config{Prefix: "a..b"}, "Config.Prefix"},
			{Config{Inboxes: []string{"$KV"}}, "Config.Inboxes"},
			{Config{Inboxes: []string{""}}, "Config.Inboxes"},
			{Config{Inboxes: []string{"nagi"}}, "Config.Inboxes"},
			{Config{Name: "a b"}, "Config.Name"},
			{Config{ReadRate: -1}, "Config.ReadRate is -1"},
			{Config{ActRate: -1}, "Config.ActRate -1"},
		} {
			tt.cfg.Conn = own
			_, permissions := tt.cfg.Permissions()
			_, made := New(tt.cfg)
			for of, err := range map[string]error{"permissions": permissions, "a service": made} {
				if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
					t.Errorf("%s of %+v: error %v, want %q", of, tt.cfg, err, tt.wrong)
				}
			}
		}
		if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "Config.Conn is needed") {
			t.Errorf("without a connection: error %v", err)
		}
	})
}

// TestADeniedSubscriptionIsTold: else nobody would know why nothing is answered.
func TestADeniedSubscriptionIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(w.service(func(c *Config) { c.Conn = w.conn("pinger") }))
		natstest.Eventually(w, "it is told", func() bool { return w.log.have("refuses subscriptions of the service") })
	})
}

// TestRightsAreLookedAtWhenTheServerComes, if it was away at the start.
func TestRightsAreLookedAtWhenTheServerComes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		open := w.service(func(c *Config) { c.Conn = w.conn("admin") })
		denied := w.service(func(c *Config) { c.Conn = w.conn("pinger") })
		w.srv.Stop()
		natstest.Eventually(w, "it is noticed", func() bool { return !open.cfg.Conn.IsConnected() && !denied.cfg.Conn.IsConnected() })
		w.run(open)
		w.run(denied)
		time.Sleep(2 * lookAgain)
		w.must(w.srv.Start())
		natstest.Eventually(w, "it warns", func() bool { return w.log.have("may publish to other subjects than inboxes") })
		natstest.Eventually(w, "it is told", func() bool { return w.log.have("refuses subscriptions of the service") })
	})
}
