package kubesource

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAKeyIsWhatAnObjectCanHave: whether it has a namespace is known from the first object on.
func TestAKeyIsWhatAnObjectCanHave(t *testing.T) {
	for _, test := range []struct {
		key                           string
		unknown, namespaced, clusters bool
	}{
		{"settings", true, false, true},
		{"shop/settings", true, true, false},
		{"system:node", true, false, true},
		{"shop/Settings_1.x", true, true, false},
		{"shop.settings", true, false, true},
		{"", false, false, false},
		{"/settings", false, false, false},
		{"shop/", false, false, false},
		{"shop/settings/", false, false, false},
		{"shop/settings/x", false, false, false},
		{"Shop/settings", false, false, false},
		{"shop.x/settings", false, false, false},
		{strings.Repeat("x", 64) + "/settings", false, false, false},
		{"shop/..", false, false, false},
		{"shop/a%b", false, false, false},
	} {
		for name, state := range map[string]struct {
			first *metav1.ObjectMeta
			can   bool
		}{
			"no object yet":   {nil, test.unknown},
			"namespaced":      {&metav1.ObjectMeta{Namespace: "shop", Name: "first"}, test.namespaced},
			"of the clusters": {&metav1.ObjectMeta{Name: "first"}, test.clusters},
		} {
			s := &Source{}
			if state.first != nil {
				s.scope.note(state.first)
				s.scope.note(&metav1.ObjectMeta{Namespace: "shop"})
			}
			if err := s.CheckKey(test.key); (err == nil) != state.can {
				t.Errorf("%s: %q: %v, want one: %v", name, test.key, err, !state.can)
			}
		}
	}
}
