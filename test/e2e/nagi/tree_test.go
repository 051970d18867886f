package nagi

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// columns are what is between the first column, whose tree has spaces too, and the second.
var columns = regexp.MustCompile(`[^ │]  +[^ ├└│]`)

// lines is a table without the spaces that align its columns, and with the same names in each test.
func (w *world) lines(table string) string {
	table = strings.NewReplacer(w.here, "here", w.there, "there", w.kind+".", "Site.").Replace(table)
	var all []string
	for line := range strings.Lines(table) {
		name, rest := line, ""
		if at := columns.FindStringIndex(line); at != nil {
			name, rest = line[:at[0]+1], line[at[1]-1:]
		}
		all = append(all, strings.TrimRight(name+" | "+strings.Join(strings.Fields(rest), " "), " |\n"))
	}
	return strings.Join(all, "\n")
}

func (w *world) shows(r ran, want string) {
	w.Helper()
	if got := w.lines(r.out); r.code != 0 || got != want {
		w.Errorf("exit code %d\n%s%s\nwant\n%s", r.code, got, r.err, want)
	}
}

func TestATreeGoesDownToTheLeavesOnARealAPIServer(t *testing.T) {
	w := newWorld(t)
	w.site("home", w.there)
	w.below("home-settings")
	tree := []string{"tree", "sites/" + w.here + "/home"}
	r := w.run(w.admin(), tree...)
	w.shows(r, `OBJECT | STATE MESSAGE
Site.example.com/here/home | Synced
├── configmaps/here/home-settings | -
└── configmaps/there/home-settings | - it is in another namespace than its owner: it is the owner's only if its source is open to that`)
	if !strings.Contains(r.err, "--deep only: configmaps") {
		t.Errorf("nothing says that there may be more:\n%s", r.err)
	}
	r = w.run(w.admin(), append(tree, "--deep")...)
	w.shows(r, `OBJECT | STATE MESSAGE
Site.example.com/here/home | Synced
├── configmaps/here/home-settings | -
│   ├── pods/here/worker | Running 1/1
│   └── secrets/here/token | -
└── configmaps/there/home-settings | - it is in another namespace than its owner: it is the owner's only if its source is open to that`)
	if r.err != "" {
		t.Errorf("nothing is left out, and it says\n%s", r.err)
	}
	w.shows(w.run("", tree...), `OBJECT | STATE MESSAGE
Site.example.com/here/home | Synced
└── Kubernetes: configmaps | not looked at (--kubeconfig)`)
}

func TestATraceGoesUpToTheDocumentOnARealAPIServer(t *testing.T) {
	w := newWorld(t)
	w.site("home", "")
	w.below("home-settings")
	w.shows(w.run(w.admin(), "trace", "configmap/"+w.here+"/home-settings"), `OBJECT | IN STATE MESSAGE
configmaps/here/home-settings | Kubernetes -
Site.example.com/here/home | NATS Synced`)
	w.shows(w.run(w.admin(), "trace", "po/worker", "-n", w.here), `OBJECT | IN STATE MESSAGE
pods/here/worker | Kubernetes Running 1/1
configmaps/here/home-settings | Kubernetes -
Site.example.com/here/home | NATS Synced`)
}

func TestWhoMayReadOneNamespaceSeesItAndReadsWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	w.site("home", w.there)
	w.below("home-settings")
	tree := []string{"tree", "sites/" + w.here + "/home"}
	for _, of := range []struct {
		what, kubeconfig string
		args             []string
		shown, hidden    []string
	}{
		{"one namespace", w.reader(w.here, "configmaps"), tree,
			[]string{"configmaps/here/home-settings", "looked at in namespace here alone: the user may not list",
				"(kubectl auth can-i list configmaps --all-namespaces; who administers the cluster grants it)"},
			[]string{"configmaps/there"}},
		{"another namespace, which is named", w.reader(w.there, "configmaps", "secrets"),
			append(slices.Clip(tree), "--kube-namespace", w.there),
			[]string{"configmaps/there/home-settings", "looked at in namespace there alone: the user may not list",
				"not looked at in namespace here: the user may not list configmaps in namespace here"},
			[]string{"configmaps/here"}},
		{"a namespace that has none of it", w.reader(w.there, "configmaps"), tree,
			[]string{"Kubernetes: configmaps", "not looked at: the user may not list configmaps", "kubectl auth can-i list"},
			[]string{"configmaps/"}},
		{"one resource of many", w.reader(w.here, "configmaps", "pods"), append(tree, "--deep"),
			[]string{"pods/here/worker", "not looked at: the user may not list them in namespace here", "and ", " more", "kubectl auth can-i --list -n here"}, []string{"secrets/here/token"}},
	} {
		r := w.run(of.kubeconfig, of.args...)
		got := w.lines(r.out)
		for _, words := range of.shown {
			if r.code != 0 || !strings.Contains(got, words) {
				t.Errorf("%s: exit code %d, and no %q in\n%s%s", of.what, r.code, words, got, r.err)
			}
		}
		for _, words := range of.hidden {
			if strings.Contains(got, words) {
				t.Errorf("%s: %q is in\n%s", of.what, words, got)
			}
		}
	}
	// Where nothing of the owner is in the namespace, it says so nevertheless.
	w.must(w.clientset.CoreV1().ConfigMaps(w.here).Delete(t.Context(), "home-settings", deleteNow))
	w.site("empty", "")
	w.must(w.clientset.CoreV1().ConfigMaps(w.here).Delete(t.Context(), "empty-settings", deleteNow))
	r := w.run(w.reader(w.here, "configmaps", "services"), "tree", "sites/"+w.here+"/empty")
	if !strings.Contains(w.lines(r.out), "looked at in namespace here alone") {
		t.Errorf("a look at a part has no note:\n%s%s", r.out, r.err)
	}
}

func TestATraceOfWhatTheUserMayNotReadSaysWhichRightIsMissing(t *testing.T) {
	w := newWorld(t)
	w.site("home", "")
	w.below("home-settings")
	r := w.run(w.reader(w.here, "configmaps"), "trace", "secret/"+w.here+"/token")
	if r.code != 6 || strings.Count(r.err, "\n") != 1 ||
		!strings.Contains(r.err, "kubectl auth can-i get secrets -n "+w.here) {
		t.Errorf("%+v", r)
	}
	// What is above is a step that could not be taken.
	r = w.run(w.reader(w.here, "pods"), "trace", "pod/"+w.here+"/worker", "-o", "json")
	var steps []struct{ Key, Note string }
	w.must(json.Unmarshal([]byte(r.out), &steps))
	if r.code != 0 || len(steps) != 1 || !strings.Contains(steps[0].Note, "kubectl auth can-i get configmaps -n "+w.here) {
		t.Errorf("%+v", r)
	}
}
