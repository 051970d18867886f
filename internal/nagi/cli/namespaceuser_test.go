package cli

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/registry"
)

// namespaceSet is what docs/service.md gives who may read and act in one namespace, with the registry.
func namespaceSet(t *testing.T) entity.PermissionSet {
	t.Helper()
	kinds, err := registry.Permissions(entity.RoleReader)
	if err != nil {
		t.Fatal(err)
	}
	return kinds.Join(entity.PermissionSet{Publish: []string{"nagi.*.read.*.shop", "nagi.*.act.*.shop"}})
}

// TestWhoMayAskAboutOneNamespace: each command works there, or says in one line which right is missing and who grants it.
func TestWhoMayAskAboutOneNamespace(t *testing.T) {
	inWorldOf(t, namespaceSet(t), func(w *world) {
		const wider, granted = "-n NAMESPACE takes the right for that namespace alone", "an administrator grants it"
		for _, c := range []struct {
			args string
			code int
			says []string
		}{
			{"why websites/shop/blog", 0, []string{"parked", "no such domain", "nagi unpark"}},
			{"why websites/lab/old", CodeForbidden, []string{"The user may not ask", "nagi.websites.read.explain.lab", granted}},
			{"why -n shop", 0, []string{"no such domain", "the API of domains is away"}},
			{"why", CodeForbidden, []string{"nagi.websites.read.notok:", wider, granted}},
			{"why -n lab", CodeForbidden, []string{"nagi.websites.read.notok.lab", granted}},
			{"get --not-ok -n shop", CodeNotSo, []string{"shop/blog", "shop/cart"}},
			{"get websites --not-ok -n shop", CodeNotSo, []string{"shop/blog", "shop/cart"}},
			{"get --not-ok", CodeForbidden, []string{"nagi.websites.read.notok:", wider, granted}},
			{"get --not-ok -n lab", CodeForbidden, []string{"nagi.websites.read.notok.lab", granted}},
			{"describe websites/shop/blog", 0, []string{"no such domain", "the document was not read",
				"$JS.API.STREAM.INFO.KV_websites: grant", "events: "}},
			{"describe websites/lab/old", CodeForbidden, []string{"$JS.API.STREAM.INFO.KV_websites", granted}},
			{"tree websites/shop/home", CodeForbidden, []string{"$JS.API.STREAM.INFO.KV_websites", granted}},
			{"trace websites/shop/home", CodeForbidden, []string{"$JS.API.STREAM.INFO.KV_websites", granted}},
			{"get websites -n shop", CodeForbidden, []string{"$JS.API.STREAM.INFO.KV_websites", granted}},
			{"unpark websites/shop/blog", 0, []string{"is tried again"}},
			{"suspend websites/shop/home", 0, []string{"is suspended"}},
		} {
			r := w.nagi(asReader(strings.Fields(c.args)...)...)
			w.wants(r, c.code, strings.Fields(c.args), c.says...)
			if rights := strings.Count(r.err, "the server refuses to publish"); c.code == CodeForbidden && rights != 1 {
				t.Errorf("nagi %s names %d rights that are missing:\n%s", c.args, rights, r.err)
			}
			if strings.Contains(r.out, "lab/") && c.code != CodeForbidden {
				t.Errorf("nagi %s tells of another namespace:\n%s", c.args, r.out)
			}
		}
	})
}

// TestWhoMayExplainAllKeysAsksWithoutTheNamespace: the right for all is enough.
func TestWhoMayExplainAllKeysAsksWithoutTheNamespace(t *testing.T) {
	set := namespaceSet(t)
	set.Publish = append(set.Publish[:len(set.Publish):len(set.Publish)], "nagi.websites.read.explain")
	inWorldOf(t, set, func(w *world) {
		w.wantIn(w.ok(asReader("why", "websites/lab/old")...), "suspended")
	})
}

// TestThePageOfWhoMayAskAboutOneNamespaceSaysWhyItsKeysWait: buckets are read whole, controllers by namespace.
func TestThePageOfWhoMayAskAboutOneNamespaceSaysWhyItsKeysWait(t *testing.T) {
	documents, err := entity.Permissions(entity.Config{Bucket: "websites", Namespaced: true}, entity.RoleReader)
	if err != nil {
		t.Fatal(err)
	}
	inWorldOf(t, namespaceSet(t).Join(documents), func(w *world) {
		b := w.uiAs("reader")
		b.get("/kinds/Website.example.com/shop%2Fblog", "no such domain", "parked")
		b.get("/kinds/Website.example.com/lab%2Fold", "nagi.websites.read.explain.lab")
	})
}
