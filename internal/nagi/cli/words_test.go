package cli

import (
	"encoding/json"
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
			{[]string{"label", "websites/shop/home"}, 2,
				"these arguments do not fit: write nagi label KIND/KEY NAME=VALUE…"},
			{[]string{"apply", "site.yaml"}, 2, "these arguments do not fit: write nagi apply -f FILE\n"},
			{[]string{"init"}, 2, "arguments are missing: write nagi init DIR\n"},
			{[]string{"apply", "-f", "none.yaml"}, 2, `there is no file or folder "none.yaml"`},
			{[]string{"get", "websites", "--creds", "none.creds"}, 2,
				"--creds and the like, or the context, name that file"},
			{[]string{"label", "websites/shop/none", "a=b"}, 3,
				"nagi get Website.example.com lists those that there are"},
			{[]string{"get", "pages"}, 3,
				`there is no kind "pages": the registry has it only as what a controller owns`},
			{[]string{"get", "Page/shop/x"}, 3, "name its bucket instead of a kind, with --bucket pages\n"},
			{[]string{"wait", "websites/shop/cart", "--wait-timeout", "1s"}, 4, ": the time is up\n"},
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
		w := &world{T: t, srv: natstest.Start(t)}
		for _, c := range [][]string{
			{"get", "--not-ok"}, {"why"}, {"top"}, {"brake"}, {"orphans"}, {"get", "--not-ok", "-o", "json"},
			{"why", "-o", "yaml"},
		} {
			r := w.nagi(c...)
			if r.code != CodeNotFound || r.out != "" || !strings.Contains(r.err,
				"no kinds are registered on this server") ||
				!strings.Contains(r.err, "--bucket BUCKET") {
				t.Errorf("%v: exit code %d\n%s%s", c, r.code, r.out, r.err)
			}
		}
	})
	inWorld(t, func(w *world) {
		w.runs(CodeNotFound, []string{"why", "--controller", "none"}, `has no controller "none"`)
		w.runs(CodeNotFound, []string{"top", "--controller", "none"}, `has no controller "none"`)
	})
}

func TestFlagsSayWhatIsRight(t *testing.T) {
	inWorld(t, func(w *world) {
		t.Setenv("XDG_CONFIG_HOME", t.TempDir())
		for _, c := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"get", "websites", "--timeout", "5"}, CodeUsage,
				`--timeout "5" is no duration: write it as 30s, 5m or 2h`},
			{[]string{"wait", "websites/shop/home", "--wait-timeout", "x"}, CodeUsage,
				`--wait-timeout "x" is no duration: write it as 30s`},
			{[]string{"top", "--interval", "2"}, CodeUsage, "write it as 30s, 5m or 2h"},
			{[]string{"kinds", "--timeout", "-1s"}, CodeUsage, "write it as 5s"},
			{[]string{"get", "-b", "nowhere"}, CodeNotFound, "nowhere"},
			{[]string{"get", "-b", "nowhere", "x"}, CodeNotFound, "nowhere"},
			{[]string{"label", "-b", "nowhere", "x", "a=b"}, CodeNotFound, "nowhere"},
			{[]string{"kinds", "--context", "nope"}, CodeUsage, "nats context ls"},
			{[]string{"delete", "websites", "-n", "*", "--all", "--yes"}, CodeUsage, `-n "*" is no namespace`},
			{[]string{"get", "websites", "-n", ">"}, CodeUsage, `-n ">" is no namespace`},
			{[]string{"get", "websites", "-n", "a.b"}, CodeUsage, `-n "a.b" is no namespace`},
			{[]string{"apply", "-f", "-", "--prune", "--set", "a b"}, CodeUsage, `--set "a b" is no value of a label`},
			{[]string{"wait", "websites/shop/home", "--timeout", "20s"}, 0, "--wait-timeout says how long"},
		} {
			r := w.nagi(c.args...)
			if r.code != c.code || !strings.Contains(r.err, c.says) {
				t.Errorf("%v: exit code %d, want %d, with %q\n%s", c.args, r.code, c.code, c.says, r.err)
			}
		}
		if w.value("websites", "lab.old") == "" {
			t.Error("documents of all namespaces are gone")
		}
	})
}

func TestAWaitEndsInJSONToo(t *testing.T) {
	inWorld(t, func(w *world) {
		var is waited
		w.must(json.Unmarshal([]byte(w.ok("wait", "websites/shop/home", "-o", "json")), &is))
		if is != (waited{Kind: "Website.example.com", Bucket: "websites", Key: "shop/home", For: "reconciled",
			Is: true}) {
			t.Errorf("%+v", is)
		}
		r := w.with("", CodeNotSo, "wait", "websites/shop/cart", "--wait-timeout", "1s", "-o", "json")
		w.must(json.Unmarshal([]byte(r.out), &is))
		if is.Is || !strings.Contains(is.Says, "the time is up") || !strings.Contains(r.err, "the time is up") {
			t.Errorf("%+v\n%s", is, r.err)
		}
		w.with("", CodeNotFound, "wait", "websites/shop/none", "-o", "json")
	})
}

func TestNumbersStayAsTheyAreWritten(t *testing.T) {
	inWorld(t, func(w *world) {
		const spec = `{"big":36893488147419103232,"deep":[{"list":[1.10,-0.0]}],"exp":1e400,"long":0.1000000000000000055511151231257827}`
		w.put("pages", "shop.big", `{"spec":`+spec+`}`)
		for _, args := range [][]string{{"shop.big"}, {"shop.big", "shop.home-0"}} {
			said := w.ok(append([]string{"get", "-b", "pages", "--status-bucket=-", "-o", "yaml"}, args...)...)
			for _, number := range []string{"36893488147419103232\n", " 1.10\n", " -0.0\n", " 1e400\n",
				"0.1000000000000000055511151231257827\n"} {
				if !strings.Contains(said, number) {
					t.Errorf("%s is not there:\n%s", number, said)
				}
			}
		}
		if said := w.ok("describe", "-b", "pages", "--status-bucket=-", "shop.big"); !strings.Contains(said,
			"36893488147419103232\n") {
			t.Error(said)
		}
	})
}
