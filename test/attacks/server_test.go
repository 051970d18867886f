// Package attacks tries what docs/security.md says that nobody can do: each attack from each role, against a controller
// that runs on a server with the configuration that the page shows.
package attacks

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const page = "../../docs/security.md"

// documented returns the configuration file that the page shows.
func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	_, after, ok := strings.Cut(string(text), "```text\n# nats.conf\n")
	conf, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		t.Fatalf("%s shows no nats.conf", page)
	}
	return conf
}

// role is somebody with a user of the documented configuration, or with one more user of the controller's account.
type role struct {
	name     string
	password string
	set      *entity.PermissionSet // nil for a tenant, who is confined by the account alone
	// request is something that the role may send and that the server answers.
	subject, payload string
}

func permissions(
	t *testing.T, cfg entity.Config, r entity.Role, inbox string, opts ...entity.PermissionOption,
) *entity.PermissionSet {
	t.Helper()
	set, err := entity.Permissions(cfg, r, append(opts, entity.WithInboxPrefix("_INBOX_"+inbox))...)
	must(t, err)
	return &set
}

// roles are all that attack, the weakest first. neighbour is the controller of another kind in the same account, and
// pagewriter writes secondaries of one namespace; a
// typist reads with the nats command line.
func roles(t *testing.T) []role {
	t.Helper()
	ns1 := entity.InNamespace("ns1")
	neighbour := permissions(t, themes, entity.RoleController, "neighbour")
	return []role{
		{name: "tenant1", password: "change me 6", subject: "$KV.sites.ns1.mine", payload: `{}`},
		{name: "writer", password: "change me 5", set: permissions(t, sites, entity.RoleWriter, "writer", ns1),
			subject: "$KV.sites.ns1.mine", payload: `{}`},
		{name: "pagewriter", password: "x", set: permissions(t, pages, entity.RoleWriter, "pagewriter", ns1),
			subject: "$KV.pages.ns1.mine", payload: `{}`},
		{name: "reader", password: "change me 4", set: permissions(t, sites, entity.RoleReader, "reader"),
			subject: "$JS.API.STREAM.INFO.KV_sites"},
		{name: "typist", password: "x", set: permissions(t, sites, entity.RoleReader, "typist", entity.WithCommandLine()),
			subject: "$JS.API.STREAM.INFO.KV_sites"},
		{name: "operator", password: "change me 3", set: permissions(t, sites, entity.RoleOperator, "operator"),
			subject: "$KV.sites.ns1.mine", payload: `{}`},
		{name: "neighbour", password: "x", set: neighbour, subject: "$KV.themes-status.mine", payload: `{}`},
		{name: "bootstrap", password: "change me 1", set: permissions(t, sites, entity.RoleBootstrap, "bootstrap"),
			subject: "$JS.API.STREAM.INFO.KV_sites"},
	}
}

// configure writes the documented configuration with its includes, and adds users that it has no place for.
func configure(t *testing.T, controller entity.PermissionSet) *natstest.Server {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	conf := documented(t)
	more := "{ user: admin, password: x }\n"
	for _, r := range roles(t) {
		switch {
		case r.password == "x":
			more += "{ user: " + r.name + ", password: x\n" + r.set.NATS() + "}\n"
		case r.set != nil:
			write(r.name+".conf", r.set.NATS())
		}
	}
	write("controller.conf", controller.NATS())
	const first = "users: [\n"
	if !strings.Contains(conf, first) {
		t.Fatalf("no %q in\n%s", first, conf)
	}
	write("nats.conf", strings.Replace(conf, first, first+more, 1))
	return natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		parsed, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
		if err != nil {
			t.Fatal(err)
		}
		o.Accounts, o.Users = parsed.Accounts, parsed.Users
	}))
}

// connect connects as a user of a role; denied gets what the server refuses.
func connect(t *testing.T, srv *natstest.Server, user, password string) (js jetstream.JetStream, denied chan string) {
	t.Helper()
	denied = make(chan string, 100)
	_, js = natstest.Connect(t, srv.URL(), nats.UserInfo(user, password), nats.CustomInboxPrefix("_INBOX_"+user),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case denied <- err.Error():
			default:
			}
		}))
	return js, denied
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// ask sends a request and returns its answer; nil if there is none within a moment.
func ask(t *testing.T, js jetstream.JetStream, subject string, payload string) *nats.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	msg, err := js.Conn().RequestWithContext(ctx, subject, []byte(payload))
	if err != nil {
		return nil
	}
	return msg
}
