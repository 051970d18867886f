package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Permissions is what a controller needs, with all its sources. NATS() prints that for NATS, and ClusterRole that for
// Kubernetes.
type Permissions struct {
	// PermissionSet is what the controller's user may publish and subscribe to in NATS.
	entity.PermissionSet
	// Kubernetes are the rules for the resources of the Kubernetes sources.
	Kubernetes []KubernetesRule
	// Unknown names the Kubernetes sources whose resource nobody knows: they have no deleter that knows it. Their
	// informers need list and watch.
	Unknown []string
}

// KubernetesRule is a rule of a Role or ClusterRole, as rbacv1.PolicyRule is.
type KubernetesRule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// ClusterRole returns the rules as a manifest in YAML; "" if there are none. For a controller of one namespace make it
// a Role.
func (p Permissions) ClusterRole(name string) string {
	if len(p.Kubernetes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n")
	fmt.Fprintf(&b, "metadata:\n  name: %q\nrules:\n", name)
	for _, rule := range p.Kubernetes {
		fmt.Fprintf(&b, "- apiGroups: %s\n  resources: %s\n  verbs: %s\n",
			yamlList(rule.APIGroups), yamlList(rule.Resources), yamlList(rule.Verbs))
	}
	return b.String()
}

func yamlList(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fmt.Sprintf("%q", word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Permissions returns what the controller itself needs: to read the primaries, to read and write its status bucket, to
// read what it watches, and to read and write what it owns. What the reconciler does beside that is yours to add (see
// [entity.PermissionSet.Join]), and so is what a recorder of events needs. It assumes that the buckets exist, which is
// what entity.RoleBootstrap is for.
//
// The default prefix of the inbox is "_INBOX_controller"; see [entity.WithInboxPrefix].
func (c *Controller[T]) Permissions(opts ...entity.PermissionOption) (Permissions, error) {
	if connected, ok := c.client.(interface{ JetStream() jetstream.JetStream }); ok {
		opts = append([]entity.PermissionOption{entity.WithAPIOf(connected.JetStream())}, opts...)
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
	if err != nil {
		return Permissions{}, err
	}
	slices.SortFunc(all.Kubernetes, func(a, b KubernetesRule) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources))
	})
	return all, nil
}

// add adds what a source needs, other than that of the primaries.
func (p *Permissions) add(s source.Source, opts []entity.PermissionOption) error {
	switch s := s.(type) {
	case interface {
		Rights(...entity.PermissionOption) (entity.PermissionSet, error)
	}:
		set, err := s.Rights(opts...)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		p.PermissionSet = p.Join(set)
	case interface {
		Access() (schema.GroupVersionResource, []string, bool)
	}:
		resource, verbs, ok := s.Access()
		if !ok {
			p.Unknown = append(p.Unknown, fmt.Sprint(s))
			return nil
		}
		p.addRule(resource, verbs)
	}
	return nil
}

func (p *Permissions) addRule(resource schema.GroupVersionResource, verbs []string) {
	for i := range p.Kubernetes {
		rule := &p.Kubernetes[i]
		if rule.APIGroups[0] == resource.Group && rule.Resources[0] == resource.Resource {
			rule.Verbs = append(rule.Verbs, verbs...)
			slices.Sort(rule.Verbs)
			rule.Verbs = slices.Compact(rule.Verbs)
			return
		}
	}
	slices.Sort(verbs)
	p.Kubernetes = append(p.Kubernetes, KubernetesRule{
		APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: slices.Compact(verbs),
	})
}
