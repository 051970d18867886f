// Package house tests how the packages of the module are cut: which may import which, and how large they may be.
package house

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	module = "github.com/nagi-runtime/nagi"
	root   = "../.."
)

// mayImport says which packages of the module a package may import. It may also import all that these may import. Data
// flows from the sources to the writes, and so do the imports. A new package needs a line here and in
// docs/architecture.md, and a new arrow a reason.
var mayImport = map[string][]string{
	// A delete marker that is a reply of the server deletes nothing.
	"natsinformer": {
		"internal/connection", "internal/denials", "internal/guard", "internal/kvstream", "internal/notify",
		"internal/turn",
	},
	"external": {"internal/dryrun", "internal/jsonshape"},
	"recorder": {"internal/denials", "internal/kvstream", "internal/printable"},
	"entity": {
		"natsinformer", "internal/dryrun", "internal/fence", "internal/intern", "internal/jsonshape",
		"internal/ownwrites", "internal/parts",
		"internal/mergediff", // an update keeps what a transform left out of what was read
		"internal/running",   // a controller watches for a callback of the client that does not return
	},
	"recorder/kuberecorder": {"recorder"},

	// Rooms that know nothing of documents.
	"internal/clicontext": {"internal/kvstream"},
	"internal/connection": {},
	"internal/denials":    {},
	"internal/dryrun":     {},
	"internal/jsonshape":  {},
	"internal/fence":      {},
	"internal/guard":      {},
	"internal/intern":     {},
	"internal/health":     {"internal/connection", "internal/notify"},
	"internal/kubeapi":    {},
	"internal/kvstream":   {},
	"internal/lease":      {"internal/kvstream", "internal/notify"},
	"internal/mergediff":  {"internal/jsonshape"},
	"internal/notify":     {"internal/printable"},
	"internal/operation":  {},
	"internal/ownwrites":  {},
	"internal/parts":      {},
	"internal/printable":  {},
	"internal/queue":      {"internal/operation"},
	"internal/retry":      {},
	"internal/running":    {"internal/health", "internal/printable"},
	"internal/shards":     {},
	"internal/turn":       {},
	"internal/typeschema": {"internal/guard", "internal/jsonshape"},

	// Rooms of the engine.
	"internal/owner":   {"entity"},
	"internal/deletes": {"internal/owner"}, // a source deletes with its permit alone
	"internal/causes":  {"natsinformer"},   // the messages that the informers get
	// The reconcile's writes and the sources' events meet in it.
	"internal/loops": {"internal/guard", "internal/mergediff", "internal/operation", "internal/printable"},
	"internal/source": {
		"internal/causes", "internal/deletes", "internal/guard", "internal/health", "internal/loops", "internal/queue",
	},
	"internal/record": {
		"internal/kvstream", "internal/owner", "internal/retry", "internal/shards", "internal/source",
	},
	"internal/kubesource":   {"internal/kubeapi", "internal/owner", "internal/retry", "internal/source"},
	"internal/kubewrites":   {"internal/kubesource", "internal/mergediff", "internal/owner", "internal/ownwrites"},
	"internal/apisource":    {"external", "internal/record", "internal/turn"},
	"internal/brake":        {"internal/owner", "internal/queue", "internal/record", "internal/turn"},
	"internal/reconcilectx": {"internal/apisource", "internal/owner", "internal/turn"},
	"internal/keytable":     {"internal/kubeapi", "internal/ownwrites", "internal/source"},
	// A prune asks the reconcile that has ended what it wants.
	"internal/lifecycle": {"internal/brake", "internal/keytable", "internal/lease", "internal/reconcilectx"},
	"internal/explain":   {"internal/lifecycle", "internal/running"},
	"internal/restore":   {"internal/explain"},
	"internal/secondary": {"internal/kubeapi", "internal/reconcilectx", "internal/retry"},
	"internal/engine": {
		"internal/causes", "internal/explain", "internal/kubesource", "internal/lifecycle", "internal/reconcilectx",
		"internal/restore", "internal/running", "internal/shards",
	},

	// What users import.
	"controller":        {"internal/engine", "internal/kubeapi", "internal/secondary"},
	"kube":              {"controller", "internal/kubewrites"},
	"metrics":           {"controller", "recorder"},
	"probes":            {"controller"},
	"probes/kubeauth":   {"probes"},                            // who asks a Kubernetes API server imports it
	"registry":          {"controller", "internal/typeschema"}, // it publishes what a controller's engine knows
	"controllerruntime": {"controller", "recorder/kuberecorder"},
	"traces":            {"controller"},
	"service":           {"controller"}, // it asks engines, and acts on them
	// It makes clients and runs controllers of both APIs, which it knows by their Run alone.
	"manager": {"controller", "recorder", "internal/clicontext", "internal/guard", "internal/turn"},
	// The page of the tool, for who asks for it: a manager runs it as any other runnable, and does not know it.
	"livepage": {"internal/nagi/page"},

	// The tool.
	"cmd/nagi":              {"internal/nagi/cli"},
	"internal/nagi/out":     {"internal/nagi/manifests", "internal/printable"},
	"internal/nagi/conn":    {"internal/clicontext"},
	"internal/nagi/ask":     {"service"},
	"internal/nagi/project": {},
	// The streams of buckets are what it keeps.
	"internal/nagi/backup": {"internal/denials", "internal/kvstream"},
	// What it prints is what a controller with all of these would print.
	"internal/nagi/setup": {"recorder", "registry", "service", "internal/kubeapi"},
	"internal/nagi/kinds": {
		"registry",
		"internal/nagi/out", // how an age is told
	},
	"internal/nagi/documents": {"internal/nagi/kinds"},
	"internal/nagi/manifests": {"internal/printable"},
	"internal/nagi/threeway":  {},
	"internal/nagi/screen":    {"internal/nagi/out"},
	"internal/nagi/follow":    {"entity"},
	"internal/nagi/tree": {
		"internal/nagi/ask", "internal/nagi/follow", "internal/nagi/kinds",
		"internal/owner", // whose an object is
	},
	"internal/nagi/page": {
		"internal/nagi/ask", "internal/nagi/documents", "internal/nagi/tree", "recorder", "internal/turn",
	},
	"internal/nagi/cli": {
		"internal/nagi/ask", "internal/nagi/backup", "internal/nagi/conn", "internal/nagi/documents",
		"internal/nagi/kinds", "internal/nagi/manifests", "internal/nagi/out", "internal/nagi/page",
		"internal/nagi/project", "internal/nagi/screen", "internal/nagi/setup",
		"internal/nagi/threeway", "internal/nagi/tree", "recorder",
		"internal/dryrun", // a dry run of apply writes in a plan
	},
}

// Limits of a file, a function and a line, tests apart. A package is as large as its concept.
const (
	mostFileLines     = 300
	mostFunctionLines = 60
	mostColumns       = 120
	tabColumns        = 4
)

// unfinished are packages whose files and functions may still be larger.
var unfinished = []string{"entity", "natsinformer", "external", "recorder"}

// clientset is client-go's typed clientset. It is large, and only the Kumori API and the events about Kubernetes
// objects need it.
const clientset = "k8s.io/client-go/kubernetes"

var mayUseClientset = []string{"controllerruntime", "recorder/kuberecorder"}

// leaderElection would add a quarter to a newcomer's first build; internal/lease replaces it.
const leaderElection = "k8s.io/client-go/tools/leaderelection"

// notRooms are folders that have no rooms: no room imports their packages.
var notRooms = []string{"test", "examples", "docs"}

// room is a package as its files show it, tests apart.
type room struct {
	path    string // below the module
	imports map[string]token.Position
	files   map[string]int // lines by name
	long    []string       // functions, with where they are and how long
	wide    []string       // lines of more than mostColumns, with where they are and how wide
}

// rooms reads all packages of the module but examples, tests and commands.
func rooms(t *testing.T) []*room {
	t.Helper()
	byPath := map[string]*room{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			hidden := strings.HasPrefix(entry.Name(), ".") && relative != "."
			if hidden || entry.Name() == "testdata" || slices.Contains(notRooms, relative) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(relative))
		if byPath[dir] == nil {
			byPath[dir] = &room{path: dir, imports: map[string]token.Position{}, files: map[string]int{}}
		}
		return byPath[dir].read(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []*room
	for _, r := range byPath {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *room) int { return strings.Compare(a.path, b.path) })
	return all
}

func (r *room) read(path string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := bytes.Count(source, []byte("\n"))
	r.files[filepath.Base(path)] = lines
	number := 0
	for line := range strings.Lines(string(source)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if n := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t"); n > mostColumns {
			r.wide = append(r.wide, fmt.Sprintf("%s:%d has %d columns", path, number, n))
		}
	}
	for _, spec := range file.Imports {
		r.imports[strings.Trim(spec.Path.Value, `"`)] = positions.Position(spec.Pos())
	}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from, to := positions.Position(function.Pos()), positions.Position(function.End())
		if n := to.Line - from.Line + 1; n > mostFunctionLines {
			name := function.Name.Name
			r.long = append(r.long, fmt.Sprintf("%s:%d: %s has %d lines", from.Filename, from.Line, name, n))
		}
	}
	return nil
}

// reachable returns the packages of the module that a package may import, directly or through others.
func reachable(path string) map[string]bool {
	found := map[string]bool{}
	var visit func(string)
	visit = func(from string) {
		for _, next := range mayImport[from] {
			if !found[next] {
				found[next] = true
				visit(next)
			}
		}
	}
	visit(path)
	return found
}

func TestNoArrowRunsUp(t *testing.T) {
	for path := range mayImport {
		if reachable(path)[path] {
			t.Errorf("%s may import itself, through others: mend mayImport", path)
		}
	}
	seen := map[string]bool{}
	for _, r := range rooms(t) {
		seen[r.path] = true
		if _, known := mayImport[r.path]; !known {
			t.Errorf("package %s is not in mayImport: say what it may import", r.path)
			continue
		}
		allowed := reachable(r.path)
		for imported, at := range r.imports {
			below, ours := strings.CutPrefix(imported, module+"/")
			if ours && !allowed[below] {
				t.Errorf("%v: %s must not import %s", at, r.path, below)
			}
		}
	}
	for path := range mayImport {
		if !seen[path] {
			t.Errorf("mayImport names %s, which is no package", path)
		}
	}
}

func TestTheTypedClientsetIsUsedInFewPlaces(t *testing.T) {
	for _, r := range rooms(t) {
		for imported, at := range r.imports {
			if strings.HasPrefix(imported, leaderElection) {
				t.Errorf("%v: %s imports client-go's leader election", at, r.path)
			}
			if !strings.HasPrefix(imported, clientset) {
				continue
			}
			allowed := func(path string) bool { return r.path == path || strings.HasPrefix(r.path, path+"/") }
			if !slices.ContainsFunc(mayUseClientset, allowed) {
				t.Errorf("%v: %s imports the typed clientset", at, r.path)
			}
		}
	}
}

func TestFilesAndFunctionsAreSmall(t *testing.T) {
	for _, r := range rooms(t) {
		for _, line := range r.wide {
			t.Errorf("%s, more than %d", line, mostColumns)
		}
		if slices.Contains(unfinished, r.path) {
			continue
		}
		for name, lines := range r.files {
			if lines > mostFileLines {
				t.Errorf("%s/%s has %d lines, more than %d", r.path, name, lines, mostFileLines)
			}
		}
		for _, function := range r.long {
			t.Errorf("%s, more than %d", function, mostFunctionLines)
		}
	}
}

// TestARoomThatBreaksARuleIsNoticed tests the reader itself: if it saw nothing, the other tests would pass.
func TestARoomThatBreaksARuleIsNoticed(t *testing.T) {
	dir := t.TempDir()
	long := "package bad\n\nimport _ \"" + module + "/entity\"\n\n" +
		"func F() {\n" + strings.Repeat("\t_ = 0\n", mostFunctionLines) + "}\n" +
		"\t// " + strings.Repeat("é", mostColumns-tabColumns-3) + "\n" + // fits
		"\t// " + strings.Repeat("é", mostColumns-tabColumns-2) + "\n"
	tooWide := strings.Count(long, "\n")
	path := filepath.Join(dir, "bad.go")
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &room{path: "bad", imports: map[string]token.Position{}, files: map[string]int{}}
	if err := r.read(path); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.imports[module+"/entity"]; !ok || len(r.long) != 1 || r.files["bad.go"] < mostFunctionLines {
		t.Errorf("read %+v", r)
	}
	if len(r.wide) != 1 || !strings.Contains(r.wide[0], fmt.Sprintf(":%d has %d columns", tooWide, mostColumns+1)) {
		t.Errorf("too wide: %q, want line %d alone", r.wide, tooWide)
	}
	if len(rooms(t)) < len(mayImport) {
		t.Error("not all packages were read")
	}
}

// TestNoRoomOfTheEngineReachesTheClientset, directly or through any module.
func TestNoRoomOfTheEngineReachesTheClientset(t *testing.T) {
	engine := []string{"controller"}
	for _, r := range rooms(t) {
		if strings.HasPrefix(r.path, "internal/") && !strings.HasPrefix(r.path, "internal/nagi/") {
			engine = append(engine, r.path)
		}
	}
	doNotReach(t, engine, clientset, leaderElection,
		"k8s.io/client-go/informers", "k8s.io/client-go/listers", "k8s.io/client-go/dynamic")
}

// TestOnlyTheRegistryReachesTheLibraryForSchemas.
func TestOnlyTheRegistryReachesTheLibraryForSchemas(t *testing.T) {
	doNotReach(t, []string{"entity", "controller", "kube", "controllerruntime"}, "github.com/invopop")
}

// TestTheToolHasNoTerminalFramework: it redraws with golang.org/x/term.
func TestTheToolHasNoTerminalFramework(t *testing.T) {
	doNotReach(t, []string{"cmd/nagi"}, "github.com/charmbracelet", "charm.land", "github.com/rivo", "github.com/gdamore",
		"github.com/nsf", "github.com/jroimartin", "github.com/awesome-gocui", "github.com/gizak", "github.com/mum4k")
}

// doNotReach checks that packages of the module depend on none of those that are forbidden, nor on what is below them.
func doNotReach(t *testing.T, packages []string, notBelow ...string) {
	t.Helper()
	args := []string{"list", "-deps"}
	for _, path := range packages {
		args = append(args, module+"/"+path)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("go list: %v\n%s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	for _, dependency := range strings.Fields(string(out)) {
		for _, forbidden := range notBelow {
			if dependency == forbidden || strings.HasPrefix(dependency, forbidden+"/") {
				t.Errorf("%v reach %s", packages, dependency)
			}
		}
	}
}

// TestWhatIsNotAskedForIsNotBuilt: metrics and traces weigh on those alone who import them. net/http/pprof serves the
// profiles on http.DefaultServeMux of each program that it is linked into.
func TestWhatIsNotAskedForIsNotBuilt(t *testing.T) {
	for path, unwanted := range map[string][]string{
		"controller": {"github.com/prometheus/", "go.opentelemetry.io/", "net/http/pprof", module + "/internal/nagi",
			"github.com/spf13/cobra", "github.com/synadia-io/orbit.go/natscontext"},
		"probes":  {"github.com/prometheus/", "go.opentelemetry.io/", "net/http/pprof"},
		"metrics": {"go.opentelemetry.io/", "net/http/pprof", clientset},
	} {
		out, err := exec.Command("go", "list", "-deps", module+"/"+path).Output()
		if err != nil {
			t.Fatal(err)
		}
		for dependency := range strings.Lines(string(out)) {
			for _, prefix := range unwanted {
				if strings.HasPrefix(dependency, prefix) {
					t.Errorf("%s depends on %s", path, strings.TrimSpace(dependency))
				}
			}
		}
	}
}
