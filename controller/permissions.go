package controller

import (
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Permissions is what a controller needs, with all its sources. NATS() prints that for NATS, and ClusterRole that for
// Kubernetes.
type Permissions struct {
	// PermissionSet is what the controller's user may publish and subscribe to in NATS.
	entity.PermissionSet
	// Kubernetes are the rules for the resources of the Kubernetes sources.
	Kubernetes []KubernetesRule
	// Unknown names the Kubernetes sources whose resource is unknown: they have no deleter that knows it. Their
	// informers need list and watch.
	Unknown []string
}

// KubernetesRule is a rule of a Role or ClusterRole, as rbacv1.PolicyRule is. Its fields are APIGroups, Resources and
// Verbs, of strings.
type KubernetesRule = kubeapi.Rule

// ClusterRole returns the rules as a manifest in YAML; "" if there are none. For a controller of one namespace make it
// a Role.
func (p Permissions) ClusterRole(name string) string { return kubeapi.ClusterRole(name, p.Kubernetes) }

// Permissions returns what the controller itself needs: to read the primaries, to read and write its status bucket, to
// read what it watches, and to read and write what it owns. What the reconciler does beside that is yours to add (see
// [entity.PermissionSet.Join]), and so is what a recorder of events needs. It assumes that the buckets exist, which is
// what entity.RoleBootstrap is for.
//
// The inbox is that of the client's connection, unless [entity.WithInboxPrefix] says otherwise: give the connection a
// prefix of its own (nats.CustomInboxPrefix, or InboxPrefix of a manager's Config), such as "_INBOX_controller", or the
// user hears the answers to everybody. For a client that does not tell its connection it is "_INBOX_controller".
func (c *Controller[T]) Permissions(opts ...entity.PermissionOption) (Permissions, error) {
	if js := c.client.EnginePort().JetStream(); js != nil {
		opts = append([]entity.PermissionOption{entity.WithAPIOf(js), entity.WithInboxOf(js.Conn())}, opts...)
	}
	opts = append([]entity.PermissionOption{entity.WithInboxPrefix("_INBOX_controller")}, opts...)
	set, err := entity.Permissions(c.client.Config(), entity.RoleController, opts...)
	all := Permissions{PermissionSet: set}
	for _, s := range c.engine.Sources() {
		if err != nil {
			return Permissions{}, err
		}
		err = all.add(s, opts)
	}
	for _, beside := range c.engine.Beside() {
		if err == nil {
			err = all.add(beside, opts)
		}
	}
	if err != nil {
		return Permissions{}, err
	}
	return all, nil
}

// add adds what a source needs, other than that of the primaries, or what runs beside the reconciles.
func (p *Permissions) add(s any, opts []entity.PermissionOption) error {
	switch s := s.(type) {
	case source.NeedsRights:
		set, err := s.Rights(opts...)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		p.PermissionSet = p.Join(set)
	case *kubesource.Source:
		resource, verbs, ok := s.Access()
		if !ok {
			p.Unknown = append(p.Unknown, fmt.Sprint(s))
			return nil
		}
		p.Kubernetes = kubeapi.AddRule(p.Kubernetes, resource.GroupResource(), verbs)
	}
	return nil
}
