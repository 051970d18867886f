package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// identity returns a new key pair of a kind, and its public key.
func identity(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

// guarded starts a server that wants credentials, and returns a file with valid ones.
func guarded(t *testing.T) (started *natstest.Server, creds string) {
	t.Helper()
	operator, operatorID := identity(t, nkeys.CreateOperator)
	account, accountID := identity(t, nkeys.CreateAccount)
	_, systemID := identity(t, nkeys.CreateAccount)
	user, userID := identity(t, nkeys.CreateUser)
	encode := func(claims jwt.Claims, by nkeys.KeyPair) string {
		token, err := claims.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	operatorClaims := jwt.NewOperatorClaims(operatorID)
	operatorClaims.SystemAccount = systemID
	accountClaims := jwt.NewAccountClaims(accountID)
	accountClaims.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1,
	}
	resolver := &server.MemAccResolver{}
	for id, claims := range map[string]*jwt.AccountClaims{
		accountID: accountClaims, systemID: jwt.NewAccountClaims(systemID),
	} {
		if err := resolver.Store(id, encode(claims, operator)); err != nil {
			t.Fatal(err)
		}
	}
	trusted, err := jwt.DecodeOperatorClaims(encode(operatorClaims, operator))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	content, err := jwt.FormatUserConfig(encode(jwt.NewUserClaims(userID), account), seed)
	if err != nil {
		t.Fatal(err)
	}
	creds = filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(creds, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.TrustedOperators = []*jwt.OperatorClaims{trusted}
		o.SystemAccount = systemID
		o.AccountResolver = resolver
	})), creds
}

func TestCredentialsOpenAGuardedServer(t *testing.T) {
	t.Parallel()
	started, creds := guarded(t)
	if out, err := quickstart(t, "-url", started.URL()).CombinedOutput(); err == nil {
		t.Fatalf("it was let in without credentials:\n%s", out)
	}
	out, err := quickstart(t, "-url", started.URL(), "-creds", creds).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "steps hold") {
		t.Fatalf("exit: %v\n%s", err, out)
	}
}
