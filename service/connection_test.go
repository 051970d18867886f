package service

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestAConnectionThatWouldNotComeBackIsRefused: with the defaults of nats.go an outage of minutes would end Run, and with
// it all that a manager runs.
func TestAConnectionThatWouldNotComeBackIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const forever, refused, none = "nats.MaxReconnects(-1)", "nats.IgnoreAuthErrorAbort()", "nats.NoReconnect()"
		for name, tt := range map[string]struct {
			opts []nats.Option
			want []string // what is to be set, and no more
		}{
			"defaults":          {nil, []string{forever, refused}},
			"many tries":        {[]nats.Option{nats.MaxReconnects(1e6), nats.IgnoreAuthErrorAbort()}, []string{forever}},
			"no try":            {[]nats.Option{nats.MaxReconnects(0), nats.IgnoreAuthErrorAbort()}, []string{forever}},
			"ends when refused": {[]nats.Option{nats.MaxReconnects(-1)}, []string{refused}},
			"no reconnect": {[]nats.Option{nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.NoReconnect()},
				[]string{none}},
			"all at once": {[]nats.Option{nats.NoReconnect()}, []string{forever, refused, none}},
			"comes back":  {[]nats.Option{nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort()}, nil},
		} {
			nc, err := nats.Connect(w.srv.URL(), append(tt.opts, nats.UserInfo("service", "x"), natstest.Dialer())...)
			w.must(err)
			t.Cleanup(nc.Close)
			_, err = New(Config{Conn: nc})
			if (err == nil) != (tt.want == nil) {
				t.Errorf("%s: error %v", name, err)
				continue
			}
			for _, option := range []string{forever, refused, none} {
				if err != nil && strings.Contains(err.Error(), option) != slices.Contains(tt.want, option) {
					t.Errorf("%s: want what is to be changed, %q: %v", name, tt.want, err)
				}
			}
		}
	})
}

// TestAServiceWhoseUserIsRefusedForATimeGoesOn, as when credentials have expired and are renewed.
func TestAServiceWhoseUserIsRefusedForATimeGoesOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		users := func(names ...string) func(*server.Options) {
			return func(o *server.Options) {
				o.Users = nil
				for _, name := range names {
					o.Users = append(o.Users, &server.User{Username: name, Password: "x"})
				}
			}
		}
		w := &world{T: t, srv: natstest.Start(t, natstest.WithConfig(users("admin", "service"))), log: &lines{}}
		_, w.js = w.connect("admin")
		var refusals atomic.Int64
		own, _ := natstest.Connect(t, w.srv.URL(), nats.UserInfo("service", "x"),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
				if errors.Is(err, nats.ErrAuthorization) {
					refusals.Add(1)
				}
			}))
		s := w.service(func(c *Config) { c.Conn = own })
		w.run(s)
		w.answers("$SRV.PING.nagi")
		w.must(w.srv.Reload(users("admin")))
		natstest.Eventually(w, "it is refused more often than nats.go bears by itself", func() bool { return refusals.Load() > 4 })
		w.must(w.srv.Reload(users("admin", "service")))
		natstest.Eventually(w, "it is connected", own.IsConnected)
		w.answers("$SRV.PING.nagi")
	})
}
