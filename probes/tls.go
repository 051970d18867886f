package probes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// TLS has a Server serve over TLS, 1.2 or newer, and HTTP/1.1. The zero value serves a certificate that it makes itself
// at the start, for localhost: the connection is encrypted, and clients cannot verify whose it is.
type TLS struct {
	// Cert and Key are paths of PEM files: the certificate with its intermediates, and its key. Both are read again
	// every ten seconds, whatever replaces them: cert-manager, the kubelet, who changes ..data of a mounted secret, or
	// a person. A pair that does not fit leaves the one before in place, and the log says so once.
	Cert, Key string
	// ClientCA is the path of a PEM file with the authorities that sign the certificates of clients. Who asks for what
	// is not open (Server.Open) has to show one, or gets status 401. It is read again as Cert is, and counts from then
	// on for connections that exist, too, also while Cert and Key do not fit. While it is away or has no certificate,
	// nobody is let in, and the log says so once. "" asks for none.
	ClientCA string
	// Adjust, if set, changes the configuration last, such as its MinVersion; or it sets GetCertificate, where
	// certificates come from elsewhere, and Cert and Key are empty.
	Adjust func(*tls.Config)
}

const (
	// lookEvery is how often files are read again, and lookAgain when a pair is that does not fit: both may be about to
	// be written.
	lookEvery = 10 * time.Second
	lookAgain = time.Second
)

// certs are the certificates of a Server and the authorities of its clients, as they were last read.
type certs struct {
	TLS
	files [2][]byte // of Cert and Key, as they were read last, to see whether they changed
	pair  atomic.Pointer[tls.Certificate]
	roots []byte // of ClientCA, likewise; nil if they are of no use
	pool  atomic.Pointer[x509.CertPool]
}

// open reads the files for the first time.
func (t TLS) open() (*certs, error) {
	c := &certs{TLS: t}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("probes: TLS.Cert and TLS.Key belong together: set both, or none")
	}
	for _, load := range []func() (bool, error){c.loadPair, c.loadAuthorities} {
		if _, err := load(); err != nil {
			return nil, fmt.Errorf("probes: %w", err)
		}
	}
	return c, nil
}

// config is the configuration of a listener.
func (c *certs) config() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}
	if c.ClientCA != "" {
		config.ClientAuth = tls.RequestClientCert // verified for each request, so that it may be told why it is refused
	}
	if c.Cert != "" {
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil }
	}
	if c.Adjust != nil {
		c.Adjust(config)
	}
	if config.GetCertificate != nil || len(config.Certificates) > 0 || config.GetConfigForClient != nil {
		return config, nil
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{{127, 0, 0, 1}, net.IPv6loopback}, nil)
	if err != nil {
		return nil, fmt.Errorf("probes: make a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}

// loadPair reads Cert and Key, and takes them if they fit.
func (c *certs) loadPair() (changed bool, err error) {
	if c.Cert == "" {
		return false, nil
	}
	var files [2][]byte
	for i, path := range []string{c.Cert, c.Key} {
		if files[i], err = os.ReadFile(path); err != nil {
			return false, fmt.Errorf("read a file of TLS: %w", err)
		}
	}
	if c.pair.Load() != nil && bytes.Equal(files[0], c.files[0]) && bytes.Equal(files[1], c.files[1]) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return false, fmt.Errorf("certificate %s and key %s: %w", c.Cert, c.Key, err)
	}
	c.pair.Store(&pair)
	c.files = files
	return true, nil
}

// loadAuthorities reads ClientCA. Apart from the pair: an authority that is taken away counts at once, whatever else is
// wrong. Without one that can be used no client has one.
func (c *certs) loadAuthorities() (changed bool, err error) {
	if c.ClientCA == "" {
		return false, nil
	}
	roots, err := os.ReadFile(c.ClientCA)
	if err == nil && c.roots != nil && bytes.Equal(roots, c.roots) {
		return false, nil
	}
	pool := x509.NewCertPool()
	if err != nil {
		err = fmt.Errorf("read a file of TLS: %w", err)
	} else if !pool.AppendCertsFromPEM(roots) {
		err = fmt.Errorf("ClientCA %s has no certificate in PEM", c.ClientCA)
	}
	if err != nil {
		roots = nil
	}
	c.pool.Store(pool)
	c.roots = roots
	return err == nil, err
}

// watch reads the files again and again, until ctx ends.
func (c *certs) watch(ctx context.Context) {
	if c.Cert == "" && c.ClientCA == "" {
		return
	}
	log := printable.Logger(klog.FromContext(ctx)).WithValues("cert", c.Cert, "clientCA", c.ClientCA)
	authorities := &watched{
		load: c.loadAuthorities, anew: "The authorities of the listener's clients were read anew",
		wrong: "The listener lets in no client: it has no authority that signs their certificates. Write some in " +
			"PEM to the file of ClientCA",
	}
	pair := &watched{
		load: c.loadPair, anew: "The certificates of the listener were read anew", lasts: c.lifetime,
		wrong: "The certificates of the listener are not as they should be; those that were read last are served " +
			"until the files are mended",
	}
	for pair.tell(log, false, c.lifetime(time.Now())); pause(ctx, lookEvery); {
		authorities.look(ctx, log)
		pair.look(ctx, log)
	}
}

// watched are files that are read again.
type watched struct {
	load        func() (changed bool, err error)
	lasts       func(now time.Time) error // nil if what is in them does not end
	anew, wrong string
	told        notify.Fact
}

func (w *watched) look(ctx context.Context, log klog.Logger) {
	changed, err := w.load()
	if err != nil && pause(ctx, lookAgain) {
		changed, err = w.load()
	}
	if err == nil && w.lasts != nil {
		err = w.lasts(time.Now())
	}
	w.tell(log, changed, err)
}

// tell says once what is wrong, and what has changed.
func (w *watched) tell(log klog.Logger, changed bool, err error) {
	switch {
	case err != nil && w.told.Tell(err.Error()):
		log.Error(err, w.wrong)
	case err == nil && (w.told.Over() || changed):
		log.Info(w.anew)
	}
}

// lifetime returns an error if the certificate is not valid now.
func (c *certs) lifetime(now time.Time) error {
	if c.Cert == "" {
		return nil
	}
	switch leaf := c.pair.Load().Leaf; {
	case leaf == nil:
		return nil
	case now.After(leaf.NotAfter):
		return fmt.Errorf("certificate %s has expired at %v: replace it", c.Cert, leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("certificate %s is valid from %v on: is the clock right?", c.Cert, leaf.NotBefore)
	}
	return nil
}

// verifyClient returns an ErrUnauthenticated unless a client has shown a certificate of the ClientCA.
func (c *certs) verifyClient(state *tls.ConnectionState) error {
	if c.ClientCA == "" {
		return nil
	}
	if state == nil || len(state.PeerCertificates) == 0 {
		return fmt.Errorf("%w: the certificate of a client is needed", ErrUnauthenticated)
	}
	between := x509.NewCertPool()
	for _, one := range state.PeerCertificates[1:] {
		between.AddCert(one)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: c.pool.Load(), Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	return nil
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
