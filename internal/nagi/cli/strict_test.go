package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMembersThatAKindDoesNotKnowAreToldAndKept(t *testing.T) {
	inWorld(t, func(w *world) {
		const file = "kind: Website\nmetadata: {name: odd, namespace: shop, lables: {a: b}}\nspec:\n  hots: a.example\n  zzzzzz: 1\n"
		says := []string{
			":4:9: spec.hots is not known to Website: did you mean spec.host? It is kept as it is\n",
			":5:11: spec.zzzzzz is not known to Website: it is kept as it is\n",
			":2:48: metadata.lables is not known to Website: did you mean metadata.labels? It is kept as it is\n",
		}
		for _, command := range []string{"apply", "create", "diff"} {
			for _, strict := range []bool{true, false} {
				args, code := []string{command, "-f", "-"}, 0
				if strict {
					args, code = append(args, "--strict"), CodeUsage
				} else if command == "diff" || command == "create" {
					code = map[string]int{"diff": CodeNotSo, "create": CodeRefused}[command]
				}
				r := w.nagiWith(file, args...)
				if command == "diff" && code == CodeNotSo && r.code == 0 {
					r.code = CodeNotSo // it was applied before
				}
				if r.code != code {
					t.Errorf("%v: exit code %d, want %d\n%s", args, r.code, code, r.err)
				}
				for _, say := range says {
					if strict {
						say = strings.ReplaceAll(say, " It is kept as it is", "")
						say = strings.ReplaceAll(say, ": it is kept as it is", "")
					}
					if !strings.Contains(r.err, say) {
						t.Errorf("%v does not say %q:\n%s", args, say, r.err)
					}
				}
				if strict && command == "apply" && w.value("websites", "shop.odd") != "" {
					t.Error("it is written all the same")
				}
			}
			w.nagiWith(file, "apply", "-f", "-")
		}
		if v := w.value("websites", "shop.odd"); !strings.Contains(v, `"hots":"a.example"`) {
			t.Errorf("it is not kept: %s", v)
		}
		if r := w.with(file, 0, "apply", "-f", "-", "--no-validate"); r.err != "" {
			t.Error(r.err)
		}
		w.with(file, CodeUsage, "apply", "-f", "-", "--no-validate", "--strict")

		// What was there before is told by no change of another member.
		if r := w.nagi("patch", "websites/shop/odd", "-p", `{"spec":{"pages":1}}`, "--strict"); r.code != 0 || r.err != "" {
			t.Errorf("%+v", r)
		}
		patch := []string{"patch", "websites/shop/odd", "-p", `{"spec":{"Theme":"dark","themes":"dark"}}`}
		w.runs(CodeUsage, append(patch, "--strict"), "spec.themes is not known", "did you mean spec.theme?")
		w.runs(0, patch, "spec.themes is not known", "It is kept as it is")
		r := w.edits("", []func(string) string{replaces("pages: 2", "page: 2")}, "--strict")
		if r.code != CodeUsage || !strings.Contains(r.err, "spec.page is not known") || !strings.Contains(r.err, "your text is in") {
			t.Errorf("%+v", r)
		}
		r = w.edits("", []func(string) string{replaces("pages: 2", "page: 2")})
		if r.code != 0 || !strings.Contains(r.err, "did you mean spec.pages? It is kept as it is") {
			t.Errorf("%+v", r)
		}
	})
}

func TestValidateIsStrict(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	inWorld(t, func(w *world) {
		const file = "kind: Website\nmetadata: {name: odd, namespace: shop}\nspec: {hots: a.example}\n"
		r := w.with(file, CodeUsage, "validate", "-f", "-")
		if !strings.Contains(r.out, ":3:14: spec.hots is not known to Website: did you mean spec.host?\n") {
			t.Error(r.out)
		}
		r = w.with(file, 0, "validate", "-f", "-", "--strict=false")
		if !strings.Contains(r.err, "did you mean spec.host? It is kept as it is") || !strings.Contains(r.out, "1 document valid") {
			t.Errorf("%+v", r)
		}
		schema := filepath.Join(t.TempDir(), "schema.json")
		w.must(os.WriteFile(schema, []byte(`{"properties":{"spec":{"properties":{"n":{}}}}}`), 0o600))
		if r := w.with("spec: {m: 1}\n", CodeUsage, "validate", "-f", "-", "--schema", schema); !strings.Contains(r.out, "spec.m") {
			t.Errorf("%+v", r)
		}
		w.with("spec: {m: 1}\n", 0, "validate", "-f", "-", "--schema", schema, "--strict=false")
	})
}

func TestARevisionInAFileIsAPrecondition(t *testing.T) {
	inWorld(t, func(w *world) {
		file := w.ok("get", "websites/shop/home", "-o", "yaml")
		changed := strings.Replace(file, "pages: 2", "pages: 3", 1)
		w.with(changed, 0, "apply", "-f", "-")
		before := w.value("websites", "shop.home")
		for _, args := range [][]string{{"apply", "-f", "-"}, {"apply", "-f", "-", "--dry-run"}} {
			r := w.with(strings.Replace(file, "pages: 2", "pages: 4", 1), CodeRefused, args...)
			for _, say := range []string{
				"is at revision ", "and not at 1, which the file names (metadata.resourceVersion)", "nagi diff",
			} {
				if !strings.Contains(r.err, say) {
					t.Errorf("%v does not say %q:\n%s", args, say, r.err)
				}
			}
		}
		w.same(w.value("websites", "shop.home"), before)
		w.ok("delete", "websites/shop/home")
		if r := w.with(changed, CodeRefused, "apply", "-f", "-"); !strings.Contains(r.err, "is gone") {
			t.Error(r.err)
		}
		w.with(homeFile+"---"+strings.Replace(homeFile, "{name: home", "{resourceVersion: x, name: other", 1), CodeUsage,
			"apply", "-f", "-")
		w.with(strings.Replace(changed, "(secret)", "p4", 1), 0, "create", "-f", "-") // there is none to be at a revision
	})
}
