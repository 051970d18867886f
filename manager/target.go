package manager

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
)

// The environment variables of the nats command line that are heard if Config says nothing of where to connect.
const (
	urlVariable     = "NATS_URL"
	contextVariable = "NATS_CONTEXT"
)

// target is where to connect, and who said so.
type target struct {
	urls    []string
	from    string // "Config.URL"
	context *cliContext
}

// String names the servers and who said so, without secrets.
func (t target) String() string {
	shown := make([]string, len(t.urls))
	for i, u := range t.urls {
		shown[i] = redacted(u)
	}
	return fmt.Sprintf("%s (%s)", strings.Join(shown, ","), t.from)
}

// locate finds out where to connect: what Config says, then the environment, then the selected context of the nats
// command line, then the server of this machine.
func (c Config) locate() (target, error) {
	fromURL, fromContext := os.Getenv(urlVariable), os.Getenv(contextVariable)
	switch {
	case c.URL != "":
		return c.atURLs(c.URL, "Config.URL")
	case c.Context != "":
		return c.inContext(c.Context, "Config.Context")
	case fromURL != "" && fromContext != "":
		return target{}, fmt.Errorf("the environment variables %s and %s both say where to connect: unset one of them",
			urlVariable, contextVariable)
	case fromURL != "":
		return c.atURLs(fromURL, urlVariable)
	case fromContext != "":
		return c.inContext(fromContext, contextVariable)
	}
	selected, err := selectedContext()
	if err != nil {
		return target{}, err
	}
	if selected != "" {
		return c.inContext(selected, "the selected context of the nats command line")
	}
	return c.atURLs(nats.DefaultURL, "the default, as Config.URL, Config.Context and "+urlVariable+" are empty")
}

// atURLs splits a list of URLs, as nats.go does, and checks each. nats.go's own error would show the password.
func (c Config) atURLs(list, from string) (target, error) {
	t := target{from: from}
	who := c.who()
	for _, u := range strings.Split(list, ",") {
		u = strings.TrimSpace(u)
		if u == "" {
			continue
		}
		if !strings.Contains(u, "://") {
			u = "nats://" + u
		}
		parsed, err := url.Parse(u)
		if err != nil || parsed.Hostname() == "" {
			return target{}, fmt.Errorf("%s: %q is no URL of a server: write one as nats://host:4222, "+
				"with special characters of a password as %%XX", from, redacted(u))
		}
		if parsed.User != nil && len(t.urls) == 0 {
			who = append(who, "the user in "+from)
		}
		t.urls = append(t.urls, u)
	}
	if len(t.urls) == 0 {
		return target{}, fmt.Errorf("%s %q names no server: write one as nats://host:4222", from, list)
	}
	return t, checkWho(who)
}

// inContext reads a context of the nats command line, and refuses one that contradicts Config.
func (c Config) inContext(name, from string) (target, error) {
	found, err := readContext(name)
	if err != nil {
		return target{}, fmt.Errorf("%s: %w", from, err)
	}
	t, err := Config{}.atURLs(found.URL, fmt.Sprintf("context %q, %s", name, from))
	t.context = found
	return t, errors.Join(err, found.contradicts(c, t))
}

// redacted is a URL as logs and errors may show it. nats.go takes a user without a password for a token.
func redacted(u string) string {
	parsed, err := url.Parse(u)
	switch {
	case err == nil && parsed.User == nil:
		return u
	case err == nil:
		if _, hasPassword := parsed.User.Password(); !hasPassword {
			parsed.User = url.User("xxxxx")
		}
		return parsed.Redacted()
	}
	scheme, rest, found := strings.Cut(u, "://")
	if !found {
		scheme, rest = "nats", u
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "xxxxx" + rest[at:]
	}
	return scheme + "://" + rest
}
