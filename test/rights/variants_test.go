// Package rights tests the permission sets of packages entity and controller: that each is enough for all that its role
// does, and that without any line of it something is denied.
package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a job may take. A denial ends it at once.
const patience = 40 * time.Second

// variant is a permission set, of which perhaps a line is missing.
type variant struct {
	without string // the line that was taken away; "" for the whole set
	set     entity.PermissionSet
}

// variantsOf returns the set, and the set without each of its lines.
func variantsOf(set entity.PermissionSet) []variant {
	all := []variant{{set: set}}
	add := func(without string, set entity.PermissionSet) { all = append(all, variant{without, set}) }
	drop := func(lines []string, i int) []string { return slices.Delete(slices.Clone(lines), i, i+1) }
	for i, line := range set.Publish {
		add(line, entity.PermissionSet{Publish: drop(set.Publish, i), Subscribe: set.Subscribe})
	}
	for i, line := range set.Subscribe {
		add(line, entity.PermissionSet{Publish: set.Publish, Subscribe: drop(set.Subscribe, i)})
	}
	return all
}

// serve starts a server with two users: an administrator, and one with a permission set.
func serve(t *testing.T, set entity.PermissionSet) *natstest.Server {
	t.Helper()
	return natstest.Start(t, natstest.WithConfigText(fmt.Sprintf(`accounts: { A: { jetstream: enabled, users: [
{ user: admin, password: x }
{ user: user, password: x
%s}
] } }`, set.NATS())))
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
	for _, v := range variantsOf(set) {
		t.Run("without "+v.without, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) { v.holds(t, j) })
		})
	}
}

func (v variant) holds(t *testing.T, j job) {
	srv := serve(t, v.set)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer time.Sleep(time.Second) // in which all that the job has left ends, a connection that is drained included
	defer cancel()
	_, admin := natstest.Connect(t, srv.URL(), nats.UserInfo("admin", "x"))
	if j.prepare != nil {
		must(t, j.prepare(ctx, admin))
	}
	heard := &denials{first: cancel, quiet: j.quiet}
	nc, user := natstest.Connect(t, srv.URL(), nats.UserInfo("user", "x"),
		nats.CustomInboxPrefix(j.inbox), nats.ErrorHandler(heard.add))
	err := j.do(ctx, user, admin)
	if v.without == "" {
		must(t, nc.Flush())
		if denied := heard.all(); err != nil || len(denied) > 0 {
			t.Errorf("the whole set is not enough: %v, denied %q", err, denied)
		}
		return
	}
	natstest.Eventually(t, "the server denies something, or the job fails", func() bool {
		return err != nil && ctx.Err() == nil || len(heard.all()) > 0
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
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
