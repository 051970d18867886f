// Package conn connects as the nats command line does: as flags say, then the environment, then the context that is
// selected, then to the server of this machine.
//
// The rule: whoever can use the nats command line can use this tool, with nothing to set up. Flags and variables have
// the names that they have there.
package conn

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/clicontext"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/pflag"
	"github.com/synadia-io/orbit.go/natscontext"
)

// Flags say where to connect, and as whom. The zero value means what the environment and the selected context say.
type Flags struct {
	Context                string
	Server                 string
	User, Password, Token  string
	Creds, NKey            string
	TLSCert, TLSKey, TLSCA string
	InboxPrefix            string
	Domain, APIPrefix      string
	Timeout                time.Duration
	Options                []nats.Option // come last
}

// flag is a flag, and the variable of the environment that has its default.
type flag struct {
	to                   *string
	name, short, env, is string
}

func (f *Flags) all() []flag {
	return []flag{
		{&f.Context, "context", "", "NATS_CONTEXT", "context of the nats command line to connect with"},
		{&f.Server, "server", "s", "NATS_URL", "URLs of NATS servers, with commas between"},
		{&f.User, "user", "", "NATS_USER", "user, or a token"},
		{&f.Password, "password", "", "NATS_PASSWORD", "password of the user"},
		{&f.Token, "token", "", "NATS_TOKEN", "token instead of a user"},
		{&f.Creds, "creds", "", "NATS_CREDS", "file with the user's credentials"},
		{&f.NKey, "nkey", "", "NATS_NKEY", "file with the user's NKey"},
		{&f.TLSCert, "tlscert", "", "NATS_CERT", "file with the client's certificate"},
		{&f.TLSKey, "tlskey", "", "NATS_KEY", "file with the key of that certificate"},
		{&f.TLSCA, "tlsca", "", "NATS_CA", "file with the authorities that sign the server's certificate"},
		{&f.InboxPrefix, "inbox-prefix", "", "NATS_INBOX_PREFIX", "prefix of the subjects on which answers come"},
		{&f.Domain, "js-domain", "", "NATS_JS_DOMAIN", "domain of JetStream"},
		{&f.APIPrefix, "js-api-prefix", "", "NATS_JS_API_PREFIX", "prefix of JetStream's API"},
	}
}

// Register adds the flags to a set.
func (f *Flags) Register(set *pflag.FlagSet) {
	for _, one := range f.all() {
		set.StringVarP(one.to, one.name, one.short, "", fmt.Sprintf("%s ($%s)", one.is, one.env))
	}
	set.DurationVar(&f.Timeout, "timeout", 0, "how long to wait for an answer ($NATS_TIMEOUT, else 5s)")
}

// Complete fills in what the environment says. A flag comes before it.
func (f *Flags) Complete() error {
	byFlag := f.Server != "" || f.Context != ""
	for _, one := range f.all() {
		if *one.to != "" || byFlag && (one.to == &f.Server || one.to == &f.Context) {
			continue
		}
		*one.to = os.Getenv(one.env)
	}
	if f.Timeout == 0 {
		f.Timeout = 5 * time.Second
		if s := os.Getenv("NATS_TIMEOUT"); s != "" {
			d, err := time.ParseDuration(s)
			if err != nil {
				return fmt.Errorf("NATS_TIMEOUT is %q, which is no duration: write it as 5s", s)
			}
			f.Timeout = d
		}
	}
	if f.Timeout < 0 {
		return fmt.Errorf("--timeout is %v, and must be more than 0: write it as 5s", f.Timeout)
	}
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return fmt.Errorf("there is one of --tlscert and --tlskey: give both")
	}
	return kvstream.CheckAPI(f.Domain, f.APIPrefix)
}

// Connect connects, and waits no longer than the timeout.
func (f *Flags) Connect() (*nats.Conn, jetstream.JetStream, error) {
	name := f.Context
	if name == "" {
		selected, err := clicontext.Selected()
		if err != nil {
			return nil, nil, err
		}
		name = selected
	}
	domain, prefix := f.Domain, f.APIPrefix
	var nc *nats.Conn
	if name == "" {
		server := cmp.Or(f.Server, nats.DefaultURL)
		opts, err := f.options(nil)
		if err != nil {
			return nil, nil, err
		}
		if nc, err = nats.Connect(server, opts...); err != nil {
			return nil, nil, f.unconnected(server, "", err)
		}
	} else {
		c, err := clicontext.Read(name)
		if err != nil {
			return nil, nil, err
		}
		opts, err := f.options(c)
		if err != nil {
			return nil, nil, err
		}
		if nc, _, err = natscontext.Connect(c.Path, opts...); err != nil {
			return nil, nil, f.unconnected(cmp.Or(f.Server, c.URL), c.Name, err)
		}
		if domain == "" && prefix == "" {
			domain, prefix = c.JSDomain, c.JSAPIPrefix
		}
	}
	js, err := newJetStream(nc, domain, prefix)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, js, nil
}

func newJetStream(nc *nats.Conn, domain, prefix string) (jetstream.JetStream, error) {
	switch {
	case domain != "":
		return jetstream.NewWithDomain(nc, domain)
	case prefix != "":
		return jetstream.NewWithAPIPrefix(nc, prefix)
	}
	return jetstream.New(nc)
}

// options are those of the connection. What a flag says takes the place of what the context says.
func (f *Flags) options(c *clicontext.Context) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name("nagi"), nats.Timeout(f.Timeout), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		// Who waits for an answer is told of it; nothing is to be printed between the lines of an output.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if c != nil && f.Server != "" {
		servers := strings.Split(f.Server, ",")
		opts = append(opts, func(o *nats.Options) error { o.Url, o.Servers = "", servers; return nil })
	}
	who, err := f.who()
	if err != nil {
		return nil, err
	}
	opts = append(opts, who...)
	if f.TLSCert != "" {
		opts = append(opts, nats.ClientCert(f.TLSCert, f.TLSKey))
	}
	if f.TLSCA != "" {
		opts = append(opts, nats.RootCAs(f.TLSCA))
	}
	if f.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(f.InboxPrefix))
	}
	return append(opts, f.Options...), nil
}

// who are the options that say who the user is. If flags do, the context's user is forgotten.
func (f *Flags) who() (opts []nats.Option, err error) {
	var said []string
	if f.User != "" {
		said = append(said, "--user")
		if f.Password == "" {
			opts = append(opts, nats.Token(f.User)) // as the nats command line does
		} else {
			opts = append(opts, nats.UserInfo(f.User, f.Password))
		}
	}
	if f.Token != "" {
		said, opts = append(said, "--token"), append(opts, nats.Token(f.Token))
	}
	if f.Creds != "" {
		said, opts = append(said, "--creds"), append(opts, nats.UserCredentials(f.Creds))
	}
	if f.NKey != "" {
		seed, err := nats.NkeyOptionFromSeed(f.NKey)
		if err != nil {
			return nil, fmt.Errorf("--nkey %s: %w", f.NKey, err)
		}
		said, opts = append(said, "--nkey"), append(opts, seed)
	}
	if len(said) > 1 {
		return nil, fmt.Errorf("%s all say who connects: give one of them", strings.Join(said, " and "))
	}
	if len(said) == 1 {
		forget := func(o *nats.Options) error {
			o.User, o.Password, o.Token, o.Nkey, o.UserJWT, o.SignatureCB = "", "", "", "", nil, nil
			return nil
		}
		opts = append([]nats.Option{forget}, opts...)
	}
	return opts, nil
}

// Unconnected is the error where no server could be reached, or none that takes the user.
type Unconnected struct {
	Err error
	at  string
}

func (e *Unconnected) Error() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return fmt.Sprintf("connect to %s: %v: --creds and the like, or the context, name that file", e.at, e.Err)
	}
	return fmt.Sprintf("connect to %s: %v: is the server there? --server, --context or NATS_URL say where", e.at, e.Err)
}

// Unwrap returns what the client library said.
func (e *Unconnected) Unwrap() error { return e.Err }

func (f *Flags) unconnected(servers, contextName string, err error) error {
	at := redacted(servers)
	if contextName != "" {
		at += fmt.Sprintf(" (context %q)", contextName)
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		// It quotes the URL, and that may have a password.
		err = errors.New("it is no URL of a server; in a password write @ : / % as %40 %3A %2F %25")
	}
	return &Unconnected{err, at}
}

// redacted are URLs without users and passwords.
func redacted(servers string) string {
	var shown []string
	for s := range strings.SplitSeq(servers, ",") {
		scheme, rest, ok := strings.Cut(s, "://")
		if !ok {
			scheme, rest = "nats", s
		}
		if i := strings.LastIndex(rest, "@"); i >= 0 {
			rest = rest[i+1:]
		}
		shown = append(shown, scheme+"://"+rest)
	}
	return strings.Join(shown, ",")
}
