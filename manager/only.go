package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/klog/v2"
)

// Values of Config.Only.
const (
	// OnlyPermissions prints the permissions of each role as configuration of nats-server. No server is needed.
	OnlyPermissions = "permissions"
	// OnlyBuckets makes the buckets that are missing, with safe settings, whatever BindOnly says.
	OnlyBuckets = "buckets"
)

// roleNames are the variables that the roles are printed as, with what a user of each does. A role without a set is
// left out.
var roleNames = []struct {
	role entity.Role
	does string
}{
	{entity.RoleBootstrap, "makes the buckets, once"},
	{entity.RoleController, "runs the controllers"},
	{entity.RoleOperator, "works with the nats command line: reads, changes documents, releases the brake"},
	{entity.RoleReader, "works with the nats command line: reads"},
	{entity.RoleWriter, "works with the nats command line: puts documents"},
}

// runOnly does what Config.Only says in place of running anything, and closes the manager.
func (m *Manager) runOnly(ctx context.Context, out io.Writer) (err error) {
	ending := newDeadlines(m.cfg.GracePeriod)
	defer ending.Stop()
	defer func() {
		m.noteDone(m.present()...)
		err = errors.Join(err, m.callHooks(ending), m.release(ending, false))
	}()
	if m.cfg.Only == OnlyPermissions {
		return m.printPermissions(out)
	}
	return m.setUp(ctx)
}

// setUp makes what the clients have not made.
func (m *Manager) setUp(ctx context.Context) error {
	var errs []error
	for _, r := range m.present() {
		if prepared, ok := r.Runnable.(interface{ SetUp(context.Context) error }); ok {
			errs = append(errs, prepared.SetUp(ctx))
		}
	}
	for _, r := range m.recorders {
		if err := recorder.SetUp(ctx, r); err != nil {
			errs = append(errs, fmt.Errorf("stream of events: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("manager: making the buckets: %w", err)
	}
	klog.FromContext(ctx).Info("All buckets exist, and nothing is run (Config.Only)", "name", m.cfg.Name)
	return nil
}

// printPermissions prints each role as a variable of the configuration.
func (m *Manager) printPermissions(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Permissions for nats-server, printed by %s. Include this file, and give each user its role:\n"+
		"#   { user: someone, password: …, permissions: $nagi_reader }\n"+
		"# nats-server refuses a variable that is not used: delete the roles that nobody has.\n", m.cfg.Name)
	for _, r := range roleNames {
		set, err := m.PermissionsOf(r.role)
		if err != nil {
			return err
		}
		inbox := strings.TrimSuffix(strings.Join(set.Subscribe, ", "), ".>")
		fmt.Fprintf(&b, "\n# %s %s. Its inbox prefix: %s\n", r.role, r.does, inbox)
		b.WriteString(strings.Replace(set.NATS(), "permissions: {", "nagi_"+string(r.role)+" = {", 1))
	}
	if m.cfg.Service != nil {
		set, err := m.cfg.Service.Permissions()
		if err != nil {
			return err
		}
		b.WriteString("\n# service answers who asks; its connection is its own (Config.ServiceAs)\n")
		b.WriteString(strings.Replace(set.NATS(), "permissions: {", "nagi_service = {", 1))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// PermissionsOf returns what a user of NATS needs who has a role towards this process: what all that was added says
// (see PermissionsOf of a controller), and what its lease and its recorders of events need. Sets of writers, readers
// and operators are those for the nats command line (entity.WithCommandLine), with the inbox prefix "_INBOX_" and role;
// that of entity.RoleController is Permissions. Like that it is an error before anything was added. It sends nothing.
func (m *Manager) PermissionsOf(role entity.Role, opts ...entity.PermissionOption) (entity.PermissionSet, error) {
	if role == entity.RoleController {
		all, err := m.Permissions(opts...)
		return all.PermissionSet, err
	}
	if role != entity.RoleBootstrap {
		opts = append([]entity.PermissionOption{entity.WithCommandLine()}, opts...)
	}
	recorders := m.allRecorders()
	var all entity.PermissionSet
	for _, r := range m.present() {
		asked, ok := r.Runnable.(interface {
			PermissionsOf(entity.Role, ...entity.PermissionOption) (entity.PermissionSet, error)
		})
		if !ok {
			continue
		}
		set, err := asked.PermissionsOf(role, opts...)
		if err != nil {
			return entity.PermissionSet{}, fmt.Errorf("manager: permissions of a %s of %s: %w", role, r.name, err)
		}
		all = all.Join(set)
	}
	if len(all.Subscribe) == 0 {
		return entity.PermissionSet{}, errNothingAdded
	}
	if role == entity.RoleBootstrap {
		opts = append([]entity.PermissionOption{entity.WithAPIOf(m.js)}, opts...)
		lease, err := m.cfg.LeasePermissions(role, opts...)
		if err != nil {
			return entity.PermissionSet{}, err
		}
		all = all.Join(lease)
	}
	return all.Join(m.eventRights(role, recorders)), nil
}

// eventRights are what the streams of events need.
func (m *Manager) eventRights(role entity.Role, recorders []recorder.Config) (set entity.PermissionSet) {
	for _, r := range recorders {
		switch role {
		case entity.RoleBootstrap:
			set.Publish = append(set.Publish, r.SetUpSubjects()...)
		case entity.RoleController:
			set.Publish = append(set.Publish, r.RecordSubjects()...)
		case entity.RoleReader, entity.RoleOperator:
			set.Publish = append(set.Publish, r.ListSubjects()...)
		}
	}
	return set
}

var errNothingAdded = errors.New("manager: permissions of a process without a controller: add the controllers before " +
	"(Manager.Add), for it is they who need permissions")

// unconnected is a connection that never tries to connect, for OnlyPermissions: clients and controllers are made over
// it, and send nothing.
func unconnected(cfg Config) (*nats.Conn, jetstream.JetStream, error) {
	at, err := cfg.locate()
	if err != nil {
		return nil, nil, err
	}
	inbox, domain, prefix := cfg.InboxPrefix, cfg.Domain, cfg.APIPrefix
	if c := at.context; c != nil {
		if inbox == "" {
			inbox = c.InboxPrefix
		}
		if domain == "" && prefix == "" {
			domain, prefix = c.JSDomain, c.JSAPIPrefix
		}
	}
	opts := []nats.Option{
		nats.InProcessServer(noServer{}), nats.RetryOnFailedConnect(true), nats.ReconnectWait(24 * time.Hour),
		nats.MaxReconnects(-1), nats.ReconnectJitter(0, 0), nats.IgnoreAuthErrorAbort(),
	}
	if inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(inbox))
	}
	nc, err := nats.Connect("", opts...)
	if err != nil {
		return nil, nil, err
	}
	js, err := newJetStream(nc, domain, prefix)
	return nc, js, err
}

// noServer is never there.
type noServer struct{}

// InProcessConn implements nats.InProcessConnProvider.
func (noServer) InProcessConn() (net.Conn, error) {
	return nil, errors.New("permissions need no server")
}
