package manager

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nagi-runtime/nagi/internal/clicontext"
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
	context *clicontext.Context
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
	selected, err := clicontext.Selected()
	if err != nil {
		return target{}, err
	}
	if selected != "" {
		return c.inContext(selected, "the selected context of the nats command line")
	}
	return c.atURLs(nats.DefaultURL, "the default, as Config.URL, Config.Context and "+urlVariable+" are empty")
}

// atURLs splits a list of URLs, as nats.go does, and checks each. Nothing that is no URL is told: what stands there may
// be a part of a password, which a comma, a # or a / has cut off. Nor is nats.go asked, whose error would tell it.
func (c Config) atURLs(list, from string) (target, error) {
	t := target{from: from}
	number, withUser := 0, 0
	for _, u := range strings.Split(list, ",") {
		number++
		u = strings.TrimSpace(u)
		if u == "" {
			continue
		}
		if !strings.Contains(u, "://") {
			u = "nats://" + u
		}
		parsed, ok := parseURL(u)
		if !ok {
			return target{}, fmt.Errorf("%s: number %d of what commas part is no URL of a server: write it as "+
				"nats://host:4222, and %s", from, number, writeSpecial)
		}
		if parsed.User != nil {
			withUser++
		}
		t.urls = append(t.urls, u)
	}
	switch {
	case len(t.urls) == 0:
		return target{}, fmt.Errorf("%s %q names no server: write one as nats://host:4222", from, list)
	case withUser > 0 && withUser < len(t.urls):
		return target{}, fmt.Errorf("%s: %d of the %d URLs have a user: give it to all of them, or to none and "+
			"set Config.User; and %s", from, withUser, len(t.urls), writeSpecial)
	}
	who := c.who()
	if withUser > 0 {
		who = append(who, "the user in "+from)
	}
	return t, checkWho(who)
}

const writeSpecial = "write special characters of a password as %XX: a comma as %2C, # as %23, / as %2F, @ as %40"

// parseURL parses the URL of a server. It takes nothing that may be a user or password which a special character has
// put elsewhere.
func parseURL(u string) (parsed *url.URL, ok bool) {
	parsed, err := url.Parse(u)
	if err != nil || parsed.Hostname() == "" || strings.ContainsAny(u, "?#") {
		return nil, false
	}
	switch parsed.Scheme {
	case "nats", "tls":
		return parsed, parsed.Path == "" || parsed.Path == "/"
	case "ws", "wss":
		return parsed, !strings.Contains(parsed.Path, "@")
	}
	return nil, false
}

// inContext reads a context of the nats command line, and refuses one that contradicts Config.
func (c Config) inContext(name, from string) (target, error) {
	found, err := clicontext.Read(name)
	if err != nil {
		return target{}, fmt.Errorf("%s: %w", from, err)
	}
	t, err := Config{}.atURLs(found.URL, fmt.Sprintf("context %q, %s", name, from))
	t.context = found
	return t, errors.Join(err, contradicts(found, c, t))
}
