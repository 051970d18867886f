package conn

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// guard lets in whom it knows, and notes who that was.
type guard struct {
	user string // public key of a user who signs
	mu   sync.Mutex
	who  string
}

// forget forgets whom it let in, and returns who that was.
func (g *guard) forget() (who string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	who, g.who = g.who, ""
	return who
}

func (g *guard) Check(c server.ClientAuthentication) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	opts := c.GetOpts()
	g.who = ""
	switch {
	case opts.Username == "ann" && opts.Password == "secret":
		g.who = "ann"
	case opts.Token == "ticket":
		g.who = "a token"
	case g.signed(opts, c.GetNonce()) && opts.Nkey == g.user:
		g.who = "a key"
	case g.signed(opts, c.GetNonce()):
		g.who = "credentials" // whose JWT a server without an operator does not hand on
	}
	return g.who != ""
}

func (g *guard) signed(opts *server.ClientOpts, nonce []byte) bool {
	key, err := nkeys.FromPublicKey(g.user)
	if err != nil {
		return false
	}
	sig, err := base64.RawURLEncoding.DecodeString(opts.Sig)
	return err == nil && len(sig) > 0 && key.Verify(nonce, sig) == nil
}

// TestItConnectsAsTheCommandLineDoes: as the variables of the environment, flags and contexts of the nats command line
// say.
func TestItConnectsAsTheCommandLineDoes(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := user.Seed()
	g := &guard{}
	if g.user, err = user.PublicKey(); err != nil {
		t.Fatal(err)
	}
	claims, err := jwt.NewUserClaims(g.user).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(claims, seed)
	if err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.CustomClientAuthentication, o.AlwaysEnableNonce = g, true
	}))
	config := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(config, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	credsFile, keyFile := write("user.creds", creds), write("user.nk", seed)
	write("nats/context/prod.json", fmt.Appendf(nil, `{"url":%q,"creds":%q}`, srv.URL(), credsFile))
	write("nats/context/lab.json", fmt.Appendf(nil, `{"url":%q,"user":"ann","password":"secret"}`, srv.URL()))
	at := map[string]string{"NATS_URL": srv.URL()}
	with := func(more ...string) map[string]string {
		env := map[string]string{}
		for i := 0; i < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	for name, c := range map[string]struct {
		env      map[string]string
		flags    Flags
		selected string
		want     string
	}{
		"NATS_URL and NATS_CREDS":    {env: with("NATS_URL", srv.URL(), "NATS_CREDS", credsFile), want: "credentials"},
		"NATS_NKEY":                  {env: with("NATS_URL", srv.URL(), "NATS_NKEY", keyFile), want: "a key"},
		"NATS_USER":                  {env: with("NATS_URL", srv.URL(), "NATS_USER", "ann", "NATS_PASSWORD", "secret"), want: "ann"},
		"a user alone is a token":    {env: at, flags: Flags{User: "ticket"}, want: "a token"},
		"--token":                    {env: at, flags: Flags{Token: "ticket"}, want: "a token"},
		"--creds":                    {env: at, flags: Flags{Creds: credsFile}, want: "credentials"},
		"--nkey":                     {flags: Flags{Server: srv.URL(), NKey: keyFile}, want: "a key"},
		"--server before NATS_URL":   {env: with("NATS_URL", "nats://127.0.0.1:1"), flags: Flags{Server: srv.URL(), Token: "ticket"}, want: "a token"},
		"NATS_CONTEXT":               {env: with("NATS_CONTEXT", "prod"), want: "credentials"},
		"--context before the other": {env: with("NATS_CONTEXT", "lab"), flags: Flags{Context: "prod"}, want: "credentials"},
		"the selected context":       {selected: "lab", want: "ann"},
		"a flag before a context":    {flags: Flags{Context: "lab", Creds: credsFile}, want: "credentials"},
		"nobody":                     {env: at},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CONFIG_HOME", config)
			for _, one := range new(Flags).all() {
				t.Setenv(one.env, c.env[one.env])
			}
			write("nats/context.txt", []byte(c.selected))
			f := c.flags
			f.Options = []nats.Option{natstest.Dialer()}
			if err := f.Complete(); err != nil {
				t.Fatal(err)
			}
			g.forget()
			nc, _, err := f.Connect()
			if (err == nil) != (c.want != "") {
				t.Fatalf("it connects: %v", err)
			}
			if nc != nil {
				defer nc.Close()
			}
			if who := g.forget(); who != c.want {
				t.Errorf("it is %q, want %q", who, c.want)
			}
		})
	}
}
