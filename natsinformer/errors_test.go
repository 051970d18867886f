package natsinformer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// told records the calls of OnError.
type told struct {
	mu   sync.Mutex
	errs []error
}

func (o *told) add(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs = append(o.errs, err)
}

// of waits for an error that mentions all of the words.
func (o *told) of(t *testing.T, words ...string) error {
	t.Helper()
	var found error
	natstest.Eventually(t, "an error with "+strings.Join(words, ", "), func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, err := range o.errs {
			all := err != nil
			for _, word := range words {
				all = all && strings.Contains(err.Error(), word)
			}
			if all {
				found = err
			}
		}
		return found != nil
	})
	return found
}

func (o *told) healed(t *testing.T) {
	t.Helper()
	within(t, prompt, "OnError(nil)", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.errs) > 0 && o.errs[len(o.errs)-1] == nil
	})
}

func (o *told) all() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.errs)
}

// denials returns those of what was told that are denials.
func (o *told) denials() []error {
	return slices.DeleteFunc(o.all(), func(err error) bool { return !errors.Is(err, nats.ErrPermissionViolation) })
}

func TestMissingBucketIsNamedAndWaitedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		var o told
		r := start(t, js, Config{Bucket: "later", OnError: o.add})
		err := o.of(t, `"later"`, "KV_later", "create it")
		if !errors.Is(err, jetstream.ErrBucketNotFound) {
			t.Errorf("%v is not ErrBucketNotFound", err)
		}
		if r.Status().Err == nil || r.HasSynced() {
			t.Error("no error in the status")
		}
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "later"})
		within(t, prompt, "synced", r.HasSynced)
		o.healed(t)
		if r.Status().Err != nil {
			t.Error("still an error in the status")
		}
		r.follows(t, kv, "k", 1, prompt)
		if told := o.all(); len(told) != 2 {
			t.Errorf("told %d times: %v", len(told), told)
		}
	})
}

func TestDisabledJetStreamIsNamedAndWaitedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		off := natstest.Start(t, natstest.WithoutJetStream())
		js := connect(t, off.URL())
		var o told
		r := start(t, js, Config{Bucket: "b", OnError: o.add})
		o.of(t, `"b"`, "enable JetStream", "$JS.API.STREAM.INFO.KV_b")
		off.Stop()
		on := natstest.Start(t, natstest.WithPort(off.Port()), natstest.WithStoreDir(dir))
		kv := bucket(t, connect(t, on.URL()), jetstream.KeyValueConfig{Bucket: "b"})
		answersNow(t, js, "b")
		within(t, prompt, "synced", r.HasSynced)
		o.healed(t)
		r.follows(t, kv, "k", 1, prompt)
	})
}

func TestUnreachableServerIsReported(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		var o told
		r := start(t, js, Config{Bucket: "b", OnError: o.add}).synced(t)
		server.Stop()
		o.of(t, `"b"`, "connection to NATS is reconnecting")
		must(t, server.Start())
		answersNow(t, js, "b")
		r.follows(t, kv, "k", 1, prompt)
		o.healed(t)
	})
}

// TestMissingPermissionIsNamed: a refused request looks like a timeout. Each permission that a reader needs is taken
// away in turn; the error must name the subject, and when it is granted the informer must go on by itself.
func TestMissingPermissionIsNamed(t *testing.T) {
	reader := []string{
		"$JS.API.STREAM.INFO.KV_b", "$JS.API.STREAM.MSG.GET.KV_b", "$JS.API.CONSUMER.CREATE.KV_b.>",
		"$JS.API.CONSUMER.MSG.NEXT.KV_b.*", "$JS.API.CONSUMER.DELETE.KV_b.*",
	}
	for _, missing := range []string{reader[0], reader[2], reader[3], "_INBOX.>"} {
		subtest(t, missing, func(t *testing.T) {
			users := func(denied string) (string, string) {
				var publish []string
				for _, subject := range reader {
					if subject != denied {
						publish = append(publish, `"`+subject+`"`)
					}
				}
				inbox := `"_INBOX.>"`
				if denied == "_INBOX.>" {
					inbox = `"elsewhere"`
				}
				return strings.Join(publish, ","), inbox
			}
			file := filepath.Join(t.TempDir(), "nats.conf")
			var srv *natstest.Server
			configure := func(denied string) {
				publish, inbox := users(denied)
				must(t, os.WriteFile(file, []byte(`authorization { users = [
					{ user: admin, password: admin }
					{ user: reader, password: reader, permissions: { publish: [`+publish+`], subscribe: [`+inbox+`] } }
				] }`), 0o600))
			}
			configure(missing)
			srv = natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
				parsed, err := server.ProcessConfigFile(file)
				must(t, err)
				o.Users = parsed.Users
			}))
			admin := connect(t, srv.URL(), nats.UserInfo("admin", "admin"))
			kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b"})
			put(t, kv, "k", 1)
			js := connect(t, srv.URL(), nats.UserInfo("reader", "reader"), nats.IgnoreAuthErrorAbort())
			var o told
			r := start(t, js, Config{Bucket: "b", OnError: o.add})
			err := o.of(t, `"b"`, missing, "grant")
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%v is not ErrPermissionViolation", err)
			}
			configure("")
			must(t, srv.Restart())
			natstest.Eventually(t, "the server is back", js.Conn().IsConnected)
			answersNow(t, admin, "b")
			within(t, prompt, "synced", r.HasSynced)
			r.follows(t, kv, "k", 2, prompt)
			o.healed(t)
			// With exactly the documented permissions nothing is refused.
			leaveNothing(t, admin, "b", r)
		})
	}
}

func TestConfigurationErrors(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		tests := map[string]struct {
			js  jetstream.JetStream
			cfg Config
		}{
			"no JetStream": {nil, Config{Bucket: "b", Decode: decodeThing}},
			"no bucket":    {js, Config{Decode: decodeThing}},
			"bad bucket":   {js, Config{Bucket: "a.b", Decode: decodeThing}},
			"bad filter":   {js, Config{Bucket: "b", Filter: "a..b", Decode: decodeThing}},
			"inner >":      {js, Config{Bucket: "b", Filter: "a.>.b", Decode: decodeThing}},
			"no decoder":   {js, Config{Bucket: "b"}},
			"interval":     {js, Config{Bucket: "b", Decode: decodeThing, CompareInterval: -1}},
		}
		for name, test := range tests {
			if _, err := New(test.js, test.cfg); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}
