package cli

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestWrongInputSaysWhatIsRight(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, c := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"gte"}, 2, `nagi: unknown command "gte" for "nagi": did you mean get?` + "\n"},
			{[]string{"label", "websites/shop/home"}, 2, "these arguments do not fit: write nagi label KIND/KEY NAME=VALUE…"},
			{[]string{"apply", "site.yaml"}, 2, "these arguments do not fit: write nagi apply -f FILE\n"},
			{[]string{"init"}, 2, "arguments are missing: write nagi init DIR\n"},
			{[]string{"apply", "-f", "none.yaml"}, 2, `there is no file or folder "none.yaml"`},
			{[]string{"get", "websites", "--creds", "none.creds"}, 2, "--creds and the like, or the context, name that file"},
			{[]string{"label", "websites/shop/none", "a=b"}, 3, "nagi get websites lists those that there are"},
			{[]string{"get", "pages"}, 3, `there is no kind "pages": the registry has it only as what a controller owns`},
			{[]string{"get", "Page/shop/x"}, 3, "name its bucket instead of a kind, with --bucket pages\n"},
			{[]string{"wait", "websites/shop/cart", "--timeout", "1s"}, 4, ": the time is up\n"},
		} {
			r := w.nagi(c.args...)
			if r.code != c.code || !strings.Contains(r.err, c.says) || strings.Contains(r.err, "context deadline") {
				t.Errorf("%v: exit code %d, want %d, with %q\n%s", c.args, r.code, c.code, c.says, r.err)
			}
		}
	})
}

func TestDeleteIsAWordOfKubectlForDeleted(t *testing.T) {
	inWorld(t, func(w *world) { w.ok("wait", "websites/shop/none", "--for=delete") })
}

func TestTheToolSaysItsVersion(t *testing.T) {
	inWorld(t, func(w *world) {
		if said := w.ok("--version"); !strings.HasPrefix(said, "nagi version ") {
			t.Errorf("it says %q", said)
		}
	})
}

// Whoever looks at the wrong server is not told that all is well.
func TestWhereThereIsNothingNothingIsWell(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, c := range [][]string{{"get", "--not-ok"}, {"why"}} {
			if r := w.nagi(c...); r.code != 0 || r.err == "" || strings.Contains(r.err, "All is well") {
				t.Errorf("%v: exit code %d\n%s", c, r.code, r.err)
			}
		}
	})
}
