package entity

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Role is what a user of NATS does with the entities of one Config. [Permissions] says what it needs.
type Role string

// The roles. What each of them can do to the others is in docs/security.md.
const (
	// RoleWriter puts and deletes documents with plain publishes, such as jetstream.Publish or nats req, and reads
	// nothing. [InNamespace] confines it to one namespace. nats kv put needs [WithCommandLine]. A writer that uses a
	// [Client] needs [RoleReader] too: join the sets.
	RoleWriter Role = "writer"
	// RoleReader reads, lists and watches documents and records. It sees the whole of both buckets, every namespace
	// included: NATS cannot confine the requests that a correct cache needs. Who is to see one namespace only reads
	// over an import of another account (docs/security.md).
	RoleReader Role = "reader"
	// RoleController runs the controller whose primaries these are: it reads documents, and reads and writes the status
	// bucket. It writes no documents. What its sources need is in Permissions of a Controller.
	RoleController Role = "controller"
	// RoleOperator reads documents and records, releases the brake, and changes documents, to suspend them for
	// instance.
	RoleOperator Role = "operator"
	// RoleBootstrap creates the buckets. With its rights NewClient is called once, before all others; they bind.
	RoleBootstrap Role = "bootstrap"
)

// PermissionSet is what a user of NATS may publish and subscribe to. What is not listed is denied.
type PermissionSet struct {
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
}

// Join returns the set of a user who has several roles: sorted, each line once, and none that another one covers.
func (p PermissionSet) Join(others ...PermissionSet) PermissionSet {
	out := PermissionSet{Publish: slices.Clone(p.Publish), Subscribe: slices.Clone(p.Subscribe)}
	for _, other := range others {
		out.Publish = append(out.Publish, other.Publish...)
		out.Subscribe = append(out.Subscribe, other.Subscribe...)
	}
	out.Publish, out.Subscribe = compacted(out.Publish), compacted(out.Subscribe)
	return out
}

// sharedInbox is where a connection without a prefix of its own gets answers.
const sharedInbox = "_INBOX.>"

// NATS returns the set as it stands in the configuration of nats-server, beside a user's name and password. A comment
// warns of a user who is to hear the answers to everybody, which is so if its connection has no inbox prefix.
func (p PermissionSet) NATS() string {
	var b strings.Builder
	if slices.Contains(p.Subscribe, sharedInbox) {
		b.WriteString("# This user hears the answers to all who connect without an inbox prefix. Give it its own:\n" +
			"# InboxPrefix of manager.Config, nats.CustomInboxPrefix, or --inbox-prefix of the nats command line.\n")
	}
	b.WriteString("permissions: {\n")
	for _, list := range []struct {
		name     string
		subjects []string
	}{{"publish", p.Publish}, {"subscribe", p.Subscribe}} {
		if len(list.subjects) == 0 { // an empty list of what is allowed would allow all
			fmt.Fprintf(&b, "  %s: { deny: [\">\"] }\n", list.name)
			continue
		}
		fmt.Fprintf(&b, "  %s: { allow: [\n", list.name)
		for _, subject := range list.subjects {
			fmt.Fprintf(&b, "    %s\n", strconv.Quote(subject))
		}
		b.WriteString("  ] }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// compacted sorts subjects and leaves out what another one covers.
func compacted(subjects []string) []string {
	slices.Sort(subjects)
	subjects = slices.Compact(subjects)
	return slices.DeleteFunc(slices.Clone(subjects), func(subject string) bool {
		return slices.ContainsFunc(subjects, func(other string) bool {
			return other != subject && covers(other, subject)
		})
	})
}

// covers reports whether a pattern of subjects matches all that another one matches.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s) || s[i] == ">":
			return false
		case token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

// PermissionOption changes what Permissions returns.
type PermissionOption func(*permissionOptions) error

type permissionOptions struct {
	namespace string
	inbox     string
	api       string
	deletes   bool
	terminal  bool              // the user works with the nats command line
	origins   map[string]string // of mirrors
}

var (
	namespaceName = regexp.MustCompile(`^[-_=a-zA-Z0-9]+$`)
	subjectPrefix = regexp.MustCompile(`^[-_=a-zA-Z0-9]+(\.[-_=a-zA-Z0-9]+)*$`)
	apiSubject    = regexp.MustCompile(`^[-_=$a-zA-Z0-9]+(\.[-_=$a-zA-Z0-9]+)*$`)
)

// InNamespace confines a RoleWriter to the documents of one namespace.
func InNamespace(namespace string) PermissionOption {
	return func(o *permissionOptions) error {
		if !namespaceName.MatchString(namespace) {
			return fmt.Errorf("InNamespace(%q): want letters, digits, '-', '_' and '='", namespace)
		}
		o.namespace = namespace
		return nil
	}
}

// WithInboxPrefix sets the prefix under which the user receives answers. The default is "_INBOX_" and the role. Give
// each user one of its own, and the same to nats.CustomInboxPrefix: users who share a prefix hear each
// other's answers. "_INBOX" is that of everybody who has set none.
func WithInboxPrefix(prefix string) PermissionOption {
	return func(o *permissionOptions) error {
		if !subjectPrefix.MatchString(prefix) {
			return fmt.Errorf("WithInboxPrefix(%q): want tokens of letters, digits, '-', '_' and '=', "+
				"such as \"_INBOX_alice\"", prefix)
		}
		o.inbox = prefix
		return nil
	}
}

// WithInboxOf is [WithInboxPrefix] with the prefix that a connection has, so that its user may hear the answers to it:
// "_INBOX" if it has none of its own.
func WithInboxOf(nc *nats.Conn) PermissionOption {
	own := strings.TrimSuffix(nc.Opts.InboxPrefix, ".")
	return WithInboxPrefix(cmp.Or(own, strings.TrimSuffix(sharedInbox, ".>")))
}

// WithAPIOf is for users whose JetStream context has a domain or an API prefix, as js has.
func WithAPIOf(js jetstream.JetStream) PermissionOption {
	return func(o *permissionOptions) error {
		prefix := strings.TrimSuffix(apiPrefix(js), ".")
		if !apiSubject.MatchString(prefix) {
			return fmt.Errorf("WithAPIOf: the prefix %q of the JetStream API is no subject", prefix)
		}
		o.api = prefix + "."
		return nil
	}
}

// MirrorOf says that a bucket is a mirror of another one, or a stream of which all comes from a source: then its keys
// are under the subjects of the origin, unless a subject transform renames them. Repeat it for the status bucket. Who
// writes needs the rights of the origin, and no role here includes them.
func MirrorOf(mirror, origin string) PermissionOption {
	return func(o *permissionOptions) error {
		if !bucketName.MatchString(mirror) || !bucketName.MatchString(origin) {
			return fmt.Errorf("MirrorOf(%q, %q): a bucket's name consists of letters, digits, '-' and '_'",
				mirror, origin)
		}
		if o.origins == nil {
			o.origins = map[string]string{}
		}
		o.origins[mirror] = origin
		return nil
	}
}

// WithCommandLine is for a writer, a reader or an operator who works with the nats command line, and adds what that
// needs beside what a [Client] does: nats kv get reads with a direct get, which is confined to the keys of the buckets;
// nats kv put and nats kv del look at the stream first; nats kv ls makes a consumer and deletes it. The command line
// has to use the inbox prefix of the set: nats --inbox-prefix=_INBOX_operator, or inbox_prefix in a context.
// docs/security.md says what a direct get can be used for.
func WithCommandLine() PermissionOption {
	return func(o *permissionOptions) error {
		o.terminal = true
		return nil
	}
}

// WithConsumerDelete lets a reader delete consumers, as controllers do, so that none outlives its client. Without it
// the server drops each consumer half a minute after its last use. It is the right to delete everybody's consumers, if
// one knows their names, which are random.
func WithConsumerDelete() PermissionOption {
	return func(o *permissionOptions) error {
		o.deletes = true
		return nil
	}
}
