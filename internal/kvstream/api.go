package kvstream

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// CheckAPI refuses a domain of JetStream, or a prefix of its API, which no subject can have: a request would go to a
// subject that no server listens on, and time out. nats.go and the servers do not refuse it.
func CheckAPI(domain, prefix string) error {
	if domain != "" && (strings.Contains(domain, ".") || !isSubject(domain)) {
		return fmt.Errorf("the JetStream domain %q is no name of a domain: it is one token of a subject, as the "+
			"server's configuration has it (jetstream { domain: hub }), without dots, spaces, '*' and '>'", domain)
	}
	if prefix != "" && !isSubject(strings.TrimSuffix(prefix, ".")) {
		return fmt.Errorf("the prefix of the JetStream API %q is no subject, as JS.hub.API is one: tokens with dots "+
			"between them, without spaces, '*' and '>'", prefix)
	}
	return nil
}

// CheckJetStream is CheckAPI for what a user has made.
func CheckJetStream(js jetstream.JetStream) error {
	if js == nil {
		return errors.New("there is no JetStream context")
	}
	o := js.Options()
	return CheckAPI(o.Domain, o.APIPrefix)
}

// isSubject reports whether a subject has tokens, and no wildcards, spaces or control bytes.
func isSubject(s string) bool {
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || strings.ContainsFunc(token, func(c rune) bool {
			return c <= ' ' || c == 0x7f || c == '*' || c == '>'
		}) {
			return false
		}
	}
	return true
}
