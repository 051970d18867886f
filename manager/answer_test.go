package manager

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

func TestAServerThatIsAwayIsNamedWithoutItsPassword(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		s.Stop()
		host := strings.TrimPrefix(s.URL(), "nats://")
		for _, url := range []string{"nats://ann:secret@" + host, "ann:secret@" + host, "nats://secret@" + host} {
			_, err := newManager(silent(t.Context()), Config{URL: url})
			mustSay(t, err, host, "Config.URL", "Config.WaitForServer")
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the password: %v", err)
			}
		}
		for _, url := range []string{"nats://ann:sec%zzret@" + host, "nats://ann:sec ret@" + host, "nats://ann:secret@"} {
			_, err := newManager(silent(t.Context()), Config{URL: url})
			mustSay(t, err, "is no URL of a server")
			if strings.Contains(err.Error(), "sec") {
				t.Errorf("the error has the password: %v", err)
			}
		}
	})
}

// TestNoPartOfAPasswordIsTold, whatever the URL is and whatever comes of parsing it. Each password is of zebra, quark
// and 7777, with what breaks it between.
func TestNoPartOfAPasswordIsTold(t *testing.T) {
	for _, url := range []string{
		"nats://ann:zebra,quark@127.0.0.1:1", "nats://ann:7777,quark@127.0.0.1:1", "ann:zebra,quark@127.0.0.1:1",
		"nats://ann:zebra#quark@127.0.0.1:1", "nats://ann:7777#quark@127.0.0.1:1", "nats://ann:7777/quark@127.0.0.1:1",
		"nats://ann:7777?quark@127.0.0.1:1", "nats://ann:zebra%zzquark@127.0.0.1:1", "nats://ann:zebra quark@127.0.0.1:1",
		"nats://ann:zebra", "ann:zebra", "nats://ann:zebra@", "nats://zebra@:4222", "nats://ann:zebra[quark@127.0.0.1:1",
		"nats://ann:\x7fzebra@127.0.0.1:1", "nats:/ann:zebra@127.0.0.1:1", "nats//ann:zebra@127.0.0.1:1",
		"zebra@127.0.0.1:x", "://ann:zebra@127.0.0.1", "nats://127.0.0.1:1,nats://ann:zebra,quark@127.0.0.1:1",
		"nats://ann:zebra@127.0.0.1:1,nats://bob:7777#quark@127.0.0.1:1", "nats://ann:zebra,r@quark,x@127.0.0.1:1",
		"nats://bob:zebra@127.0.0.1:1,nats://ann:7777,quark@127.0.0.1:1", "nats://ann:zebra@127.0.0.1:1/#quark",
		"ftp://ann:zebra@127.0.0.1:1", "nats://ann:zebra@[::1", "nats://ann:zebra@127.0.0.1:1,nats://bob:quark@127.0.0.1:2",
		"nats://zebra@127.0.0.1:1", "nats://ann:zebra@quark@127.0.0.1:1", "ws://ann:7777/quark@127.0.0.1:1",
		"127.0.0.1:1,zebra@127.0.0.1:1", "nats:ann:zebra@127.0.0.1:1", "nats://ann:zebra%40quark@127.0.0.1:1",
	} {
		t.Run(url, func(t *testing.T) {
			dir := isolated(t)
			writeContext(t, dir, "nasty", map[string]any{"url": url}, false)
			ctx, log := withLog(t.Context())
			for from, cfg := range map[string]Config{"Config.URL": {URL: url}, "Config.Context": {Context: "nasty"}} {
				cfg.WaitForServer = 20 * time.Millisecond
				_, err := newManager(ctx, cfg)
				mustSay(t, err, from)
				for _, part := range []string{"zebra", "quark", "7777"} {
					if strings.Contains(err.Error()+log.text(), part) {
						t.Errorf("it tells %q: %v\n%s", part, err, log.text())
					}
				}
			}
		})
	}
}

func TestAUserInSomeOfTheURLsIsAnError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		for _, url := range []string{"nats://127.0.0.1:1,nats://ann:x@127.0.0.1:2", "nats://ann:x@127.0.0.1:1,127.0.0.1:2"} {
			_, err := newManager(silent(t.Context()), Config{URL: url})
			mustSay(t, err, "Config.URL", "all of them", "%2C")
		}
	})
}

func TestItWaitsForAServerAndSaysForWhom(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		s.Stop()
		ctx, log := withLog(t.Context())
		made := make(chan error, 1)
		url := strings.Replace(s.URL(), "//", "//ann:secret@", 1)
		var m *Manager
		go func() {
			var err error
			m, err = newManager(ctx, Config{URL: url, WaitForServer: time.Minute})
			made <- err
		}()
		natstest.Eventually(t, "said for whom it waits", func() bool {
			return strings.Contains(log.text(), "Waiting for a NATS server") && strings.Contains(log.text(), s.URL()[7:])
		})
		select {
		case err := <-made:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		must(t, s.Start())
		must(t, <-made)
		must(t, m.Close(context.Background()))
		if strings.Contains(log.text(), "secret") {
			t.Errorf("the log has the password: %s", log.text())
		}
	})
}

func TestTheWaitForAServerEnds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		s.Stop()
		began := time.Now()
		_, err := newManager(silent(t.Context()), Config{URL: s.URL(), WaitForServer: time.Second})
		mustSay(t, err, s.URL(), "within the 1s of Config.WaitForServer")
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}

		ctx, cancel := context.WithCancel(silent(t.Context()))
		stopped := time.AfterFunc(100*time.Millisecond, cancel)
		defer stopped.Stop()
		_, err = newManager(ctx, Config{URL: s.URL(), WaitForServer: time.Hour})
		mustSay(t, err, s.URL(), "stopped while waiting", "context canceled")
	})
}

// TestADeadPeerIsFoundWithinSeconds: the proxy goes on with the connection, and passes no bytes any more.
func TestADeadPeerIsFoundWithinSeconds(t *testing.T) {
	for _, test := range []struct {
		name string
		in   func(t *testing.T, f func(t *testing.T))
		most time.Duration
		more func(t *testing.T, nc *nats.Conn) // while it is dead
	}{
		{"idle", natstest.Test, (DefaultMaxPings + 1) * DefaultPingInterval, func(*testing.T, *nats.Conn) {}},
		// In real time: no wire of virtual time is ever full.
		{"writing all the time", func(t *testing.T, f func(t *testing.T)) { f(t) }, 20 * time.Second, func(t *testing.T, nc *nats.Conn) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for data := make([]byte, 512<<10); ctx.Err() == nil && nc.IsConnected(); {
					_ = nc.Publish("noise", data)
				}
			}()
			t.Cleanup(func() { cancel(); <-done })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.in(t, func(t *testing.T) {
				isolated(t)
				s := startServer(t)
				proxy := natstest.StartProxy(t, s.URL())
				m := open(t, Config{URL: proxy.URL()})
				lost := m.Conn().StatusChanged(nats.RECONNECTING)
				defer m.Conn().RemoveStatusListener(lost)
				proxy.Blackhole()
				began := time.Now()
				test.more(t, m.Conn())
				select {
				case <-lost:
				case <-time.After(20 * time.Second):
					t.Fatal("a dead peer was not found within 20 s")
				}
				if took := time.Since(began); took > test.most {
					t.Errorf("a dead peer was found after %v, want within %v", took, test.most)
				}
				proxy.Resume()
				natstest.Eventually(t, "connected again", m.Conn().IsConnected)
				works(t, m)
			})
		})
	}
}

func TestWhatContradictsIsAnError(t *testing.T) {
	dir := isolated(t)
	s := startServer(t)
	url := s.URL()
	nc, _ := natstest.Connect(t, url)
	writeContext(t, dir, "ann", map[string]any{"url": url, "user": "ann", "password": "secret"}, false)
	writeContext(t, dir, "inurl", map[string]any{"url": strings.Replace(url, "//", "//ann:secret@", 1)}, false)
	writeContext(t, dir, "js", map[string]any{
		"url": url, "jetstream_domain": "edge", "inbox_prefix": "_INBOX_a", "ca": "/ca.pem",
	}, false)
	writeContext(t, dir, "jwt", map[string]any{"url": url, "user_jwt": "ey"}, false)
	writeContext(t, dir, "nsc", map[string]any{"url": url, "nsc": "nsc://a/b/c"}, false)
	writeContext(t, dir, "half", map[string]any{"url": url, "cert": "/cert.pem"}, false)
	for name, test := range map[string]struct {
		cfg  Config
		says []string
	}{
		"URL and context":      {Config{URL: url, Context: "ann"}, []string{"Config.URL", "Config.Context"}},
		"connection and URL":   {Config{Conn: nc, URL: url}, []string{"Config.Conn", "Config.URL"}},
		"connection and user":  {Config{Conn: nc, Creds: "x"}, []string{"Config.Conn", "Config.Creds"}},
		"connection and wait":  {Config{Conn: nc, WaitForServer: 1}, []string{"Config.Conn", "Config.WaitForServer"}},
		"connection and pings": {Config{Conn: nc, MaxPings: 9}, []string{"Config.Conn", "Config.MaxPings"}},
		"two users":            {Config{URL: url, Creds: "x", NKey: "y"}, []string{"Config.Creds and Config.NKey"}},
		"user and that of URL": {
			Config{URL: strings.Replace(url, "//", "//ann:secret@", 1), Token: "x"},
			[]string{"Config.Token and the user in Config.URL"},
		},
		"password alone": {Config{URL: url, Password: "x"}, []string{"Config.Password", "Config.User"}},
		"two TLS":        {Config{URL: url, TLS: tlsOfTests(), CA: "x"}, []string{"Config.TLS", "Config.CA"}},
		"half a pair":    {Config{URL: url, Key: "x"}, []string{"Config.Cert", "Config.Key"}},
		"two APIs":       {Config{URL: url, Domain: "a", APIPrefix: "b"}, []string{"Config.Domain", "Config.APIPrefix"}},
		"user and that of a context": {
			Config{Context: "ann", Creds: "x"}, []string{"Config.Creds and user of context", "ann"},
		},
		"user and that in the URL of a context": {
			Config{Context: "inurl", Creds: "x"}, []string{"Config.Creds and the user in the url of context"},
		},
		"inbox of a context":    {Config{Context: "js", InboxPrefix: "_INBOX_b"}, []string{"inbox_prefix", "_INBOX_b"}},
		"domain of a context":   {Config{Context: "js", Domain: "core"}, []string{"jetstream_domain", "core"}},
		"API of a context":      {Config{Context: "js", APIPrefix: "x"}, []string{"APIPrefix", "context"}},
		"TLS and a context's":   {Config{Context: "js", TLS: tlsOfTests()}, []string{"Config.TLS", "context"}},
		"CA and a context's":    {Config{Context: "js", CA: "/other.pem"}, []string{"Config.CA", "/ca.pem"}},
		"JWT in a context":      {Config{Context: "jwt"}, []string{"user_jwt", "creds"}},
		"nsc in a context":      {Config{Context: "nsc"}, []string{"nsc", "creds"}},
		"half a context's pair": {Config{Context: "half"}, []string{"cert and key"}},
		"no such context":       {Config{Context: "none"}, []string{"none", "nats context ls"}},
		"no name of a context":  {Config{Context: "../x"}, []string{"../x", "absolute path"}},
		"negative wait":         {Config{URL: url, WaitForServer: -1}, []string{"Config.WaitForServer"}},
		"negative pings":        {Config{URL: url, MaxPings: -1}, []string{"Config.MaxPings"}},
		"lease without bucket":  {Config{URL: url, Lease: &Lease{}}, []string{"Config.Lease.Bucket"}},
		"no URL":                {Config{URL: " , "}, []string{"names no server"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := newManager(silent(t.Context()), test.cfg)
			if err == nil {
				must(t, m.Close(context.Background()))
			}
			mustSay(t, err, test.says...)
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
	t.Run("environment", func(t *testing.T) {
		t.Setenv(urlVariable, url)
		t.Setenv(contextVariable, "ann")
		_, err := newManager(silent(t.Context()), Config{})
		mustSay(t, err, urlVariable, contextVariable)
		open(t, Config{URL: url}) // what Config says is not looked for elsewhere
	})
}

func TestAConnectionOfTheUserStaysOpen(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		nc, _ := natstest.Connect(t, s.URL())
		m, err := newManager(silent(t.Context()), Config{Conn: nc})
		must(t, err)
		works(t, m)
		must(t, m.Close(context.Background()))
		if !nc.IsConnected() {
			t.Error("the connection was closed")
		}
	})
}

const notReconnected = "Reconnecting to NATS fails"

func TestDeadServersDoNotFillTheLog(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		urls := []string{s.URL()}
		for range 3 {
			dead := natstest.Start(t)
			dead.Stop()
			urls = append(urls, dead.URL())
		}
		ctx, log := withLog(t.Context())
		m, err := newManager(ctx, Config{URL: strings.Join(urls, ",")})
		must(t, err)
		defer m.Close(context.Background())
		s.Stop()
		natstest.Eventually(t, "told that it does not reconnect", func() bool {
			return strings.Contains(log.text(), notReconnected)
		})
		time.Sleep(4 * time.Second) // some twenty tries
		if n := strings.Count(log.text(), notReconnected); n > 4 {
			t.Errorf("%d lines:\n%s", n, log.text())
		}
		must(t, s.Start())
		natstest.Eventually(t, "connected again", m.Conn().IsConnected)
	})
}
