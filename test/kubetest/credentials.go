package kubetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nagi-runtime/nagi/test/internal/ports"
)

// credentials are made once for a server and stay the same over its restarts.
type credentials struct {
	certificate []byte // PEM; also what clients have to trust
	token       string // of the cluster administrator

	certFile, keyFile, tokenFile, serviceAccountKeyFile string

	etcdCertFile, etcdKeyFile string // of etcd and of the API server as its client, and of nobody else
}

// newCredentials makes credentials and writes the API server's files into dir.
func newCredentials(dir string) (*credentials, error) {
	c := &credentials{
		certFile:              filepath.Join(dir, "server.crt"),
		keyFile:               filepath.Join(dir, "server.key"),
		tokenFile:             filepath.Join(dir, "tokens.csv"),
		serviceAccountKeyFile: filepath.Join(dir, "service-account.key"),
		etcdCertFile:          filepath.Join(dir, "etcd.crt"),
		etcdKeyFile:           filepath.Join(dir, "etcd.key"),
	}
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	c.token = hex.EncodeToString(secret)

	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	if c.certificate, err = newCertificate(key); err != nil {
		return nil, err
	}
	etcdKey, etcdKeyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	etcdCertificate, err := newCertificate(etcdKey)
	if err != nil {
		return nil, err
	}
	_, serviceAccountKey, err := newKey()
	if err != nil {
		return nil, err
	}
	for file, content := range map[string][]byte{
		c.certFile:              c.certificate,
		c.keyFile:               keyPEM,
		c.serviceAccountKeyFile: serviceAccountKey,
		c.etcdCertFile:          etcdCertificate,
		c.etcdKeyFile:           etcdKeyPEM,
		// Members of system:masters are allowed everything, also where RBAC has no rules yet.
		c.tokenFile: []byte(c.token + `,admin,admin,"system:masters"` + "\n"),
	} {
		if err := writePrivate(file, content); err != nil {
			return nil, fmt.Errorf("write credentials: %w", err)
		}
	}
	return c, nil
}

// writePrivate writes a file that only this user may read, also if others could read it before.
func writePrivate(file string, content []byte) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// newCertificate makes a certificate for this machine's loopback address, signed by itself.
func newCertificate(key *ecdsa.PrivateKey) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "kubetest"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           []net.IP{net.ParseIP(ports.Host)},
		DNSNames:              []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
