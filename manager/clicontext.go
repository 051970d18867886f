package manager

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/clicontext"
)

// contradicts says where Config and a context of the nats command line say different things.
func contradicts(c *clicontext.Context, cfg Config, t target) error {
	of := func(field string) string { return fmt.Sprintf("%s of context %q", field, c.Name) }
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
			"and context %q by the other of them: leave the one of Config empty", cfg.Domain, cfg.APIPrefix, c.Name))
	}
	if cfg.TLS != nil && (c.CA != "" || c.Cert != "") {
		errs = append(errs, fmt.Errorf("Config.TLS and context %q both say how TLS is done: leave one of them empty",
			c.Name))
	}
	return errors.Join(errs...)
}
