package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// edits runs nagi edit. Each editor changes the text once; what is typed answers questions.
func (w *world) edits(typed string, editors []func(text string) string, args ...string) ran {
	w.Helper()
	var stdout, stderr bytes.Buffer
	env := Env{
		Streams: out.Streams{In: strings.NewReader(typed), Out: &stdout, Err: &stderr, Interactive: typed != ""},
		Options: []nats.Option{natstest.Dialer()},
		Edit: func(_ context.Context, file string) error {
			text, err := os.ReadFile(file)
			if err == nil && len(editors) > 0 {
				err = os.WriteFile(file, []byte(editors[0](string(text))), 0o600)
				editors = editors[1:]
			}
			return err
		},
	}
	code := Run(w.Context(), env, append([]string{"--server", w.srv.URL(), "edit", "websites/shop/home"}, args...))
	return ran{stdout.String(), stderr.String(), code}
}

func replaces(old, now string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, now, 1) }
}

func TestEditKeepsSecretsThatItDoesNotShow(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	inWorld(t, func(w *world) {
		var seen string
		r := w.edits("", []func(string) string{func(text string) string {
			seen = text
			return strings.Replace(text, "pages: 2", "pages: 3", 1)
		}})
		if r.code != 0 || r.out != "Website.example.com/shop/home edited\n" {
			t.Error(r)
		}
		if strings.Contains(seen, "hunter2") || !strings.Contains(seen, "  password: (secret)\n") ||
			!strings.HasPrefix(seen, "#nagi Website.example.com/shop/home, revision ") {
			t.Error(seen)
		}
		w.same(w.value("websites", "shop.home"),
			`{"metadata":{"labels":{"tier":"gold"}},"spec":{"host":"home.example","pages":3,"password":"hunter2"}}`)
		w.edits("", []func(string) string{func(text string) string { seen = text; return text }}, "--show-secrets")
		if !strings.Contains(seen, "hunter2") {
			t.Error(seen)
		}
		for _, editor := range []func(string) string{func(text string) string { return text }, func(string) string { return "" }} {
			if r := w.edits("", []func(string) string{editor}); r.code != 0 || strings.Contains(r.out, "edited") {
				t.Error(r)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "nagi-edit-*")); len(left) > 0 {
			t.Error(left)
		}
	})
}

// TestEditSaysInJSONWhatBecameOfTheDocument, and what it asks and shows meanwhile is no part of that.
func TestEditSaysInJSONWhatBecameOfTheDocument(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	inWorld(t, func(w *world) {
		was := w.revision("websites", "shop.home")
		said := func(r ran) (is result) {
			t.Helper()
			if err := json.Unmarshal([]byte(r.out), &is); err != nil || r.code != 0 {
				t.Fatalf("%v: %+v", err, r)
			}
			return is
		}
		want := result{Kind: "Website.example.com", Bucket: "websites", Key: "shop/home", Result: "unchanged", Revision: was}
		same := func(text string) string { return text }
		for _, editor := range []func(string) string{same, func(string) string { return "" }} {
			if is := said(w.edits("", []func(string) string{editor}, "-o", "json")); is != want {
				t.Errorf("%+v, want %+v", is, want)
			}
		}
		theirs := func(text string) string {
			w.put("websites", "shop.home", `{"spec":{"host":"other.example","pages":2}}`)
			return strings.Replace(text, "pages: 2", "pages: 4", 1)
		}
		r := w.edits("m\n", []func(string) string{theirs, same}, "-o", "json")
		want.Result, want.Revision = "edited", w.revision("websites", "shop.home")
		if is := said(r); is != want || want.Revision <= was {
			t.Errorf("%+v, want %+v", is, want)
		}
		w.wantIn(r.err, "(as you got it)", "+  host: other.example", "merge (m)")
		r = w.edits("", []func(string) string{replaces("pages: 4", "pages: 5")}, "-o", "name")
		w.same(r.out, "Website.example.com/shop/home\n")
	})
}

// TestADryRunInJSONHasTheDifferenceBesides.
func TestADryRunInJSONHasTheDifferenceBesides(t *testing.T) {
	inWorld(t, func(w *world) {
		const file = `{"kind":"Website","metadata":{"name":"home","namespace":"shop"},"spec":{"pages":3}}`
		for stdin, args := range map[string][]string{
			file: {"apply", "-f", "-", "--dry-run", "--diff"}, "": {"patch", "websites/shop/home", "-p", `{"spec":{"pages":3}}`, "--dry-run"},
		} {
			r := w.with(stdin, 0, append(args, "-o", "json")...)
			if !json.Valid([]byte(r.out)) || !strings.Contains(r.err, "+  pages: 3") {
				t.Errorf("%v: %+v", args, r)
			}
		}
	})
}

func TestEditKeepsATextThatCannotBeSaved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	inWorld(t, func(w *world) {
		before := w.value("websites", "shop.home")
		r := w.edits("", []func(string) string{replaces("pages: 2", "pages: 200")})
		file := regexp.MustCompile(`your text is in (\S+)`).FindStringSubmatch(r.err)
		if r.code != 2 || !strings.Contains(r.err, "spec.pages: ") || file == nil {
			t.Fatal(r)
		}
		if text, err := os.ReadFile(file[1]); err != nil || !strings.Contains(string(text), "pages: 200") {
			t.Error(string(text), err)
		}
		w.same(w.value("websites", "shop.home"), before)
		var above string
		r = w.edits("\n", []func(string) string{replaces("pages: 2", "pages: [2"), func(text string) string {
			above = text
			return strings.Replace(text, "pages: [2", "pages: 4", 1)
		}})
		if r.code != 0 || !strings.Contains(above, "#nagi ") || !strings.Contains(w.value("websites", "shop.home"), `"pages":4`) {
			t.Error(r, above)
		}
		if r = w.edits("\n", []func(string) string{replaces("pages: 4", "pages: x")}); r.code != 2 {
			t.Error(r) // saved again as it is
		}
	})
}

func TestEditOffersWhatToDoAboutAConflict(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	inWorld(t, func(w *world) {
		const theirs = `{"spec":{"host":"other.example","pages":2,"password":"hunter2"}}`
		meanwhile := func(old, now string) func(string) string {
			return func(text string) string {
				w.put("websites", "shop.home", theirs)
				return strings.Replace(text, old, now, 1)
			}
		}
		same := func(text string) string { return text }
		r := w.edits("m\n", []func(string) string{meanwhile("(secret)", "new"), same})
		if r.code != 0 || !strings.Contains(r.err, "+  host: other.example") && !strings.Contains(r.out, "+  host: other.example") {
			t.Error(r)
		}
		w.same(w.value("websites", "shop.home"), `{"spec":{"host":"other.example","pages":2,"password":"new"}}`)

		r = w.edits("m\n", []func(string) string{meanwhile("password: (secret)", "password: mine"), same})
		if r.code != 0 || !strings.Contains(r.err, "Both have changed spec.password.") {
			t.Error(r)
		}
		r = w.edits("r\n", []func(string) string{meanwhile("pages: 2", "pages: 9"), replaces("pages: 2", "pages: 5")})
		if r.code != 0 || !strings.Contains(w.value("websites", "shop.home"), `"pages":5`) {
			t.Error(r)
		}
		file := regexp.MustCompile(`Your text is in (\S+)\.\n`).FindStringSubmatch(r.err)
		if file == nil {
			t.Fatal("what was typed before is lost: ", r.err)
		}
		if text, err := os.ReadFile(file[1]); err != nil || !strings.Contains(string(text), "pages: 9") {
			t.Error(string(text), err)
		}
		r = w.edits("a\n", []func(string) string{meanwhile("pages: 5", "pages: 9")})
		if r.code != 5 || !strings.Contains(r.err, "your text is in ") || w.value("websites", "shop.home") != theirs {
			t.Error(r)
		}
		w.put("websites", "shop.home", theirs)
		if r = w.edits("", []func(string) string{meanwhile("pages: 2", "pages: 9")}); r.code != 5 {
			t.Error(r)
		}
	})
}

func TestEditRunsTheUsersEditor(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", "sed -i 's/pages: 2/pages: 7/'")
	srv := natstest.Start(t)
	nc, js := natstest.Connect(t, srv.URL())
	defer nc.Close()
	w := &world{T: t, srv: srv, nc: nc, js: js}
	w.bucket("things")
	w.put("things", "a", `{"spec":{"pages":2}}`)
	w.same(w.with("", 0, "edit", "a", "-b", "things").out, "things/a edited\n")
	w.same(w.value("things", "a"), `{"spec":{"pages":7}}`)
	t.Setenv("EDITOR", "false")
	w.with("", 1, "edit", "a", "-b", "things")
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "nagi-edit-*")); len(left) > 0 {
		t.Error(left)
	}
	t.Setenv("EDITOR", "sed -i 's/pages: 7/pages: 8/' \"$1\"; false")
	r := w.with("", 1, "edit", "a", "-b", "things")
	file := regexp.MustCompile(`your text is in (\S+)`).FindStringSubmatch(r.err)
	if file == nil {
		t.Fatal("what was typed is lost: ", r.err)
	}
	if text, err := os.ReadFile(file[1]); err != nil || !strings.Contains(string(text), "pages: 8") {
		t.Error(string(text), err)
	}
}

func TestDiffShowsWhatApplyWouldChange(t *testing.T) {
	inWorld(t, func(w *world) {
		const file = `{"kind":"Website","metadata":{"name":"home","namespace":"shop"},"spec":{"pages":3,"password":"new"}}`
		r := w.with(file, 4, "diff", "-f", "-")
		w.same(r.out, "--- Website.example.com/shop/home (is)\n+++ Website.example.com/shop/home (would be)\n@@ -3,5 +3,5 @@\n     tier: gold\n"+
			" spec:\n   host: home.example\n-  pages: 2\n-  password: (secret)\n+  pages: 3\n+  password: (secret, changed)\n")
		w.with(file, 0, "apply", "-f", "-")
		w.with(file, 0, "diff", "-f", "-")
		w.with("", 0, "wait", "websites/shop/home")
		w.with("", 0, "diff", "websites/shop/home")
		w.stopController()
		w.put("websites", "shop.home", `{"spec":{"host":"x.example"}}`)
		r = w.with("", 4, "diff", "websites/shop/home")
		if !strings.Contains(r.out, "+  host: x.example") || strings.Contains(r.out, "password") {
			t.Error(r.out)
		}
		if r := w.with("", 3, "diff", "websites/shop/home", "--revision", "1"); !strings.Contains(r.err, "keeps 1 revision of each key") {
			t.Error(r.err)
		}
		w.bucket("things")
		w.put("things", "a", `{"x":1}`)
		w.put("things", "a", `{"x":2}`)
		r = w.with("", 4, "diff", "a", "-b", "things", "--revision", "1")
		w.same(r.out, "--- things/a (revision 1)\n+++ things/a (revision 2)\n@@ -1 +1 @@\n-x: 1\n+x: 2\n")
	})
}
