package natsinformer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// denying makes a reader who may not publish to these subjects; an inbox is one that it may not subscribe to.
func denying(subjects ...string) func(*server.Options) {
	return func(o *server.Options) {
		reader := &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{">"}},
			Subscribe: &server.SubjectPermission{Allow: []string{">"}},
		}
		for _, subject := range subjects {
			if strings.HasPrefix(subject, "_INBOX") {
				reader.Subscribe.Deny = append(reader.Subscribe.Deny, subject)
			} else {
				reader.Publish.Deny = append(reader.Publish.Deny, subject)
			}
		}
		o.Users = []*server.User{{Username: "admin", Password: "x"},
			{Username: "reader", Password: "x", Permissions: reader}}
	}
}

var unheard = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})

// namesDenial waits for an error that names the subject as denied.
func (r *running) namesDenial(t *testing.T, subject string) {
	t.Helper()
	within(t, prompt, "the status names "+subject, func() bool {
		err := r.Status().Err
		return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), subject) &&
			strings.Contains(err.Error(), "grant")
	})
}

// noise makes the server deny other publishes of the connection all the time: it remembers only the last one.
func noise(t *testing.T, nc *nats.Conn) (stop func()) {
	t.Helper()
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(time.Millisecond):
				_ = nc.Publish("noise", nil)
			case <-stopped:
				return
			}
		}
	}()
	return func() { close(stopped); <-done }
}

// TestAPermissionThatIsTakenAwayIsNamed: soon after the next request needs it, until it is given back.
func TestAPermissionThatIsTakenAwayIsNamed(t *testing.T) {
	for _, subject := range []string{
		"$JS.API.STREAM.INFO.KV_b", "$JS.API.STREAM.MSG.GET.KV_b", "$JS.API.CONSUMER.CREATE.KV_b.>",
		"$JS.API.CONSUMER.MSG.NEXT.KV_b.*", "_INBOX.>",
	} {
		subtest(t, subject, func(t *testing.T) {
			srv := natstest.Start(t, natstest.WithConfig(denying()))
			admin := connect(t, srv.URL(), nats.UserInfo("admin", "x"))
			kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
			put(t, kv, "k", 1)
			js := connect(t, srv.URL(), nats.UserInfo("reader", "x"), unheard)
			var o told
			r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
			r.follows(t, kv, "k", 2, prompt)
			must(t, srv.Reload(denying(subject, "noise")))
			defer noise(t, js.Conn())()
			if subject != "_INBOX.>" {
				deleteConsumers(t, admin) // so that it asks for another one
			}
			r.namesDenial(t, subject)
			must(t, srv.Reload(denying()))
			r.follows(t, kv, "k", 3, prompt)
			o.healed(t)
			if told := o.denials(); len(told) != 1 {
				t.Errorf("told of %d denials: %v", len(told), told)
			}
		})
	}
}

// TestEachInformerNamesItsOwnDenial: they share a connection, which remembers only the last denial.
func TestEachInformerNamesItsOwnDenial(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const next, info, well = "next", "info", "well"
		denied := map[string]string{next: "$JS.API.CONSUMER.MSG.NEXT.KV_next.*", info: "$JS.API.STREAM.INFO.KV_info"}
		srv := natstest.Start(t, natstest.WithConfig(denying(denied[next], denied[info])))
		admin := connect(t, srv.URL(), nats.UserInfo("admin", "x"))
		js := connect(t, srv.URL(), nats.UserInfo("reader", "x"), unheard)
		var o told
		readers := map[string]*running{}
		for _, name := range []string{well, next, info} {
			kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: name})
			put(t, kv, "k", 1)
			cfg := Config{Bucket: name}
			if name == well {
				cfg.OnError = o.add
			}
			readers[name] = start(t, js, cfg)
		}
		for name, subject := range denied {
			readers[name].namesDenial(t, subject)
		}
		readers[well].synced(t)
		time.Sleep(prompt)
		for name, subject := range denied {
			readers[name].namesDenial(t, subject)
		}
		if told := o.denials(); len(told) != 0 {
			t.Errorf("the one that may read all was told of %v", told)
		}
	})
}

// TestADeniedPullIsNamedUnderAnotherErrorHandler: the connection is the user's.
func TestADeniedPullIsNamedUnderAnotherErrorHandler(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const subject = "$JS.API.CONSUMER.MSG.NEXT.KV_b.*"
		srv := natstest.Start(t, natstest.WithConfig(denying()))
		admin := connect(t, srv.URL(), nats.UserInfo("admin", "x"))
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		js := connect(t, srv.URL(), nats.UserInfo("reader", "x"))
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		js.Conn().SetErrorHandler(nil)
		must(t, srv.Reload(denying(subject)))
		deleteConsumers(t, admin)
		r.namesDenial(t, subject)
	})
}

// TestAUserWhoIsLockedOutIsTold: why the connection does not come back.
func TestAUserWhoIsLockedOutIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, natstest.WithConfig(denying()))
		admin := connect(t, srv.URL(), nats.UserInfo("admin", "x"))
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
		js := connect(t, srv.URL(), nats.UserInfo("reader", "x"), nats.IgnoreAuthErrorAbort(), unheard)
		var o told
		r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
		must(t, srv.Reload(func(o *server.Options) { o.Users = []*server.User{{Username: "admin", Password: "x"}} }))
		within(t, connectGrace+prompt, "the status says why", func() bool {
			err := r.Status().Err
			return errors.Is(err, nats.ErrAuthorization) && strings.Contains(err.Error(), "check the user")
		})
		must(t, srv.Reload(denying()))
		within(t, prompt, "the connection is back", js.Conn().IsConnected)
		r.follows(t, kv, "k", 1, prompt)
		o.healed(t)
	})
}
