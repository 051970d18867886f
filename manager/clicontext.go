package manager

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"
)

// cliContext is a context of the nats command line.
//
// Package natscontext connects with it, and the format of the file is its. But it reads only while it connects, so what
// contradicts Config would be found too late, and it passes over what it cannot do: a JWT, nsc, half a key pair. So the
// file is read here first.
type cliContext struct {
	natscontext.Settings
	name string
	path string // absolute
}

// selectedContext is the name of the context that the nats command line has selected; "" if there is none.
func selectedContext() (string, error) {
	dir, err := contextsDir()
	if err != nil {
		return "", nil // without a home there is no selection
	}
	path := filepath.Join(filepath.Dir(dir), "context.txt")
	name, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("which context of the nats command line is selected: %w", err)
	}
	return strings.TrimSpace(string(name)), nil
}

// contextsDir is where the nats command line keeps its contexts, on each system.
func contextsDir() (string, error) {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "nats", "context"), nil
}

func readContext(name string) (*cliContext, error) {
	path := name
	if !filepath.IsAbs(name) {
		if strings.ContainsAny(name, `/\`) || strings.Contains(name, "..") {
			return nil, fmt.Errorf("%q is neither the name of a context of the nats command line nor an absolute path",
				name)
		}
		dir, err := contextsDir()
		if err != nil {
			return nil, fmt.Errorf("find context %q of the nats command line: %w", name, err)
		}
		path = filepath.Join(dir, name+".json")
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no context %q of the nats command line, since there is no file %s: "+
			"nats context ls lists what there is", name, path)
	}
	if err != nil {
		return nil, fmt.Errorf("read context %q of the nats command line: %w", name, err)
	}
	c := &cliContext{name: name, path: path}
	if err := json.Unmarshal(text, &c.Settings); err != nil {
		return nil, fmt.Errorf("read context %q of the nats command line: %s is no such JSON: %w", name, path, err)
	}
	c.URL = cmp.Or(c.URL, nats.DefaultURL)
	return c, c.supported()
}

// supported refuses what natscontext would pass over without a word.
func (c *cliContext) supported() error {
	switch {
	case c.UserJwt != "":
		return fmt.Errorf("context %q has a user_jwt, which is not supported: give it a credentials file (creds)",
			c.name)
	case c.NSCLookup != "":
		return fmt.Errorf("context %q looks its user up with nsc, which is not supported: "+
			"write the credentials file with nsc generate creds, and give it that (creds)", c.name)
	case (c.Cert == "") != (c.Key == ""):
		return fmt.Errorf("context %q has one of cert and key: give it both", c.name)
	case c.JSDomain != "" && c.JSAPIPrefix != "":
		return fmt.Errorf("context %q has a jetstream_domain and a jetstream_api_prefix: leave one of them", c.name)
	}
	if err := kvstream.CheckAPI(c.JSDomain, c.JSAPIPrefix); err != nil {
		return fmt.Errorf("context %q: %w", c.name, err)
	}
	return nil
}

// contradicts says where Config and the context say different things.
func (c *cliContext) contradicts(cfg Config, t target) error {
	of := func(field string) string { return fmt.Sprintf("%s of context %q", field, c.name) }
	who := cfg.who()
	for _, f := range []struct{ name, value string }{
		{"user", c.User}, {"token", c.Token}, {"creds", c.Creds}, {"nkey", c.NKey},
	} {
		if f.value != "" {
			who = append(who, of(f.name))
		}
	}
	if len(t.urls) > 0 && strings.Contains(t.urls[0], "@") {
		who = append(who, of("the user in the url"))
	}
	errs := []error{checkWho(who)}
	for _, f := range []struct{ field, ours, member, theirs string }{
		{"InboxPrefix", cfg.InboxPrefix, "inbox_prefix", c.InboxPrefix},
		{"Domain", cfg.Domain, "jetstream_domain", c.JSDomain},
		{"APIPrefix", cfg.APIPrefix, "jetstream_api_prefix", c.JSAPIPrefix},
		{"CA", cfg.CA, "ca", c.CA},
		{"Cert", cfg.Cert, "cert", c.Cert},
		{"Key", cfg.Key, "key", c.Key},
	} {
		if f.ours != "" && f.theirs != "" && f.ours != f.theirs {
			errs = append(errs, fmt.Errorf("field Config.%s is %q, and %s is %q: leave one of them empty",
				f.field, f.ours, of(f.member), f.theirs))
		}
	}
	if cfg.Domain != "" && c.JSAPIPrefix != "" || cfg.APIPrefix != "" && c.JSDomain != "" {
		errs = append(errs, fmt.Errorf("the Config says where JetStream is by Domain (%q) or APIPrefix (%q), "+
			"and context %q by the other of them: leave the one of Config empty", cfg.Domain, cfg.APIPrefix, c.name))
	}
	if cfg.TLS != nil && (c.CA != "" || c.Cert != "") {
		errs = append(errs, fmt.Errorf("Config.TLS and context %q both say how TLS is done: leave one of them empty",
			c.name))
	}
	return errors.Join(errs...)
}
