package setup

import (
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Role is what a user of one role may do.
type Role struct {
	Role entity.Role `json:"role"`
	Does string      `json:"does"`
	// InboxPrefix is that of its connection; "" for one that only answers.
	InboxPrefix string `json:"inboxPrefix,omitempty"`
	entity.PermissionSet
}

// Rights are those of all roles, for the kinds of some definitions together.
type Rights struct {
	Roles []Role `json:"roles"`
	// Kubernetes are the rules for what controllers own and watch there, and Unknown what the registry has of it
	// without its resource.
	Kubernetes []kubeapi.Rule `json:"kubernetes,omitempty"`
	Unknown    []string       `json:"unknown,omitempty"`
}

const (
	// RoleService is the user of the connection by which a controller is asked.
	RoleService entity.Role = "service"
	// RoleBackup takes snapshots of documents and records, for nagi backup.
	RoleBackup entity.Role = "backup"
)

var does = []struct {
	role entity.Role
	does string
}{
	{entity.RoleBootstrap, "makes the buckets, once"},
	{entity.RoleController, "runs the controllers"},
	{entity.RoleOperator, "works with nagi and the nats command line: reads, changes documents, acts on controllers"},
	{entity.RoleReader, "works with nagi and the nats command line: reads"},
	{entity.RoleWriter, "works with nagi and the nats command line: puts documents"},
	{RoleBackup, "backs up documents and records (nagi backup), and so reads all of both"},
	{RoleService, "answers who asks a controller; its connection is its own"},
}

// RightsOf are the rights of each role. js says where JetStream's API is; nil means where it is by default.
func RightsOf(all []Definition, js jetstream.JetStream) (*Rights, error) {
	rights := &Rights{}
	for _, r := range does {
		one := Role{Role: r.role, Does: r.does}
		for i := range all {
			set, err := all[i].role(r.role, js)
			if err != nil {
				return nil, err
			}
			one.PermissionSet = one.Join(set)
		}
		if r.role != RoleService {
			one.InboxPrefix = "_INBOX_" + string(r.role)
		}
		if len(one.Publish)+len(one.Subscribe) > 0 {
			rights.Roles = append(rights.Roles, one)
		}
	}
	for i := range all {
		rights.kube(all[i].Owns, "get", "list", "watch", "create", "patch", "delete")
		rights.kube(all[i].Watches, "list", "watch")
	}
	return rights, nil
}

func (r *Rights) kube(resources []registry.Resource, verbs ...string) {
	for _, of := range resources {
		switch {
		case of.In != registry.InKubernetes:
		case of.Resource == "":
			r.Unknown = append(r.Unknown, of.Name)
		default:
			gr := schema.GroupResource{Group: of.Group, Resource: of.Resource}
			r.Kubernetes = kubeapi.AddRule(r.Kubernetes, gr, verbs)
		}
	}
}

// role is what a user of a role needs for one kind, as PermissionsOf of its controller says.
func (d *Definition) role(role entity.Role, js jetstream.JetStream) (set entity.PermissionSet, err error) {
	if role == RoleService {
		if d.NoService {
			return set, nil
		}
		return d.service().Permissions()
	}
	opts := []entity.PermissionOption{entity.WithInboxPrefix("_INBOX_" + string(role))}
	if js != nil {
		opts = append(opts, entity.WithAPIOf(js))
	}
	if role == RoleBackup {
		return d.backup(opts)
	}
	if role == entity.RoleReader || role == entity.RoleOperator || role == entity.RoleWriter {
		opts = append(opts, entity.WithCommandLine())
	}
	sum := sets{of: &set, opts: opts}
	sum.add(d.Config(), role)
	for _, r := range d.Owns {
		d.resource(&sum, role, r, true)
	}
	for _, r := range d.Watches {
		d.resource(&sum, role, r, false)
	}
	d.beside(&sum, role, js)
	return set, sum.err
}

// backup is what takes snapshots of the streams, and finds them in the registry.
func (d *Definition) backup(opts []entity.PermissionOption) (set entity.PermissionSet, err error) {
	// Who makes a stream looks at it, under the same prefix, and hears answers.
	looks, err := entity.Permissions(d.Config(), entity.RoleBootstrap, opts...)
	if err != nil {
		return set, err
	}
	set.Subscribe = looks.Subscribe
	for _, subject := range looks.Publish {
		before, stream, creates := strings.Cut(subject, "STREAM.CREATE.")
		if !creates {
			set.Publish = append(set.Publish, subject)
			continue
		}
		set.Publish = append(set.Publish, before+"STREAM.SNAPSHOT."+stream, "$JS.SNAPSHOT.ACK."+stream+".>")
	}
	if d.NoRegistry {
		return set.Join(), nil
	}
	kinds, err := registry.Permissions(entity.RoleReader, opts...)
	return set.Join(kinds), err
}

// sets joins sets of permissions, until one fails.
type sets struct {
	of   *entity.PermissionSet
	opts []entity.PermissionOption
	err  error
}

func (s *sets) add(cfg entity.Config, role entity.Role, more ...entity.PermissionOption) {
	set, err := entity.Permissions(cfg, role, append(more, s.opts...)...)
	s.join(set, err)
}

func (s *sets) join(set entity.PermissionSet, err error) {
	if s.err == nil {
		*s.of, s.err = s.of.Join(set), err
	}
}

// resource adds what is needed for what the kind owns or watches.
func (d *Definition) resource(sum *sets, role entity.Role, r registry.Resource, owned bool) {
	if r.In != registry.InNATS {
		return
	}
	cfg := d.other(r)
	switch role {
	case entity.RoleBootstrap:
		sum.add(cfg, role)
	case entity.RoleReader, entity.RoleOperator: // an operator changes nothing of it
		sum.add(cfg, entity.RoleReader)
	case entity.RoleController:
		sum.add(cfg, entity.RoleReader, entity.WithConsumerDelete())
		if owned {
			sum.add(cfg, entity.RoleWriter)
		}
	}
}

// beside adds what is needed for the registry, the events and the services API.
func (d *Definition) beside(sum *sets, role entity.Role, js jetstream.JetStream) {
	if !d.NoRegistry {
		kinds := d.kinds()
		switch role {
		case entity.RoleBootstrap:
			sum.add(kinds, role)
		case entity.RoleReader, entity.RoleOperator:
			sum.add(kinds, entity.RoleReader)
		case entity.RoleController:
			kinds.Filter = registry.Key(d.Kind, d.APIVersion)
			sum.add(kinds, entity.RoleOperator)
		}
	}
	if !d.NoEvents {
		events := d.events(js)
		var publish []string
		switch role {
		case entity.RoleBootstrap:
			publish = events.SetUpSubjects()
		case entity.RoleController:
			publish = events.RecordSubjects()
		case entity.RoleReader, entity.RoleOperator:
			publish = events.ListSubjects()
		}
		sum.join(entity.PermissionSet{Publish: publish}, nil)
	}
	if d.NoService {
		return
	}
	switch role {
	case entity.RoleReader, entity.RoleOperator:
		sum.join(d.service().CallerPermissions(role, sum.opts...))
	case entity.RoleController: // for suspend and resume
		sum.add(d.Config(), entity.RoleWriter)
	}
}

// NATS are the rights as configuration of nats-server: each role is a variable.
func (r *Rights) NATS() string {
	var b strings.Builder
	b.WriteString("# Permissions for nats-server, printed by nagi bootstrap. Include it, and give each user a role:\n" +
		"#   { user: someone, password: …, permissions: $nagi_reader }\n" +
		"# nats-server refuses a variable that is not used: delete the roles that nobody has.\n")
	for _, role := range r.Roles {
		fmt.Fprintf(&b, "\n# %s %s.", role.Role, role.Does)
		if role.InboxPrefix != "" {
			fmt.Fprintf(&b, " Its inbox prefix: %s", role.InboxPrefix)
		}
		b.WriteString("\n" + strings.Replace(role.NATS(), "permissions: {", "nagi_"+string(role.Role)+" = {", 1))
	}
	return b.String()
}

// RBAC is a ClusterRole for Kubernetes; "" if nothing is needed there.
func (r *Rights) RBAC(name string) string { return kubeapi.ClusterRole(name, r.Kubernetes) }
