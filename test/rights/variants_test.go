// Package rights tests the permission sets of packages entity and controller: that each is enough for all that its role
// does, and that without any line of it something is denied.
package rights

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// patience is how long a job may take. A denial ends it at once.
const patience = 40 * time.Second

// variant is an account with two users: an administrator, and one with a permission set. All variants are accounts of
// one server, so that each has buckets of its own.
type variant struct {
	name    string
	without string // the line that was taken away; "" for the whole set
	set     entity.PermissionSet
}

// variantsOf returns the set, and the set without each of its lines.
func variantsOf(set entity.PermissionSet) []variant {
	all := []variant{{name: "V0", set: set}}
	add := func(without string, set entity.PermissionSet) {
		all = append(all, variant{name: fmt.Sprintf("V%d", len(all)), without: without, set: set})
	}
	drop := func(lines []string, i int) []string { return slices.Delete(slices.Clone(lines), i, i+1) }
	for i, line := range set.Publish {
		add(line, entity.PermissionSet{Publish: drop(set.Publish, i), Subscribe: set.Subscribe})
	}
	for i, line := range set.Subscribe {
		add(line, entity.PermissionSet{Publish: set.Publish, Subscribe: drop(set.Subscribe, i)})
	}
	return all
}

// serve starts a server with a configuration file that has the variants as accounts.
func serve(t *testing.T, variants []variant) *natstest.Server {
	t.Helper()
	var b strings.Builder
	b.WriteString("accounts: {\n")
	for _, v := range variants {
		fmt.Fprintf(&b, "%s: { jetstream: enabled, users: [\n{ user: admin-%s, password: x }\n", v.name, v.name)
		fmt.Fprintf(&b, "{ user: user-%s, password: x\n%s}\n] }\n", v.name, v.set.NATS())
	}
	b.WriteString("}\n")
	file := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		parsed, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		o.Accounts, o.Users = parsed.Accounts, parsed.Users
	}))
}

// denials collects what the server denied a connection.
type denials struct {
	mu     sync.Mutex
	denied []string
	first  func()
	quiet  string // denials of this are part of the job
}

func (d *denials) add(_ *nats.Conn, _ *nats.Subscription, err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) || d.quiet != "" && strings.Contains(err.Error(), d.quiet) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denied = append(d.denied, err.Error())
	d.first()
}

func (d *denials) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.denied)
}

// job is all that a role does. It must end soon after its context.
type job struct {
	inbox   string
	quiet   string // what is denied on purpose
	prepare func(ctx context.Context, admin jetstream.JetStream) error
	do      func(ctx context.Context, user, admin jetstream.JetStream) error
}

// hold checks that a set is enough for a job, and that each line of it is needed.
func hold(t *testing.T, set entity.PermissionSet, j job) {
	variants := variantsOf(set)
	srv := serve(t, variants)
	for _, v := range variants {
		t.Run("without "+v.without, func(t *testing.T) {
			t.Parallel() // it waits
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, admin := natstest.Connect(t, srv.URL(), nats.UserInfo("admin-"+v.name, "x"))
			if j.prepare != nil {
				must(t, j.prepare(ctx, admin))
			}
			heard := &denials{first: cancel, quiet: j.quiet}
			nc, user := natstest.Connect(t, srv.URL(), nats.UserInfo("user-"+v.name, "x"),
				nats.CustomInboxPrefix(j.inbox), nats.ErrorHandler(heard.add))
			err := j.do(ctx, user, admin)
			if v.without == "" {
				must(t, nc.Flush())
				if denied := heard.all(); err != nil || len(denied) > 0 {
					t.Errorf("the whole set is not enough: %v, denied %q", err, denied)
				}
				return
			}
			eventually(t, "the server denies something, or the job fails", func() bool {
				return err != nil && ctx.Err() == nil || len(heard.all()) > 0
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// await polls until the condition holds or ctx ends.
func await(ctx context.Context, what string, holds func() bool) error {
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}
