package cli

import "testing"

func TestExplainTellsTheMembersOfAKind(t *testing.T) {
	inWorld(t, func(w *world) {
		w.prints(`
KIND:        Website
APIVERSION:  example.com/v1
MEMBER:      spec <Object>

MEMBERS:
  host <string>
  pages <integer>
    minimum: 0
    maximum: 100
  password <string> -secret-
  theme <string>
    enum: "light", "dark"
`, "explain", "Website.example.com.spec")
		w.has(w.ok("explain", "websites", "--recursive"), "    labels <map[string]string>\n", "    finalizers <[]string>\n")
		if r := w.nagi("explain", "websites.spec.nosuch"); r.code != CodeNotFound ||
			r.err != "nagi: Website.example.com.spec has no member \"nosuch\": it has host, pages, password, theme\n" {
			t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
		}
	})
}

func TestKindsAndKeysAreCompleted(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, c := range [][]string{
			{"websites\n", "get", "w"},
			{"websites/shop/home\nwebsites/shop/blog\nwebsites/shop/cart\n", "get", "websites/sh"},
			{"lab/old\nlab/new\n", "get", "websites", "shop/home", "lab/"},
			{"home\nblog\ncart\n", "describe", "websites", "-n", "shop", ""},
			{"shop/home-0\nshop/home-1\n", "get", "-b", "pages", "--namespaced", "shop/"},
			{"", "describe", "websites", "shop/home", ""},
			{"websites.spec.host\nwebsites.spec.pages\nwebsites.spec.password\nwebsites.spec.theme\n", "explain", "websites.spec."},
		} {
			got := w.ok(append([]string{"__complete"}, c[1:]...)...)
			if want := c[0]; len(got) < len(want)+2 || got[:len(want)] != want || got[len(want)] != ':' {
				t.Errorf("%q completes\n%s", c[1:], got)
			}
		}
	})
}
