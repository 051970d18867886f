package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// soon is how soon a denial has to show after the request that was denied.
const soon = 2 * time.Second

// denying makes a user who may not publish to these subjects; an inbox is one that it may not subscribe to.
func denying(subjects ...string) func(*server.Options) {
	return func(o *server.Options) {
		user := &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{">"}},
			Subscribe: &server.SubjectPermission{Allow: []string{">"}},
		}
		for _, subject := range subjects {
			if strings.HasPrefix(subject, "_INBOX") {
				user.Subscribe.Deny = append(user.Subscribe.Deny, subject)
			} else {
				user.Publish.Deny = append(user.Publish.Deny, subject)
			}
		}
		o.Users = []*server.User{{Username: "admin", Password: "x"},
			{Username: "user", Password: "x", Permissions: user}}
	}
}

// deniable is a world whose controllers may everything until that is taken away, and that of somebody who always may.
func deniable(t *testing.T) (w, admin *world) {
	t.Helper()
	s := natstest.Start(t, natstest.WithConfig(denying()))
	connect := func(user string) *world {
		unheard := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
		_, js := natstest.Connect(t, s.URL(), nats.UserInfo(user, "x"), unheard)
		return &world{t: t, server: s, js: js}
	}
	return connect("user"), connect("admin")
}

// names fails the test if nothing is degraded soon because the subject is denied.
func names(t *testing.T, c *Controller[*site], subject string) {
	t.Helper()
	time.Sleep(soon)
	degraded := c.Stats().Degraded
	for _, err := range degraded {
		if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "to "+subject) &&
			strings.Contains(err.Error(), "grant the user") {
			return
		}
	}
	t.Errorf("%s is not named within %v: %v", subject, soon, degraded)
}

// withoutConsumers deletes the consumers of a bucket, so that who watches it has to make a new one.
func (w *world) withoutConsumers(bucket string) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	lister := stream.ConsumerNames(w.t.Context())
	var names []string
	for name := range lister.Name() {
		names = append(names, name)
	}
	must(w.t, lister.Err())
	for _, name := range names {
		err := stream.DeleteConsumer(w.t.Context(), name)
		if !errors.Is(err, jetstream.ErrConsumerNotFound) { // one that a watch has given up may end by itself
			must(w.t, err)
		}
	}
}

// TestWhatIsDeniedAtTheStartIsNamed, not when the sync times out, which would be after two minutes; and the controller
// starts when it is granted.
func TestWhatIsDeniedAtTheStartIsNamed(t *testing.T) {
	for _, subject := range []string{
		"$JS.API.STREAM.INFO.KV_sites", "$JS.API.CONSUMER.CREATE.KV_sites.>", "$JS.API.CONSUMER.MSG.NEXT.KV_sites.*",
		"$JS.API.STREAM.INFO.KV_sites-status", "$JS.API.CONSUMER.CREATE.KV_sites-status.>",
		"$JS.API.CONSUMER.MSG.NEXT.KV_sites-status.*", "$JS.API.STREAM.MSG.GET.KV_sites-status",
		"$KV.sites-status._nagi.controller", "$KV.sites-status._nagi.instance", "$KV.sites-status._nagi.lease",
		"$JS.API.CONSUMER.CREATE.KV_pages.>", "_INBOX.>",
	} {
		t.Run(subject, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w, _ := deniable(t)
				sites, pages := w.sites(), w.pages()
				must(t, sites.Create(t.Context(), newSite("home", "one")))
				must(t, w.server.Reload(denying(subject)))
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil), Owns(pages))
				must(t, err)
				w.run(c)
				names(t, c, subject)
				if n := seen.count("home"); n > 0 {
					t.Errorf("reconciled %d times", n)
				}
				must(t, w.server.Reload(denying()))
				natstest.Eventually(t, "it starts", func() bool { return seen.count("home") > 0 })
				natstest.Eventually(t, "nothing is degraded", func() bool { return len(c.Stats().Degraded) == 0 })
			})
		})
	}
}

// leaseRenewal is how often the lease is renewed where that may be denied.
const leaseRenewal = 500 * time.Millisecond

// TestWhatIsDeniedAtRunTimeIsNamed after the next request that needs it, until it is granted again.
func TestWhatIsDeniedAtRunTimeIsNamed(t *testing.T) {
	nothing := func(*world, *entity.Client[*site]) {}
	newConsumer := func(bucket string) func(*world, *entity.Client[*site]) {
		return func(admin *world, _ *entity.Client[*site]) { admin.withoutConsumers(bucket) }
	}
	write := func(admin *world, sites *entity.Client[*site]) {
		must(admin.t, sites.Patch(admin.t.Context(), "home", []byte(`{"spec":{"pages":7}}`)))
	}
	for subject, provoke := range map[string]func(admin *world, sites *entity.Client[*site]){
		"$JS.API.CONSUMER.CREATE.KV_sites.>":          newConsumer("sites"),
		"$JS.API.CONSUMER.MSG.NEXT.KV_sites.*":        newConsumer("sites"),
		"$JS.API.CONSUMER.CREATE.KV_pages.>":          newConsumer("pages"),
		"$JS.API.STREAM.INFO.KV_sites-status":         newConsumer("sites-status"),
		"$JS.API.CONSUMER.MSG.NEXT.KV_sites-status.*": newConsumer("sites-status"),
		"$KV.sites-status.home":                       write,
		"$KV.sites-status._nagi.lease":                nothing,
		"_INBOX.>":                                    nothing,
	} {
		t.Run(subject, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w, admin := deniable(t)
				var seen calls
				pages := w.pages()
				c, sites, _ := w.runningSites(&seen, Owns(pages), WithLeaseTiming(LeaseTiming{
					Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: leaseRenewal,
				}))
				natstest.Eventually(t, "it watches", func() bool {
					return sites.Informer().Status().Resumes > 0 && sites.Records().Informer().Status().Resumes > 0 &&
						pages.Informer().Status().Resumes > 0
				})
				must(t, w.server.Reload(denying(subject)))
				provoke(admin, admin.sites())
				names(t, c, subject)
				must(t, w.server.Reload(denying()))
				natstest.Eventually(t, "nothing is degraded", func() bool { return len(c.Stats().Degraded) == 0 })
				must(t, admin.sites().Create(t.Context(), newSite("more", "one")))
				natstest.Eventually(t, "it goes on", func() bool { return seen.count("more") > 0 })
			})
		})
	}
}
