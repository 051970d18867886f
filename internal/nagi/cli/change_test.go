package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestPatchChangesWhatItNames(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("websites", "shop.home", `{"spec":{"host":"home.example","big":9007199254740993,"pages":2,"password":"hunter2"}}`)
		w.same(w.ok("patch", "websites/shop/home", "-p", "spec: {pages: 3}"), "Website.example.com/shop/home changed\n")
		const is = `{"spec":{"big":9007199254740993,"host":"home.example","pages":3,"password":"hunter2"}}`
		w.same(w.value("websites", "shop.home"), is)
		w.same(w.ok("patch", "websites/shop/home", "-p", `{"spec":{"pages":3}}`), "Website.example.com/shop/home unchanged\n")
		w.same(w.ok("patch", "websites/shop/home", "--dry-run", "-p", `{"spec":{"host":null}}`),
			"--- Website.example.com/shop/home (is)\n+++ Website.example.com/shop/home (would be)\n@@ -1,5 +1,4 @@\n spec:\n"+
				"   big: 9007199254740993\n-  host: home.example\n   pages: 3\n   password: (secret)\n"+
				"Website.example.com/shop/home changed (dry run)\n")
		for patch, code := range map[string]int{
			`{"spec":{"pages":101}}`: 2, `{"kind":"Other"}`: 2, `{"metadata":{"name":"x"}}`: 2, `{"status":{"url":"x"}}`: 2, `[]`: 2,
		} {
			w.with("", code, "patch", "websites/shop/home", "-p", patch)
		}
		w.with("", 2, "patch", "websites/shop/home", "--type=json", "-p", `[{"op":"test","path":"/spec/pages","value":4}]`)
		w.with("", 2, "patch", "websites/shop/home", "-p", `{}`, "--type=strategic")
		w.with("", 3, "patch", "websites/shop/none", "-p", `{}`)
		w.same(w.value("websites", "shop.home"), is)
		w.ok("patch", "websites/shop/home", "--type=json", "-p", `[{"op":"remove","path":"/spec/host"}]`)
		w.same(w.value("websites", "shop.home"), strings.Replace(is, `"host":"home.example",`, "", 1))
	})
}

func TestLabelAndAnnotate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.same(w.ok("label", "websites/shop/home", "a=b", "x.y/z="), "Website.example.com/shop/home changed\n")
		w.with("", 5, "label", "websites/shop/home", "tier=tin", "c=d")
		w.with("", 2, "label", "websites/shop/home", "a=b c")
		w.with("", 2, "label", "websites/shop/home", "a")
		w.with("", 2, "label", "websites/shop/home", "a=b", "a-")
		w.same(w.ok("label", "websites", "shop/home", "tier=tin", "a-", "--overwrite"), "Website.example.com/shop/home changed\n")
		w.same(w.ok("annotate", "websites", "home", "-n", "shop", "note=a b"), "Website.example.com/shop/home changed\n")
		w.same(w.value("websites", "shop.home"), `{"metadata":{"annotations":{"note":"a b"},"labels":{"tier":"tin","x.y/z":""}},`+
			`"spec":{"host":"home.example","pages":2,"password":"hunter2"}}`)
		kv, err := w.js.KeyValue(w.Context(), "websites")
		w.must(err)
		_, err = kv.Create(w.Context(), "shop.short", []byte(`{}`), jetstream.KeyTTL(time.Minute))
		w.must(err)
		w.ok("label", "websites/shop/short", "a=b")
		time.Sleep(62 * time.Second)
		w.same(w.value("websites", "shop.short"), "")
	})
}

func TestValidateNeedsNoConnectionWithASchema(t *testing.T) {
	dir := t.TempDir()
	schema, file := filepath.Join(dir, "schema.json"), filepath.Join(dir, "a.yaml")
	for name, text := range map[string]string{
		schema: `{"properties":{"spec":{"properties":{"n":{"type":"integer"}}}}}`, file: "spec:\n  n: x\n---\nspec: {n: 1}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t}
	r := w.at(t.Context(), "nats://127.0.0.1:1", "", "validate", "-f", file, "--schema", schema)
	if r.code != 2 || !strings.HasPrefix(r.out, file+":2:6: spec.n: ") {
		t.Error(r)
	}
	if r := w.at(t.Context(), "nats://127.0.0.1:1", "", "validate", "-f", file); r.code != 7 {
		t.Error(r)
	}
	if r := w.at(t.Context(), "nats://127.0.0.1:1", "a: [", "validate", "-f", "-", "--schema", schema); r.code != 2 {
		t.Error(r)
	}
}
