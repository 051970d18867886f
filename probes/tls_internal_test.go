package probes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// authority signs certificates for an hour, of this machine's loopback address.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	a.cert, a.pem = sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().AddDate(1, 0, 0),
	}, nil, a.key, &a.key.PublicKey)
	return a
}

func sign(
	t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey, of *ecdsa.PublicKey,
) (*x509.Certificate, []byte) {
	t.Helper()
	if parent == nil {
		parent = template
	}
	template.SerialNumber, template.NotBefore = big.NewInt(1), time.Now().Add(-time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, of, by)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pair is a certificate of the authority and its key, in PEM.
func (a *authority) pair(t *testing.T, name string, lasts time.Duration) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	_, cert = sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(lasts), IPAddresses: []net.IP{{127, 0, 0, 1}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key, &k.PublicKey)
	der, err := x509.MarshalECPrivateKey(k)
	must(t, err)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// mount is a folder as a kubelet mounts a secret: what is in it are links to links, and one rename changes all.
type mount struct {
	t    *testing.T
	path string
	n    int
}

func newMount(t *testing.T) *mount {
	m := &mount{t: t, path: t.TempDir()}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(m.path, name)))
	}
	return m
}

func (m *mount) file(name string) string { return filepath.Join(m.path, name) }

func (m *mount) swap(cert, key, ca []byte) {
	m.t.Helper()
	m.n++
	version := m.file("..v" + string(rune('a'+m.n)))
	must(m.t, os.Mkdir(version, 0o700))
	for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": ca} {
		must(m.t, os.WriteFile(filepath.Join(version, name), data, 0o600))
	}
	must(m.t, os.Symlink(filepath.Base(version), m.file("..data_tmp")))
	must(m.t, os.Rename(m.file("..data_tmp"), m.file("..data")))
}

func (m *mount) tls() TLS {
	return TLS{Cert: m.file("tls.crt"), Key: m.file("tls.key"), ClientCA: m.file("ca.crt")}
}

// serves is whose certificate a listener with this configuration shows.
func serves(t *testing.T, config *tls.Config) string {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	done := make(chan error, 1)
	go func() { done <- tls.Server(server, config).Handshake() }()
	c := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	must(t, c.Handshake())
	go io.Copy(io.Discard, client) //nolint:errcheck // the server sends its tickets
	must(t, <-done)
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestACertificateIsServedAnewWhenItsFilesChange: ten seconds after a secret's mount was swapped. A pair that does not
// fit leaves the one before, and is told once; not if it fits a second later.
func TestACertificateIsServedAnewWhenItsFilesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, other, m := newAuthority(t), newAuthority(t), newMount(t)
		cert, key := ca.pair(t, "first", 24*time.Hour)
		m.swap(cert, key, ca.pem)
		c, err := m.tls().open()
		must(t, err)
		config, err := c.config()
		must(t, err)
		ctx, log := logged(t.Context())
		ctx, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { c.watch(ctx) })
		synctest.Wait()
		told := func(n int, says string) {
			t.Helper()
			synctest.Wait()
			if text := log.read(); strings.Count(text, "\n") != n || !strings.Contains(text, says) {
				t.Errorf("it told, want %d lines and %q:\n%s", n, says, text)
			}
		}
		is := func(want string) {
			t.Helper()
			if got := serves(t, config); got != want {
				t.Errorf("the certificate of %q is served, want %q", got, want)
			}
		}
		is("first")
		cert2, key2 := ca.pair(t, "second", 24*time.Hour)
		m.swap(cert2, key2, other.pem)
		time.Sleep(lookEvery - time.Nanosecond)
		is("first")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		is("second")
		told(2, "The certificates of the listener were read anew")
		mine, _ := ca.pair(t, "mine", time.Hour)
		theirs, _ := other.pair(t, "theirs", time.Hour)
		if c.verifyClient(shown(t, theirs)) != nil || !errors.Is(c.verifyClient(shown(t, mine)), ErrUnauthenticated) {
			t.Error("the new authority of clients does not count")
		}

		m.swap(cert, key2, other.pem)
		time.Sleep(lookEvery + lookAgain/2)
		m.swap(cert, key, other.pem) // written one after the other
		time.Sleep(lookAgain)
		synctest.Wait()
		is("first")
		told(1, "read anew")

		m.swap(cert, key2, other.pem)
		time.Sleep(time.Hour)
		is("first")
		told(1, "private key does not match")
		must(t, os.Remove(m.file("..data")))
		time.Sleep(time.Minute)
		is("first")
		told(2, "no such file")
		m.swap(cert2, key2, ca.pem)
		time.Sleep(time.Minute)
		is("second")
		told(2, "read anew")
		time.Sleep(24 * time.Hour)
		told(1, "has expired at")
		stop()
		watching.Wait()
	})
}

// shown is the connection of a client that has shown a certificate.
func shown(t *testing.T, cert []byte) *tls.ConnectionState {
	t.Helper()
	block, _ := pem.Decode(cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{parsed}}
}

// TestFilesThatCannotBeServedAreAnErrorAtTheStart, which names them, and nothing listens.
func TestFilesThatCannotBeServedAreAnErrorAtTheStart(t *testing.T) {
	ca, m := newAuthority(t), newMount(t)
	cert, key := ca.pair(t, "one", time.Hour)
	_, another := ca.pair(t, "two", time.Hour)
	m.swap(cert, another, []byte("none"))
	good := newMount(t)
	good.swap(cert, key, ca.pem)
	for says, with := range map[string]TLS{
		"belong together":         {Cert: good.file("tls.crt")},
		"no such file":            {Cert: good.file("tls.crt"), Key: good.file("no.key")},
		m.file("tls.key"):         {Cert: m.file("tls.crt"), Key: m.file("tls.key")},
		"has no certificate":      {Cert: good.file("tls.crt"), Key: good.file("tls.key"), ClientCA: m.file("ca.crt")},
		m.file("ca.crt") + " has": {ClientCA: m.file("ca.crt")},
	} {
		listening := func(string, net.Addr) { t.Error("it listens") }
		err := (&Server{Address: ":0", TLS: &with, Listening: listening}).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want that it says %q", with, err, says)
		}
	}
}

// TestTheListenerSpeaksTLS, on real sockets: how net/http, TLS and the certificates of clients play together is what is
// tested. Probes are open, all else needs a certificate and a token, profiles too.
func TestTheListenerSpeaksTLS(t *testing.T) {
	ca, other, m := newAuthority(t), newAuthority(t), newMount(t)
	cert, key := ca.pair(t, "server", time.Hour)
	m.swap(cert, key, ca.pem)
	with := m.tls()
	address := map[string]string{}
	open := make(chan struct{}, 2)
	s := &Server{
		Address: ":0", ProfilesAddress: ":0", TLS: &with,
		Handlers: map[string]http.Handler{"/healthz": served200(), "/metrics": served200()},
		Auth: func(r *http.Request, token string) error {
			if r.TLS.PeerCertificates[0].Subject.CommonName != "prometheus" || token != "t" {
				return ErrUnauthenticated
			}
			return nil
		},
		Listening: func(what string, at net.Addr) { address[what] = at.String(); open <- struct{}{} },
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-open
	<-open
	client := func(of *authority, name string) *http.Client {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca.pem)
		config := &tls.Config{RootCAs: roots}
		if of != nil {
			pair, err := tls.X509KeyPair(of.pair(t, name, time.Hour))
			must(t, err)
			config.Certificates = []tls.Certificate{pair}
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	}
	get := func(c *http.Client, url, token string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		must(t, err)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := c.Do(r)
		must(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer.StatusCode, string(body)
	}
	metrics := "https://" + address["handlers"] + "/metrics"
	profile := "https://" + address["profiles"] + "/debug/pprof/"
	for name, test := range map[string]struct {
		client     *http.Client
		url, token string
		code       int
		says       string
	}{
		"a kubelet":               {client(nil, ""), "https://" + address["handlers"] + "/healthz", "", 200, ""},
		"no certificate":          {client(nil, ""), metrics, "t", 401, "the certificate of a client is needed"},
		"one of somebody else":    {client(other, "prometheus"), metrics, "t", 401, "unknown authority"},
		"no token":                {client(ca, "prometheus"), metrics, "", 401, "not authenticated"},
		"another client":          {client(ca, "another"), metrics, "t", 401, "not authenticated"},
		"prometheus":              {client(ca, "prometheus"), metrics, "t", 200, ""},
		"profiles for nobody":     {client(ca, "prometheus"), profile, "", 401, "not authenticated"},
		"profiles for prometheus": {client(ca, "prometheus"), profile, "t", 200, "heap"},
		"plain HTTP":              {client(nil, ""), "http://" + address["handlers"] + "/healthz", "", 400, "HTTPS server"},
	} {
		if code, body := get(test.client, test.url, test.token); code != test.code || !strings.Contains(body, test.says) {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	stop()
	must(t, <-done)
}

// TestWithoutFilesACertificateIsMade at the start, unless Adjust has one.
func TestWithoutFilesACertificateIsMade(t *testing.T) {
	c, err := TLS{}.open()
	must(t, err)
	config, err := c.config()
	must(t, err)
	if got := serves(t, config); !strings.HasPrefix(got, "localhost") {
		t.Errorf("a certificate of %q", got)
	}
	pair, err := tls.X509KeyPair(newAuthority(t).pair(t, "adjusted", time.Hour))
	must(t, err)
	c, err = TLS{Adjust: func(config *tls.Config) {
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	}}.open()
	must(t, err)
	config, err = c.config()
	must(t, err)
	if got := serves(t, config); got != "adjusted" || len(config.Certificates) > 0 {
		t.Errorf("a certificate of %q, and %d made", got, len(config.Certificates))
	}
}
