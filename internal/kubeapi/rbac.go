// Rules for Kubernetes' role-based access control, without Kubernetes' own types for them, which
// take long to compile.

package kubeapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rule is a rule of a Role or ClusterRole, as rbacv1.PolicyRule is.
type Rule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// AddRule returns rules, of one resource each and in order, that allow these verbs, too.
func AddRule(rules []Rule, resource schema.GroupResource, verbs []string) []Rule {
	added := Rule{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}}
	i, found := slices.BinarySearchFunc(rules, added, func(a, b Rule) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources))
	})
	if !found {
		rules = slices.Insert(rules, i, added)
	}
	rules[i].Verbs = slices.Concat(rules[i].Verbs, verbs)
	slices.Sort(rules[i].Verbs)
	rules[i].Verbs = slices.Compact(rules[i].Verbs)
	return rules
}

// ClusterRole returns a manifest in YAML; "" for no rules.
func ClusterRole(name string, rules []Rule) string {
	if len(rules) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n")
	fmt.Fprintf(&b, "metadata:\n  name: %q\nrules:\n", name)
	for _, rule := range rules {
		fmt.Fprintf(&b, "- apiGroups: %s\n  resources: %s\n  verbs: %s\n",
			list(rule.APIGroups), list(rule.Resources), list(rule.Verbs))
	}
	return b.String()
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fmt.Sprintf("%q", word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
