package cli

import (
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// roleIn is a cluster of which the user has a Role in some namespaces, and no ClusterRole.
func roleIn(open OpenCluster, namespaces ...string) OpenCluster {
	return func(kubeconfig, name string) (dynamic.Interface, discovery.DiscoveryInterface, error) {
		client, discover, err := open(kubeconfig, name)
		client.(*fake.FakeDynamicClient).PrependReactor("*", "*",
			func(a clienttesting.Action) (bool, runtime.Object, error) {
				if slices.Contains(namespaces, a.GetNamespace()) {
					return false, nil, nil
				}
				return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
			})
		return client, discover, err
	}
}

// TestWhoHasARoleInANamespaceSeesWhatADocumentOwnsThere, of a document without a namespace too; what was not looked at
// is named, with the right.
func TestWhoHasARoleInANamespaceSeesWhatADocumentOwnsThere(t *testing.T) {
	const all = "the user may not list deployments.apps in all namespaces"
	const web, far = "deployments.apps/shop/web", "deployments.apps/lab/far"
	for name, c := range map[string]struct {
		role, look          []string
		shown, notes, hides []string
	}{
		"one": {[]string{"shop"}, []string{"shop"}, []string{web, "pods/shop/web-1-a"},
			[]string{"looked at in namespace shop alone: " + all}, []string{far}},
		"two": {[]string{"shop", "lab"}, []string{"shop", "lab"}, []string{web, far},
			[]string{"looked at in the namespaces shop, lab alone: " + all}, nil},
		"one of two": {[]string{"lab"}, []string{"shop", "lab"}, []string{far},
			[]string{"looked at in namespace lab alone: " + all, "not looked at in namespace shop: the user may not list " +
				"deployments.apps in namespace shop (kubectl auth can-i list deployments.apps -n shop;"}, []string{web}},
		"none that is named": {[]string{"shop"}, nil, nil,
			[]string{"not looked at: " + all, "--kube-namespace says where else to look"}, []string{web}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.family()
				elsewhere := kubeObject("apps/v1", "Deployment", "far", "uid-far", "", map[string]any{})
				elsewhere.SetNamespace("lab")
				entity.SetOwner(elsewhere, "Garden", "north", "here")
				w.cluster = roleIn(shopCluster(append(gardenObjects(), elsewhere)...), c.role...)
				args := []string{"tree", "Garden/north", "--kubeconfig", "some"}
				for _, namespace := range c.look {
					args = append(args, "--kube-namespace", namespace)
				}
				got := w.ok(args...)
				body := w.uiFor(&clusterFlags{kubeconfig: "some", namespaces: c.look}).get("/kinds/Garden/north")
				for where, text := range map[string]string{"the tool": got, "the page": html.UnescapeString(body)} {
					for _, says := range append(c.shown, c.notes...) {
						if !strings.Contains(text, says) {
							t.Errorf("%s does not say %q:\n%s", where, says, text)
						}
					}
					for _, hidden := range c.hides {
						if strings.Contains(text, hidden) {
							t.Errorf("%s shows %q:\n%s", where, hidden, text)
						}
					}
				}
			})
		})
	}
}

// TestTheNamespaceOfAContextIsLookedAt where --kube-namespace names none, but not what client-go says where there is none.
func TestTheNamespaceOfAContextIsLookedAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	file := `{"apiVersion":"v1","kind":"Config","current-context":"a","clusters":[{"name":"c","cluster":{"server":"https://x"}}],
		"contexts":[{"name":"a","context":{"cluster":"c","namespace":"shop"}},{"name":"b","context":{"cluster":"c"}},
		{"name":"d","context":{"cluster":"c","namespace":"default"}}]}`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string][]string{"": {"shop"}, "a": {"shop"}, "b": nil, "d": {"default"}, "none": nil} {
		if got := namespaceOf(path, of); !slices.Equal(got, want) {
			t.Errorf("of context %q: %q, want %q", of, got, want)
		}
	}
}

// TestWhoHasARoleInANamespaceTracesFromThere up to the document.
func TestWhoHasARoleInANamespaceTracesFromThere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.family()
		w.cluster = roleIn(shopCluster(gardenObjects()...), "shop")
		w.wantIn(w.ok("trace", "pods/shop/web-1-a", "--kubeconfig", "some"), "pods/shop/web-1-a", "deployments.apps/shop/web",
			"Garden/north")
		r := w.nagi("trace", "pods/lab/other", "--kubeconfig", "some")
		w.wants(r, CodeForbidden, []string{"trace"}, "kubectl auth can-i get pods -n lab")
	})
}
