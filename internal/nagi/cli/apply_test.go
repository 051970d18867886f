package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go/jetstream"
)

// with runs the tool with a standard input, and wants an exit code.
func (w *world) with(stdin string, code int, args ...string) ran {
	w.Helper()
	r := w.nagiWith(stdin, args...)
	if r.code != code {
		w.Fatalf("nagi %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
	}
	return r
}

// same fails the test if got is not want.
func (w *world) same(got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

const homeFile = `
kind: Website
apiVersion: example.com/v1
metadata: {name: home, namespace: shop}
`

func TestApplyTakesWhatTheFileNames(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.with(homeFile+"spec: {host: home.example, pages: 3, big: 9007199254740993}\n", 0, "apply", "-f", "-")
		w.same(first.out, "Website.example.com/shop/home configured\n")
		w.same(w.value("websites", "shop.home"), `{"metadata":{"annotations":{"nagi/last-applied":`+
			`"{\"metadata\":{},\"spec\":{\"big\":true,\"host\":true,\"pages\":true}}"},"labels":{"tier":"gold"}},`+
			`"spec":{"big":9007199254740993,"host":"home.example","pages":3,"password":"hunter2"}}`)
		revision := w.revision("websites", "shop.home")
		again := w.with(homeFile+"spec: {host: home.example, pages: 3, big: 9007199254740993}\n", 0, "apply", "-f", "-")
		w.same(again.out, "Website.example.com/shop/home unchanged\n")
		if now := w.revision("websites", "shop.home"); now != revision {
			t.Errorf("what is unchanged was written, at revision %d", now)
		}
		w.with(homeFile+"spec: {host: home.example}\nstatus: {url: x}\n", 0, "apply", "-f", "-", "--wait")
		w.same(w.value("websites", "shop.home"), `{"metadata":{"annotations":{"nagi/last-applied":`+
			`"{\"metadata\":{},\"spec\":{\"host\":true}}"},"labels":{"tier":"gold"}},`+
			`"spec":{"host":"home.example","password":"hunter2"}}`)
		if r := w.record("shop/home"); r.ObservedRevision < w.revision("websites", "shop.home") {
			t.Errorf("--wait did not wait: %d", r.ObservedRevision)
		}
	})
}

func TestApplyCreatesAndKeepsSecrets(t *testing.T) {
	inWorld(t, func(w *world) {
		const file = `{"kind":"Website","metadata":{"name":"n.ew","creationTimestamp":null},"spec":{"password":"p4"}}`
		w.same(w.with(file, 0, "apply", "-f", "-", "-n", "shop", "-o", "name").out, "Website.example.com/shop/n.ew\n")
		w.same(w.value("websites", "shop.n.ew"), `{"metadata":{"annotations":{"nagi/last-applied":`+
			`"{\"metadata\":{},\"spec\":{\"password\":true}}"}},"spec":{"password":"p4"}}`)
		hidden := strings.Replace(file, "p4", "(secret)", 1)
		w.same(w.with(hidden, 0, "apply", "-f", "-", "-n", "shop").out, "Website.example.com/shop/n.ew unchanged\n")
		other := w.with(strings.Replace(hidden, "n.ew", "other", 1), 2, "apply", "-f", "-", "-n", "shop")
		if !strings.Contains(other.err, "spec.password is (secret)") || w.value("websites", "shop.other") != "" {
			t.Error(other.err)
		}
		diff := w.with(strings.Replace(file, "p4", "p5", 1), 0, "apply", "-f", "-", "-n", "shop", "--dry-run", "--diff")
		if strings.Contains(diff.out, "p4") || strings.Contains(diff.out, "p5") ||
			!strings.Contains(diff.out, "+  password: (secret, changed)") ||
			!strings.HasSuffix(diff.out, "Website.example.com/shop/n.ew configured (dry run)\n") {
			t.Error(diff.out)
		}
		without := strings.Replace(file, `"password":"p4"`, "", 1)
		w.with(without, 0, "apply", "-f", "-", "-n", "shop")
		if v := w.value("websites", "shop.n.ew"); strings.Contains(v, "p4") {
			t.Errorf("a secret that is gone from the file stays: %s", v)
		}
	})
}

func TestAllFilesAreCheckedBeforeTheFirstWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		dir := t.TempDir()
		w.must(os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(homeFile+"spec: {pages: 7}\n"), 0o600))
		w.must(os.WriteFile(filepath.Join(dir, "b.yaml"), []byte(strings.ReplaceAll(homeFile, "home", "b")+
			"spec:\n  pages: 101\n  theme: pink\n---\nkind: Webside\nmetadata: {name: x}\n---\nkind: Website\n---"+homeFile), 0o600))
		before := w.value("websites", "shop.home")
		r := w.with("", 2, "apply", "-f", dir)
		for _, says := range []string{
			"b.yaml:6:10: spec.pages: ", "b.yaml:7:10: spec.theme: ", "b.yaml:9: there is no kind \"Webside\"",
			"b.yaml:12: metadata.name is missing", "Website.example.com/shop/home stands in ",
		} {
			if !strings.Contains(r.err, says) {
				t.Errorf("%s\nhas no %s", r.err, says)
			}
		}
		w.same(w.value("websites", "shop.home"), before)
		w.with(homeFile+"spec: {pages: 101}\n", 0, "apply", "-f", "-", "--no-validate")
	})
}

func TestApplyKeepsWhatIsLeftOfATTL(t *testing.T) {
	inWorld(t, func(w *world) {
		kv, err := w.js.KeyValue(w.Context(), "websites")
		w.must(err)
		_, err = kv.Create(w.Context(), "shop.short", []byte(`{"spec":{"pages":1}}`), jetstream.KeyTTL(time.Hour))
		w.must(err)
		time.Sleep(50 * time.Minute)
		w.with(strings.ReplaceAll(homeFile, "home", "short")+"spec: {pages: 2}\n", 0, "apply", "-f", "-")
		time.Sleep(11 * time.Minute)
		w.same(w.value("websites", "shop.short"), "")
	})
}

func TestApplyToAPlainBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "plain", Storage: jetstream.MemoryStorage})
		w.must(err)
		w.put("plain", "a.b", `{"spec":{"x":1.50},"kind":"Thing"}`)
		args := []string{"apply", "-f", "-", "-b", "plain", "--status-bucket", "-"}
		w.same(w.with(`{"metadata":{"name":"a.b"},"spec":{"y":2}}`, 0, args...).out, "plain/a.b configured\n")
		w.same(w.value("plain", "a.b"), `{"kind":"Thing","metadata":{"annotations":{"nagi/last-applied":`+
			`"{\"metadata\":{},\"spec\":{\"y\":true}}"}},"spec":{"x":1.50,"y":2}}`)
		w.put("plain", "broken", "no JSON")
		w.same(w.with(`{"metadata":{"name":"broken"},"spec":{"y":2}}`, 0, args...).out, "plain/broken configured\n")
	})
}

func TestPruneDeletesWhatIsInNoFile(t *testing.T) {
	inWorld(t, func(w *world) {
		two := "kind: Website\nmetadata: {name: a, namespace: shop}\n---\nkind: Website\nmetadata: {name: b, namespace: shop}\n"
		one, _, _ := strings.Cut(two, "---")
		apply := []string{"apply", "-f", "-", "--set", "s1", "--prune"}
		w.same(w.with(two, 0, apply...).out, "Website.example.com/shop/a created\nWebsite.example.com/shop/b created\n")
		w.same(w.with(one, 0, append(apply, "--dry-run")...).out,
			"Website.example.com/shop/a unchanged (dry run)\nWebsite.example.com/shop/b pruned (dry run)\n")
		asked := w.with(one, 2, apply...)
		if !strings.Contains(asked.err, `1 document of set "s1" in no file: --yes`) {
			t.Error(asked.err)
		}
		w.with(one, 5, append(apply, "--expect", "2")...)
		if w.value("websites", "shop.b") == "" {
			t.Fatal("it is gone, and nobody has confirmed that")
		}
		w.same(w.with(one, 0, append(apply, "--expect", "1")...).out, "Website.example.com/shop/a unchanged\nWebsite.example.com/shop/b pruned\n")
		w.same(w.value("websites", "shop.b"), "")
		if w.value("websites", "shop.home") == "" {
			t.Error("a document of no set is gone")
		}
	})
}

// Another kind may be published with the same bucket, and without namespaces: it must not have what was just applied
// look as if it were in no file.
func TestPruneLooksAtABucketOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		kv, err := w.js.KeyValue(w.Context(), registry.Bucket)
		w.must(err)
		_, err = kv.Put(w.Context(), "Aaa", []byte(`{"schemaVersion":1,"kind":"Aaa","bucket":"websites"}`))
		w.must(err)
		const file = "kind: Website\nmetadata: {name: a, namespace: shop}\n"
		r := w.with(file, 0, "apply", "-f", "-", "--set", "s1", "--prune", "--yes")
		w.same(r.out, "Website.example.com/shop/a created\n")
		if r := w.ok("kinds"); !strings.Contains(r, "Aaa") {
			t.Fatal("the registry does not have it:", r)
		}
	})
}

// With a plain bucket no member is known as a secret, so what another command hid must not be written as it is shown.
func TestWhatIsHiddenIsNotWrittenAsItIsShown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.bucket("plain")
		const before = `{"spec":{"password":"hunter2"}}`
		w.put("plain", "home", before)
		r := w.with(`{"metadata":{"name":"home"},"spec":{"password":"(secret)"}}`, 2, "apply", "-f", "-", "--bucket", "plain")
		if !strings.Contains(r.err, "spec.password is (secret)") {
			t.Error(r.err)
		}
		w.same(w.value("plain", "home"), before)
		w.with(`{"metadata":{"name":"home","namespace":"shop"},"spec":{"password":"(secret)"}}`, 0,
			"apply", "-f", "-", "--bucket", "websites")
		if v := w.value("websites", "shop.home"); !strings.Contains(v, `"password":"hunter2"`) {
			t.Errorf("the secret of a bucket that the registry has is not kept: %s", v)
		}
	})
}

func TestCreateRefusesWhatIsThere(t *testing.T) {
	inWorld(t, func(w *world) {
		before := w.value("websites", "shop.home")
		r := w.with(homeFile+"---"+strings.ReplaceAll(homeFile, "home", "fresh"), 5, "create", "-f", "-", "-o", "json")
		if !strings.Contains(r.err, "Website.example.com/shop/home: it is there already") || !strings.Contains(r.out, `"result": "created"`) {
			t.Error(r.err, r.out)
		}
		w.same(w.value("websites", "shop.home"), before)
		w.same(w.value("websites", "shop.fresh"), "{}")
	})
}
