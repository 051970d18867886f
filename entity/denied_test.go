package entity_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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

// deniedUser connects as the user of denying, who is denied these subjects.
func deniedUser(t *testing.T, subjects ...string) (*natstest.Server, jetstream.JetStream) {
	t.Helper()
	srv := natstest.Start(t, natstest.WithConfig(denying(subjects...)))
	unheard := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("user", "x"), unheard)
	return srv, js
}

// atOnce fails the test unless f takes no time: nothing waited for an answer that does not come.
func atOnce(t *testing.T, doing string, f func() error) error {
	t.Helper()
	began := time.Now()
	err := f()
	if took := time.Since(began); took != 0 {
		t.Errorf("%s: after %v, want an answer at once: %v", doing, took, err)
	}
	return err
}

// deniesAtOnce checks that f fails at once, and names the subject that is denied.
func deniesAtOnce(t *testing.T, doing, subject string, f func() error) {
	t.Helper()
	err := atOnce(t, doing, f)
	if !apierrors.IsForbidden(err) || !errors.Is(err, nats.ErrPermissionViolation) ||
		!strings.Contains(err.Error(), "to "+subject+":") || !strings.Contains(err.Error(), "grant") {
		t.Errorf("%s: the error is %v, want that it names %s", doing, err, subject)
	}
}

// TestADeniedWriteFailsAtOnce and is known not to have been applied: the user's right was there, is taken away, and
// comes back.
func TestADeniedWriteFailsAtOnce(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		srv, js := deniedUser(t)
		client := newClient[*Website](t, js, websites)
		prepare(client)
		ctx := testContext(t)
		must(t, client.Create(ctx, website("old")))
		old, err := client.Get(ctx, "old")
		must(t, err)
		old.Status.Ready = true
		writes := map[string]func() error{
			"$KV.websites.new":        func() error { return client.Create(ctx, website("new")) },
			"$KV.websites-status.old": func() error { return client.UpdateStatus(ctx, old) },
			"$KV.websites-status._nagi.test": func() error {
				_, err := client.Records().PutReserved(ctx, entity.ReservedPrefix+".test", []byte("1"), 0)
				return err
			},
			"$KV.websites-status.rec": func() error {
				return client.Records().Put(ctx, "rec", &entity.Record{Controller: "c", DocumentRevision: 1})
			},
			"$KV.websites-status.asy": func() error {
				record := &entity.Record{Controller: "c", DocumentRevision: 1}
				return client.Records().PutAsync("asy", record)(ctx)
			},
		}
		deletes := map[string]func() error{
			"by key":   func() error { return client.Delete(ctx, "old") },
			"patch":    func() error { return client.Patch(ctx, "old", []byte(`{"spec":{"replicas":3}}`)) },
			"update":   func() error { return client.Update(ctx, old) },
			"purge it": func() error { return client.Delete(ctx, "old", entity.Purge()) },
		}
		must(t, srv.Reload(denying("$KV.>")))
		for subject, write := range writes {
			deniesAtOnce(t, "write", subject, func() error {
				err := write()
				if !errors.Is(err, entity.ErrRefused) || errors.Is(err, entity.ErrOutcomeUnknown) {
					t.Errorf("it is not said that %s was not written: %v", subject, err)
				}
				return err
			})
		}
		for doing, f := range deletes {
			deniesAtOnce(t, doing, "$KV.websites.old", f)
		}
		must(t, srv.Reload(denying()))
		for subject, write := range writes {
			if err := write(); err != nil {
				t.Errorf("%s, which may be written again: %v", subject, err)
			}
		}
		must(t, client.Delete(ctx, "old"))
	})
}

// TestADeniedReadFailsAtOnce, also where the answer is denied, and works again.
func TestADeniedReadFailsAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv, js := deniedUser(t)
		client := newClient[*Website](t, js, websites)
		ctx := testContext(t)
		must(t, client.Create(ctx, website("a")))
		for subject, read := range map[string]func() error{
			"$JS.API.STREAM.MSG.GET.KV_websites": func() error { _, err := client.Get(ctx, "a"); return err },
			"$JS.API.STREAM.INFO.KV_websites":    func() error { _, err := client.Confirm(ctx, "a"); return err },
		} {
			must(t, srv.Reload(denying(subject)))
			deniesAtOnce(t, "read", subject, read)
			must(t, srv.Reload(denying("_INBOX.>")))
			for range 2 {
				err := atOnce(t, "without an inbox", read)
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "subscribe to _INBOX.>") {
					t.Errorf("without an inbox: %v", err)
				}
			}
			must(t, srv.Reload(denying()))
			must(t, read())
		}
	})
}

// TestAWriteWithoutAnInboxIsNotSent, because nobody could tell whether it was applied.
func TestAWriteWithoutAnInboxIsNotSent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, natstest.WithConfig(denying()))
		_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("user", "x"))
		_, admin := natstest.Connect(t, srv.URL(), nats.UserInfo("admin", "x"))
		client := newClient[*Website](t, js, websites)
		start(t, client)
		ctx := testContext(t)
		must(t, client.Create(ctx, website("before")))
		must(t, srv.Reload(denying("_INBOX.>")))
		synctest.Wait() // the library has told of it
		for i := range 3 {
			err := atOnce(t, "create", func() error { return client.Create(ctx, website(fmt.Sprint("denied-", i))) })
			if !apierrors.IsForbidden(err) || !errors.Is(err, entity.ErrRefused) ||
				!strings.Contains(err.Error(), "subscribe to _INBOX.>") {
				t.Errorf("the error is %v", err)
			}
		}
		keys, err := keyValue(t, admin, "websites").Keys(ctx)
		must(t, err)
		if len(keys) != 1 {
			t.Errorf("it was sent all the same: the bucket has %q", keys)
		}
		must(t, srv.Reload(denying()))
		for i := range 3 {
			must(t, client.Create(ctx, website(fmt.Sprint("granted-", i))))
		}
	})
}

// TestTheDenialOfOneKeyIsNotAnothers: many keys are written at once. Every second one is denied, and its name begins
// with that of one which is not.
func TestTheDenialOfOneKeyIsNotAnothers(t *testing.T) {
	withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
		const n = 100
		var denied []string
		for i := range n {
			denied = append(denied, fmt.Sprintf("$KV.websites.k%dx", i))
		}
		_, js := deniedUser(t, denied...)
		client := newClient[*Website](t, js, websites)
		prepare(client)
		ctx := testContext(t)
		var wg sync.WaitGroup
		for i := range n {
			key := fmt.Sprint("k", i)
			wg.Go(func() {
				if err := client.Create(ctx, website(key)); err != nil {
					t.Errorf("%s, which may be written: %v", key, err)
				}
			})
			wg.Go(func() {
				deniesAtOnce(t, "create", "$KV.websites."+key+"x", func() error {
					return client.Create(ctx, website(key+"x"))
				})
			})
		}
		wg.Wait()
	})
}

// TestAClientThatMayNotOpenItsBucketsSaysSoAtOnce, whichever permission is missing.
func TestAClientThatMayNotOpenItsBucketsSaysSoAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for subject, words := range map[string]string{
			"$JS.API.STREAM.INFO.KV_websites":          "publish to $JS.API.STREAM.INFO.KV_websites:",
			"$JS.API.STREAM.CREATE.KV_websites":        "publish to $JS.API.STREAM.CREATE.KV_websites:",
			"$JS.API.STREAM.CREATE.KV_websites-status": "publish to $JS.API.STREAM.CREATE.KV_websites-status:",
			"_INBOX.>": "subscribe to _INBOX.>",
		} {
			_, js := deniedUser(t, subject)
			err := atOnce(t, "without "+subject, func() error {
				_, err := entity.NewClient[*Website](testContext(t), js, websites)
				return err
			})
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
				t.Errorf("without %s: %v", subject, err)
			}
		}
	})
}
