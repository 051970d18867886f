package manager

import (
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Permissions returns what the process needs: all that its controllers do (see Permissions of a controller), and to
// read and write the key of Config.Lease. Asked is what was added and has a method Permissions, as a controller has. It
// assumes that the buckets exist, which is what entity.RoleBootstrap is for, and for that of leases
// [Config.LeasePermissions].
//
// What reconcilers, other runnables and a recorder of events do beside that is yours to add (see
// [entity.PermissionSet.Join]). The default prefix of the inbox is "_INBOX_controller"; give the prefix of
// Config.InboxPrefix with [entity.WithInboxPrefix].
func (m *Manager) Permissions(opts ...entity.PermissionOption) (controller.Permissions, error) {
	m.mu.Lock()
	runnables := m.runnables
	m.mu.Unlock()
	var all controller.Permissions
	api := []entity.PermissionOption{entity.WithAPIOf(m.js)}
	set, err := m.cfg.LeasePermissions(entity.RoleController, append(api, opts...)...)
	if err != nil {
		return controller.Permissions{}, err
	}
	all.PermissionSet = set
	for _, r := range runnables {
		asked, ok := r.Runnable.(interface {
			Permissions(...entity.PermissionOption) (controller.Permissions, error)
		})
		if !ok {
			continue
		}
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
	return all, nil
}

// LeasePermissions returns what Config.Lease needs in NATS: for entity.RoleController to read and write its key, and
// for entity.RoleBootstrap to make the bucket, once, before all others, which bind. Without a lease that is nothing.
// Who may write the key can keep the process from leading, and no more than that: the controllers' own leases keep two
// replicas apart. The default prefix of the inbox is that of entity.Permissions; for a controller's role
// "_INBOX_controller".
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
		opts = append([]entity.PermissionOption{entity.WithInboxPrefix("_INBOX_controller")}, opts...)
	}
	return entity.Permissions(bucket, role, opts...)
}
