package manager

import (
	"cmp"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Permissions returns what the process needs: all that its controllers do (see Permissions of a controller), and to
// read and write the key of Config.Lease, and to record events with what NewRecorder made. Asked is what was added and
// has a method Permissions, as a controller has. It assumes that the buckets exist: see Config.Only.
//
// What reconcilers and other runnables do beside that is yours to add (see [entity.PermissionSet.Join]). The inbox
// is that of the connection: give the process one of its own with Config.InboxPrefix, as "_INBOX_controller", or its
// user hears the answers to everybody.
//
// It is an error to ask before anything with permissions was added: the answer would be that nothing is needed.
func (m *Manager) Permissions(opts ...entity.PermissionOption) (controller.Permissions, error) {
	recorders := m.allRecorders()
	var all controller.Permissions
	opts = append([]entity.PermissionOption{entity.WithAPIOf(m.js), entity.WithInboxOf(m.conn)}, opts...)
	set, err := m.cfg.LeasePermissions(entity.RoleController, opts...)
	if err != nil {
		return controller.Permissions{}, err
	}
	all.PermissionSet = set
	found := false
	for _, r := range m.present() {
		asked, ok := r.Runnable.(interface {
			Permissions(...entity.PermissionOption) (controller.Permissions, error)
		})
		if !ok {
			continue
		}
		found = true
		needs, err := asked.Permissions(opts...)
		if err != nil {
			return controller.Permissions{}, fmt.Errorf("manager: permissions of %s: %w", r.name, err)
		}
		all.PermissionSet = all.Join(needs.PermissionSet)
		for _, rule := range needs.Kubernetes {
			for i, group := range rule.APIGroups {
				resource := schema.GroupResource{Group: group, Resource: rule.Resources[i]} // of one resource each
				all.Kubernetes = kubeapi.AddRule(all.Kubernetes, resource, rule.Verbs)
			}
		}
		all.Unknown = append(all.Unknown, needs.Unknown...)
	}
	if !found {
		return controller.Permissions{}, errNothingAdded
	}
	all.PermissionSet = all.Join(m.eventRights(entity.RoleController, recorders))
	return all, nil
}

// LeasePermissions returns what Config.Lease needs in NATS: for entity.RoleController to read and write its key, and
// for entity.RoleBootstrap to make the bucket, once, before all others, which bind. Without a lease that is nothing.
// Who may write the key can keep the process from leading, and no more than that: the controllers' own leases keep two
// replicas apart. The inbox is that of Config.InboxPrefix for a controller, "_INBOX" if it is empty, and
// "_INBOX_bootstrap" for a bootstrap.
func (c Config) LeasePermissions(role entity.Role, opts ...entity.PermissionOption) (entity.PermissionSet, error) {
	if role != entity.RoleController && role != entity.RoleBootstrap {
		return entity.PermissionSet{}, fmt.Errorf("manager: there are permissions of a lease for the roles %q and %q, "+
			"not for %q", entity.RoleController, entity.RoleBootstrap, role)
	}
	c = c.withDefaults()
	if c.Lease == nil {
		return entity.PermissionSet{}, nil
	}
	if err := c.Lease.validate(); err != nil {
		return entity.PermissionSet{}, fmt.Errorf("manager: %w", err)
	}
	bucket := c.Lease.bucket()
	if role == entity.RoleController {
		// Live reads and writes, and no consumers.
		role, bucket.Filter = entity.RoleOperator, c.Lease.Key
		opts = append([]entity.PermissionOption{entity.WithInboxPrefix(cmp.Or(c.InboxPrefix, "_INBOX"))}, opts...)
	}
	return entity.Permissions(bucket, role, opts...)
}
