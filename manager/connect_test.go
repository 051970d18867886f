package manager

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// works fails unless the manager's clients can write and read.
func works(t *testing.T, m *Manager) {
	t.Helper()
	c := client(t, m, sites())
	must(t, c.Create(t.Context(), newSite("home", "Home")))
	if _, err := c.Lister().Get("home"); err != nil {
		t.Fatal(err)
	}
}

func TestItConnectsToTheServersOfTheURL(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		away := natstest.Start(t)
		away.Stop()
		s := startServer(t)
		m := open(t, Config{Name: "sites", URL: away.URL() + ", " + strings.TrimPrefix(s.URL(), "nats://")})
		works(t, m)
		if name := m.Conn().Opts.Name; name != "sites" {
			t.Errorf("the connection's name is %q", name)
		}
	})
}

func TestItConnectsAsTheEnvironmentSays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		dir := isolated(t)
		s := startServer(t)
		writeContext(t, dir, "other", map[string]any{"url": "nats://127.0.0.1:1", "user": "u", "password": "p"}, true)
		t.Setenv(urlVariable, s.URL())
		m := open(t, Config{})
		works(t, m)
		if m.Conn().Opts.User != "" {
			t.Error("the user of a selected context was sent to the server of NATS_URL")
		}
	})
}

func TestItConnectsWithTheContextsOfTheCommandLine(t *testing.T) {
	s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.Username, o.Password = "ann", "secret"
		o.JetStreamDomain = "edge"
	}))
	settings := map[string]any{
		"url": s.URL(), "user": "ann", "password": "secret", "inbox_prefix": "_INBOX_ann", "jetstream_domain": "edge",
	}
	check := func(t *testing.T, cfg Config) {
		m := open(t, cfg)
		if m.Conn().Opts.InboxPrefix != "_INBOX_ann" || m.JetStream().Options().Domain != "edge" {
			t.Errorf("inbox prefix %q, domain %q", m.Conn().Opts.InboxPrefix, m.JetStream().Options().Domain)
		}
		if _, err := m.JetStream().AccountInfo(t.Context()); err != nil {
			t.Error(err)
		}
	}
	t.Run("selected", func(t *testing.T) {
		writeContext(t, isolated(t), "edge", settings, true)
		check(t, Config{})
	})
	t.Run("by name", func(t *testing.T) {
		dir := isolated(t)
		writeContext(t, dir, "edge", settings, false)
		writeContext(t, dir, "other", map[string]any{"url": "nats://127.0.0.1:1"}, true)
		check(t, Config{Context: "edge"})
	})
	t.Run("by the environment", func(t *testing.T) {
		writeContext(t, isolated(t), "edge", settings, false)
		t.Setenv(contextVariable, "edge")
		check(t, Config{})
	})
	t.Run("by path", func(t *testing.T) {
		dir := isolated(t)
		writeContext(t, dir, "edge", settings, false)
		check(t, Config{Context: filepath.Join(dir, "context", "edge.json")})
	})
}

func TestItConnectsWithAnNkey(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		user, err := nkeys.CreateUser()
		must(t, err)
		public, err := user.PublicKey()
		must(t, err)
		seed, err := user.Seed()
		must(t, err)
		path := filepath.Join(t.TempDir(), "user.nk")
		must(t, os.WriteFile(path, seed, 0o600))
		s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
			o.Nkeys = []*server.NkeyUser{{Nkey: public}}
		}))
		works(t, open(t, Config{URL: s.URL(), NKey: path}))

		_, err = newManager(silent(t.Context()), Config{URL: s.URL(), WaitForServer: time.Hour})
		mustSay(t, err, s.URL(), "Authorization Violation")
		_, err = newManager(silent(t.Context()), Config{URL: s.URL(), NKey: path + ".not", WaitForServer: time.Hour})
		mustSay(t, err, "Config.NKey", path+".not")
	})
}

// TestATokenInTheURLIsNotLogged: neither when it connects, nor when it connects again.
func TestATokenInTheURLIsNotLogged(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) { o.Authorization = "zebra" }))
		ctx, log := withLog(t.Context())
		m, err := newManager(ctx, Config{URL: strings.Replace(s.URL(), "//", "//zebra@", 1)})
		must(t, err)
		t.Cleanup(func() { must(t, m.Close(context.Background())) })
		must(t, s.Restart())
		natstest.Eventually(t, "connected again", func() bool {
			return strings.Contains(log.text(), `"Reconnected to NATS"`)
		})
		if n := strings.Count(log.text(), `"url"="nats://xxxxx@127.0.0.1:`); n != 2 {
			t.Errorf("the log has the URL without the token %d times, want one for each connection:\n%s", n, log.text())
		}
		if strings.Contains(log.text(), "zebra") {
			t.Errorf("the log has the token:\n%s", log.text())
		}
	})
}

// operatorServer is a server in operator mode with an account that has JetStream, and a function that makes a
// credentials file of it.
func operatorServer(t *testing.T) (s *natstest.Server, credentials func(expires time.Duration) (path string)) {
	t.Helper()
	operator, err := nkeys.CreateOperator()
	must(t, err)
	operatorKey, err := operator.PublicKey()
	must(t, err)
	account, err := nkeys.CreateAccount()
	must(t, err)
	accountKey, err := account.PublicKey()
	must(t, err)
	claims := jwt.NewAccountClaims(accountKey)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1, MaxAckPending: -1,
	}
	accountJWT, err := claims.Encode(operator)
	must(t, err)
	system, err := nkeys.CreateAccount()
	must(t, err)
	systemKey, err := system.PublicKey()
	must(t, err)
	systemJWT, err := jwt.NewAccountClaims(systemKey).Encode(operator)
	must(t, err)
	resolver := &server.MemAccResolver{}
	must(t, resolver.Store(accountKey, accountJWT))
	must(t, resolver.Store(systemKey, systemJWT))
	s = natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.TrustedKeys = []string{operatorKey}
		o.SystemAccount = systemKey
		o.AccountResolver = resolver
	}))
	path := filepath.Join(t.TempDir(), "user.creds")
	return s, func(expires time.Duration) string {
		user, err := nkeys.CreateUser()
		must(t, err)
		public, err := user.PublicKey()
		must(t, err)
		claims := jwt.NewUserClaims(public)
		if expires != 0 {
			claims.Expires = time.Now().Add(expires).Unix()
		}
		userJWT, err := claims.Encode(account)
		must(t, err)
		seed, err := user.Seed()
		must(t, err)
		file, err := jwt.FormatUserConfig(userJWT, seed)
		must(t, err)
		must(t, os.WriteFile(path, file, 0o600))
		return path
	}
}

func TestItConnectsWithCredentials(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s, credentials := operatorServer(t)
		path := credentials(0)
		works(t, open(t, Config{URL: s.URL(), Creds: path}))

		_, err := newManager(silent(t.Context()), Config{URL: s.URL(), Creds: path + ".not", WaitForServer: time.Hour})
		mustSay(t, err, path+".not")
	})
}

// TestExpiredCredentialsMayBeReplaced: the server refuses the user many times, and nats.go would give up for good at
// the second.
func TestExpiredCredentialsMayBeReplaced(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s, credentials := operatorServer(t)
		ctx, log := withLog(t.Context())
		m, err := newManager(ctx, Config{URL: s.URL(), Creds: credentials(0), WaitForServer: time.Minute})
		must(t, err)
		defer m.Close(context.Background())
		credentials(-time.Hour)
		must(t, m.Conn().ForceReconnect())
		natstest.Eventually(t, "told that it is refused", func() bool {
			return strings.Contains(log.text(), "Reconnecting to NATS fails")
		})
		time.Sleep(10 * time.Second) // some twenty tries
		if err := m.Conn().LastError(); err == nil || m.Conn().IsConnected() || m.Conn().IsClosed() {
			t.Errorf("%v, error %v: it is to be refused, and to go on", m.Conn().Status(), err)
		}
		credentials(0)
		natstest.Eventually(t, "connected again", m.Conn().IsConnected)
		works(t, m)
	})
}

// authority makes a certificate authority with one certificate for server and client, as files.
func authority(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, template, template, &caKey.PublicKey, caKey)
	must(t, err)
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, template, &leafKey.PublicKey, caKey)
	must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(leafKey)
	must(t, err)
	return write("ca.pem", "CERTIFICATE", caDER), write("cert.pem", "CERTIFICATE", leafDER),
		write("key.pem", "EC PRIVATE KEY", keyDER)
}

func tlsOfTests() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

// TestItConnectsWithTLS in real time: a server asks nobody of its own process for TLS.
func TestItConnectsWithTLS(t *testing.T) {
	dir := isolated(t)
	ca, cert, key := authority(t)
	text, err := os.ReadFile(ca)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.TLS, o.TLSVerify, o.TLSTimeout = true, true, 5
		o.TLSConfig = &tls.Config{
			Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
			MinVersion: tls.VersionTLS12,
		}
	}))
	works(t, open(t, Config{URL: s.URL(), CA: ca, Cert: cert, Key: key}))
	whole := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	open(t, Config{URL: s.URL(), TLS: whole})
	writeContext(t, dir, "tls", map[string]any{"url": s.URL(), "ca": ca, "cert": cert, "key": key}, false)
	open(t, Config{Context: "tls"})

	// What the server answers is not waited for.
	_, err = newManager(silent(t.Context()), Config{URL: s.URL(), WaitForServer: time.Hour})
	mustSay(t, err, s.URL(), "certificate")
	_, err = newManager(silent(t.Context()), Config{URL: s.URL(), CA: ca, WaitForServer: time.Hour})
	mustSay(t, err, s.URL(), "certificate required")
}

func TestItWorksInAJetStreamDomain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) { o.JetStreamDomain = "edge" }))
		works(t, open(t, Config{URL: s.URL(), Domain: "edge"}))

		m := open(t, Config{URL: s.URL(), APIPrefix: "$JS.edge.API"})
		if _, err := client(t, m, sites()).Get(t.Context(), "home"); err != nil {
			t.Error(err)
		}
	})
}

// TestItWorksWithAnInboxOfItsOwn: the user may subscribe to nothing else, and have no more than a client needs.
func TestItWorksWithAnInboxOfItsOwn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		granted, err := entity.Permissions(sites(), entity.RoleController, entity.WithInboxPrefix("_INBOX_sites"))
		must(t, err)
		s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
			o.Users = []*server.User{{
				Username: "sites", Password: "secret", Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: granted.Publish},
					Subscribe: &server.SubjectPermission{Allow: granted.Subscribe},
				},
			}, {Username: "admin", Password: "admin"}}
		}))
		admin := open(t, Config{URL: s.URL(), User: "admin", Password: "admin"})
		client(t, admin, sites()) // makes the buckets
		m := open(t, Config{URL: s.URL(), User: "sites", Password: "secret", InboxPrefix: "_INBOX_sites"})
		cfg := sites()
		cfg.BindOnly = true
		c := client(t, m, cfg)
		if _, err := c.Lister().List(nil); err != nil {
			t.Error(err)
		}
		if _, err := m.Conn().SubscribeSync("_INBOX.x"); err != nil {
			t.Fatal(err)
		}
		must(t, m.Conn().Flush())
		natstest.Eventually(t, "denied elsewhere", func() bool { return m.Conn().LastError() != nil })
	})
}
