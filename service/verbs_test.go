package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEachVerbDoesWhatItSays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		recorded := &events{}
		_, c := w.sites(controller.WithEventRecorder(recorded))
		admin := w.js.Conn()
		w.put("sites", "shop.calm", `{"spec":{"title":"a"},"more":1}`)
		w.put("sites", "shop.parked", `{"spec":{"title":"terminal"}}`)
		w.put("sites", "shop.retry", `{"spec":{"title":"fails"}}`)
		w.put("sites", "shop.invalid", `{"spec":7}`)
		state := func(name string, want controller.KeyState) {
			t.Helper()
			natstest.Eventually(w, name+" is "+string(want), func() bool {
				return ask[controller.Explanation](w, admin, "nagi.sites.read.explain", `{"key":"shop/`+name+`"}`).State == want
			})
		}
		state("calm", controller.StateCalm)
		state("parked", controller.StateParked)
		state("retry", controller.StateRetry)
		state("invalid", controller.StateInvalid)
		state("none", controller.StateUnknown)
		const prefix = "nagi.sites.act."

		if e := refused(w, admin, prefix+"plan", `{"key":"shop/calm"}`, 501); !strings.Contains(e.Description, "WithPlan") {
			t.Errorf("a controller that makes no plans says %+v", e)
		}
		refused(w, admin, prefix+"reconcile", `{"key":"shop/parked"}`, 409)
		refused(w, admin, prefix+"reconcile", `{"key":"shop/invalid"}`, 409)
		refused(w, admin, prefix+"reconcile", `{"key":"shop/none"}`, 404)
		refused(w, admin, prefix+"unpark", `{"key":"shop/calm"}`, 409)
		refused(w, admin, prefix+"suspend", `{"key":"shop/none"}`, 404)

		ask[Done](w, admin, prefix+"reconcile", `{"key":"shop/retry"}`)
		natstest.Eventually(w, "it is reconciled", func() bool {
			return c.count("shop/retry", controller.OperationManual) == 1
		})
		ask[Done](w, admin, prefix+"unpark", `{"key":"shop/parked"}`)
		natstest.Eventually(w, "it is tried again", func() bool {
			return c.count("shop/parked", controller.OperationManual) == 1
		})
		state("parked", controller.StateParked)

		if n := ask[Resynced](w, admin, prefix+"resync", "").Count; n != 3 {
			t.Errorf("%d keys are resynced", n)
		}
		natstest.Eventually(w, "all but the parked one are", func() bool {
			return c.count("shop/calm", controller.OperationResync) == 1 && c.count("shop/retry", controller.OperationResync) == 1
		})
		if n := c.count("shop/parked", controller.OperationResync); n != 0 {
			t.Errorf("the parked one is resynced %d times", n)
		}

		for range 2 {
			done := ask[Done](w, admin, prefix+"suspend.shop", `{"key":"shop/calm"}`)
			if want := w.log.have("suspended again"); done.Changed == want {
				t.Errorf("suspended: %+v", done)
			}
			w.log.logger().Info("suspended again")
		}
		state("calm", controller.StateSuspended)
		if value := w.value("sites", "shop.calm"); !strings.Contains(value, `"more":1`) {
			t.Errorf("a member was lost: %s", value)
		}
		refused(w, admin, prefix+"reconcile", `{"key":"shop/calm"}`, 409)
		const why = `{"key":"shop/calm","reason":"the move to the new\nregion"}`
		for _, changed := range []bool{true, false} {
			if done := ask[Done](w, admin, prefix+"suspend.shop", why); done.Changed != changed {
				t.Errorf("suspended with a reason: %+v", done)
			}
		}
		natstest.Eventually(w, "the reason is told", func() bool {
			e := ask[controller.Explanation](w, admin, "nagi.sites.read.explain", `{"key":"shop/calm"}`)
			return e.SuspendReason != "" && strings.Contains(e.Says, ": "+e.SuspendReason)
		})
		if done := ask[Done](w, admin, prefix+"resume.shop", `{"key":"shop/calm"}`); !done.Changed {
			t.Errorf("resumed: %+v", done)
		}
		state("calm", controller.StateCalm)
		if value := w.value("sites", "shop.calm"); strings.Contains(value, "nagi/suspend") {
			t.Errorf("resumed, and something stays: %s", value)
		}
		if done := ask[Done](w, admin, prefix+"resume.shop", `{"key":"shop/calm"}`); done.Changed {
			t.Errorf("resumed once more: %+v", done)
		}

		for _, parts := range [][]string{
			{"Site shop/retry ReconcileRequested"}, {"Site shop/parked UnparkRequested"},
			{"Controller /sites ResyncRequested", "3 keys"},
			{"Site shop/calm SuspendRequested", "a user whom the server does not name"}, {"Site shop/calm ResumeRequested"},
		} {
			if !recorded.have(parts...) {
				t.Errorf("no event of %q in\n%v", parts, recorded)
			}
		}
	})
}

func TestWhatIsToldOfAController(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites()
		w.put("sites", "shop.retry", `{"spec":{"title":"fails"}}`)
		admin := w.js.Conn()
		natstest.Eventually(w, "it fails", func() bool {
			return ask[Stats](w, admin, "nagi.sites.read.stats", "").Failing == 1
		})
		s := ask[Stats](w, admin, "nagi.sites.read.stats", "")
		if !s.Leading || !s.Synced || s.Workers != 1 || s.Reconciles != 1 || s.Failures != 1 || s.Brake == nil || s.Brake.Engaged {
			t.Errorf("%+v", s)
		}
		a := ask[About](w, admin, "nagi.sites.read.about", "")
		if !a.Leading || a.Leader == "" || a.Kind != "Site" || a.Bucket != "sites" || a.StatusBucket != "sites-status" ||
			!a.Namespaced || !slices.Contains(a.Read, "explain") || !slices.Contains(a.Act, "unpark") {
			t.Errorf("%+v", a)
		}
		refused(w, admin, "nagi.sites.read.stats", `{"more":1}`, 400)
		refused(w, admin, "nagi.sites.read.keys", `{"states":["parkd"]}`, 400)
		refused(w, admin, "nagi.sites.read.keys", `{"limit":-1}`, 400)
	})
}

// TestAProcessHasOneService, with a group for each controller, of whatever name and API.
func TestAProcessHasOneService(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		w.run(w.controller("sites", s, sitesConfig))
		w.run(w.controller("flat, or so.", s, flatConfig))
		w.run(s)
		w.answers("nagi.sites.read.stats")
		w.answers("nagi.flat=2C=20or=20so=2E.read.stats")
		inbox := nats.NewInbox()
		sub, err := w.js.Conn().SubscribeSync(inbox)
		w.must(err)
		natstest.Eventually(w, "one service has all that the leader has", func() bool {
			w.must(w.js.Conn().PublishRequest("$SRV.INFO", inbox, nil))
			var infos []micro.Info
			for {
				msg, err := sub.NextMsg(200 * time.Millisecond)
				if err != nil {
					break
				}
				var info micro.Info
				w.must(json.Unmarshal(msg.Data, &info))
				infos = append(infos, info)
			}
			if len(infos) != 1 {
				return false
			}
			if infos[0].Name != "nagi" || infos[0].Version != DefaultVersion {
				t.Errorf("%+v", infos[0])
			}
			of := map[string]int{}
			for _, e := range infos[0].Endpoints {
				of[e.Metadata["controller"]]++
				if e.Subject == "nagi.sites.read.explain.*" && e.Metadata["access"] != "read" {
					t.Errorf("%+v", e)
				}
			}
			const whole, withNamespace = 9, 10
			return of["sites"] == whole+2*withNamespace && of["flat, or so."] == whole+withNamespace
		})

		sites := w.client(sitesConfig)
		if _, err := controller.New("sites", sites, (&reconciles{}).reconciler(sites), w.service().Controller()); err != nil {
			t.Errorf("in another service: %v", err)
		}
		if _, err := controller.New("sites", sites, (&reconciles{}).reconciler(sites), s.Controller()); err == nil ||
			!strings.Contains(err.Error(), "two controllers") {
			t.Errorf("error %v", err)
		}
		other := w.service()
		w.controller("sites", other, sitesConfig)
		if _, err := controller.New("sites", sites, (&reconciles{}).reconciler(sites), other.Controller()); err == nil ||
			!strings.Contains(err.Error(), "two controllers") {
			t.Errorf("error %v", err)
		}
	})
}

// besideThatFails is something beside a controller with which it cannot be made.
type besideThatFails struct{}

func (besideThatFails) Join(*engine.Engine) error { return errors.New("not today") }
func (besideThatFails) Run(context.Context)       {}

// TestAControllerThatWasNotMadeIsNotServed: it does not answer, and another one may have its name.
func TestAControllerThatWasNotMadeIsNotServed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		sites := w.client(sitesConfig)
		r := (&reconciles{}).reconciler(sites)
		failing := func(o *engine.Options) error {
			o.Beside = append(o.Beside, besideThatFails{})
			return nil
		}
		fails := func(option controller.Option) {
			t.Helper()
			if _, err := controller.New("sites", sites, r, option, failing); err == nil ||
				!strings.Contains(err.Error(), "not today") {
				t.Fatalf("error %v", err)
			}
		}
		fails(s.Controller())
		if all := s.controllers(); len(all) != 0 {
			t.Fatalf("%d controllers are served", len(all))
		}
		own := s.Controller()
		c, err := controller.New("sites", sites, r, own, quickLease)
		w.must(err)
		made := s.controllers()[0].engine
		fails(own) // again with the same option: that disturbs the one that was made in no way
		if all := s.controllers(); len(all) != 1 || all[0].engine != made {
			t.Fatalf("%d controllers are served, or another one", len(all))
		}
		w.run(c)
		w.run(s)
		w.answers("nagi.sites.read.stats")
	})
}

type none = entity.None

type kumoriRuntime = controllerruntime.ControllerRuntime[*site, *none, *none, *none, *none, *none, *none, *none, *none]

type kumori struct {
	*kumoriRuntime
	synced chan string
}

func (k kumori) SyncHandler(key string) error {
	k.synced <- key
	return nil
}

func TestAKumoriControllerIsReachableToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		r := controllerruntime.NewControllerRuntime[*site, *none, *none, *none, *none, *none, *none, *none, *none](
			"flat", "Flat", nil, w.client(flatConfig), nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, 0)
		w.must(r.WithOptions(s.Controller()))
		w.must(r.WithOptions(quickLease)) // the controller is made anew
		k := kumori{r, make(chan string, 100)}
		r.SetCustomController(k)
		stop, ended := make(chan struct{}), make(chan struct{})
		errs := make(chan error, 1)
		go func() {
			defer close(ended)
			r.Run(1, stop, errs)
		}()
		defer func() {
			close(stop)
			<-ended
		}()
		w.run(s)
		w.answers("nagi.flat.read.stats")
		w.put("flat", "home", `{}`)
		admin := w.js.Conn()
		natstest.Eventually(w, "it is calm", func() bool {
			return ask[controller.Explanation](w, admin, "nagi.flat.read.explain", `{"key":"home"}`).State == controller.StateCalm
		})
		if key := <-k.synced; key != "home" {
			t.Errorf("synced %q", key)
		}
		ask[Done](w, admin, "nagi.flat.act.reconcile", `{"key":"home"}`)
		if key := <-k.synced; key != "home" {
			t.Errorf("synced %q", key)
		}
		if n := ask[Resynced](w, admin, "nagi.flat.act.resync", ``).Count; n != 1 {
			t.Errorf("%d keys", n)
		}
		synctest.Wait() // the second one is counted
		if s := ask[Stats](w, admin, "nagi.flat.read.stats", ``); s.Reconciles < 2 {
			t.Errorf("%+v", s)
		}
		if _, err := admin.Request("nagi.flat.read.explain.shop", nil, time.Second); err == nil {
			t.Error("a bucket without namespaces answers for one")
		}
	})
}

// TestWhatDoesNotFitIntoAMessageIsPaged, and no key is lost.
func TestWhatDoesNotFitIntoAMessageIsPaged(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, natstest.WithMaxPayload(8<<10))
		w.sites()
		const n = 60
		long := strings.Repeat("x", 1500)
		for i := range n {
			w.put("sites", fmt.Sprintf("shop.s%03d", i), `{"spec":{"title":"terminal `+long+`"}}`)
		}
		shop := w.conn("shop")
		natstest.Eventually(w, "all are parked", func() bool {
			return ask[Stats](w, w.js.Conn(), "nagi.sites.read.stats", "").Parked == n
		})
		seen, pages := map[string]bool{}, 0
		for next := ""; pages == 0 || next != ""; pages++ {
			page := ask[Keys](w, shop, "nagi.sites.read.keys.shop", `{"states":["parked"],"limit":1000,"after":"`+next+`"}`)
			for _, e := range page.Keys {
				if seen[e.Key] {
					t.Errorf("%s comes twice", e.Key)
				}
				seen[e.Key] = true
			}
			next = page.Next
		}
		if len(seen) != n || pages < 5 {
			t.Errorf("%d keys in %d pages", len(seen), pages)
		}
	})
}

// TestWhatAKeyOwnsBehindAnAPIIsCountedWhereItDoesNotFit into a message: the rest of the answer stays.
func TestWhatAKeyOwnsBehindAnAPIIsCountedWhereItDoesNotFit(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, natstest.WithMaxPayload(3<<10))
		var things []external.Resource
		for i := range 100 {
			things = append(things, external.Resource{ID: fmt.Sprintf("disk-%090d", i), OwnerKey: "shop/a"})
		}
		w.sites(controller.OwnsExternal(cloudtest.NewListed(things...)))
		w.put("sites", "shop.a", `{}`)
		natstest.Eventually(w, "it is reconciled", func() bool {
			return ask[controller.Explanation](w, w.js.Conn(), "nagi.sites.read.explain", `{"key":"shop/a"}`).State == "calm"
		})
		e := ask[controller.Explanation](w, w.js.Conn(), "nagi.sites.read.explain", `{"key":"shop/a"}`)
		if len(e.Outside) != 1 || e.Outside[0].All != 100 || e.Outside[0].Resources != nil || e.Outside[0].Kind != "Thing" {
			t.Errorf("%+v", e.Outside)
		}
	})
}

func TestWhatNeverFitsIsToldInShort(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, natstest.WithMaxPayload(3<<10))
		w.sites()
		long := strings.Repeat("x", 1900)
		w.put("sites", "shop.a", `{"spec":{"title":"terminal `+long+`"}}`)
		w.put("sites", "shop.b", `{}`)
		admin := w.js.Conn()
		natstest.Eventually(w, "one is parked", func() bool {
			return ask[controller.Explanation](w, admin, "nagi.sites.read.explain", `{"key":"shop/a"}`).State == "parked"
		})
		if e := ask[controller.Explanation](w, admin, "nagi.sites.read.explain", `{"key":"shop/a"}`); e.Error != "" ||
			!strings.Contains(e.Says, "does not fit") {
			t.Errorf("%+v", e)
		}
		var keys []string
		for next, first := "", true; first || next != ""; first = false {
			page := ask[Keys](w, admin, "nagi.sites.read.keys", `{"after":"`+next+`"}`)
			for _, e := range page.Keys {
				keys = append(keys, e.Key)
			}
			next = page.Next
		}
		if !slices.Equal(keys, []string{"shop/a", "shop/b"}) {
			t.Errorf("%q", keys)
		}
	})
}

func TestRatesAreLimited(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service(func(c *Config) { c.ReadRate, c.ActRate = 5, 0.001 })
		w.run(w.controller("sites", s, sitesConfig))
		w.run(s)
		w.answers("nagi.sites.read.about")
		w.answers("nagi.sites.read.stats")
		admin := w.js.Conn()
		ask[Resynced](w, admin, "nagi.sites.act.resync", "")
		for _, subject := range []string{"nagi.sites.act.resync", "nagi.sites.act.brake-release", "nagi.sites.act.suspend"} {
			refused(w, admin, subject, "", 429)
		}
		ask[Resynced](w, admin, "nagi.sites.act.resync.shop", "") // what is about a namespace is apart
		for _, subject := range []string{"nagi.sites.act.resync.shop", "nagi.sites.act.suspend.bank"} {
			refused(w, admin, subject, "", 429)
		}
		w.answers("nagi.sites.read.about") // reading is apart
		natstest.Eventually(w, "reading is limited, too", func() bool {
			msg, err := admin.Request("nagi.sites.read.about", nil, 10*time.Second)
			w.must(err)
			return msg.Header.Get("Nats-Service-Error-Code") == "429"
		})
	})
}

// TestStrangersAreNotTold: who owns what a key wants, in another namespace or installation, and by which id.
func TestStrangersAreNotTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		client, pages := w.client(sitesConfig), w.client(entity.Config{
			Kind: "Page", Bucket: "pages", Namespaced: true, Storage: sitesConfig.Storage,
		})
		c, err := controller.New("sites", client, pageMaker(client, pages), s.Controller(), quickLease,
			controller.Owns(pages), controller.WithBackoff(time.Hour, time.Hour))
		w.must(err)
		foreign := func(name, key, instance string) {
			page := &site{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
			page.Annotations = map[string]string{
				entity.OwnerKindAnnotation: "Site", entity.OwnerKeyAnnotation: key, entity.OwnerInstanceAnnotation: instance,
			}
			page.Labels = map[string]string{
				entity.OwnerKindLabel: "Site", entity.OwnerInstanceLabel: instance,
			}
			w.must(pages.Create(t.Context(), page))
		}
		foreign("a", "hidden/secret-a", "stranger-one")
		foreign("b", "shop/b", "stranger-two")
		w.run(c)
		w.run(s)
		w.answers("nagi.sites.read.stats")
		w.put("sites", "shop.a", `{}`)
		w.put("sites", "shop.b", `{}`)
		shop := w.conn("shop")
		for _, name := range []string{"a", "b"} {
			body := []byte(`{"key":"shop/` + name + `"}`)
			var told []byte
			natstest.Eventually(w, name+" fails", func() bool {
				msg, err := shop.Request("nagi.sites.read.explain.shop", body, 10*time.Second)
				w.must(err)
				told = msg.Data
				return strings.Contains(string(told), `"error"`)
			})
			for _, secret := range []string{"hidden", "secret", "stranger", `"leader"`} {
				if strings.Contains(string(told), secret) {
					t.Errorf("%s is told: %s", secret, told)
				}
			}
		}
	})
}

// TestANamespaceTakesNoRatesFromOperators: who may act in one namespace keeps nobody from the brake.
func TestANamespaceTakesNoRatesFromOperators(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service(func(c *Config) { c.ReadRate, c.ActRate = 0.001, 0.001 }) // one request of a kind, and no more
		c := w.controller("sites", s, sitesConfig)
		w.run(c)
		w.run(s)
		natstest.Eventually(w, "it leads", func() bool { return c.Stats().Leading })
		shop, admin := w.conn("shop"), w.js.Conn()
		flooded := func(subject string) {
			t.Helper()
			natstest.Eventually(w, subject+" is answered with 429", func() bool {
				msg, err := shop.Request(subject, nil, time.Second)
				return err == nil && msg.Header.Get("Nats-Service-Error-Code") == "429"
			})
		}
		flooded("nagi.sites.act.resync.shop")
		refused(w, admin, "nagi.sites.act.brake-release", `{"engagement":"none","count":1}`, 409)
		flooded("nagi.sites.read.keys.shop")
		ask[Stats](w, admin, "nagi.sites.read.stats", "")
	})
}
