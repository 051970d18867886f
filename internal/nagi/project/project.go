// Package project makes the files of a program with controllers, and adds a kind to one that it made.
//
// The rule: what it makes builds, passes its tests and runs at once, and nothing that is there is written over.
package project

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// Project is a program with controllers.
type Project struct {
	Dir    string
	Module string // its path, as example.com/sites
	// Version is that of Nagi which the program requires. Source is a directory with the source of Nagi that is taken
	// instead; "" for none.
	Version, Source string
}

// Name is that of the program.
func (p Project) Name() string { return p.Module[strings.LastIndexByte(p.Module, '/')+1:] }

// Kind is a kind that is added.
type Kind struct {
	Kind       string // as Website
	APIVersion string // as example.com/v1; "" for none
	Bucket     string
	Namespaced bool
}

// File is the name of its files, without an ending.
func (k Kind) File() string { return strings.ToLower(k.Kind) }

// Variable is a name for one of it.
func (k Kind) Variable() string { return strings.ToLower(k.Kind[:1]) + k.Kind[1:] }

//go:embed files
var files embed.FS

var (
	kindNames   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	bucketNames = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	modulePaths = regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+(/[A-Za-z0-9._~-]+)+$`)
)

// Check says what is wrong with the names.
func (k Kind) Check() error {
	switch {
	case !kindNames.MatchString(k.Kind):
		return fmt.Errorf("%q is no kind: want a name as Website, of letters and digits, with a capital at its front",
			k.Kind)
	case !bucketNames.MatchString(k.Bucket):
		return fmt.Errorf("%q is no name of a bucket: want letters, digits, - and _", k.Bucket)
	case slices.Contains([]string{"controllers", "setup", "main", "test", "doc"}, k.File()):
		return fmt.Errorf("a kind %s would have a file that the project has already: choose another name", k.Kind)
	}
	return nil
}

// planned are files to write, by their names below the project.
type planned map[string][]byte

// Init makes the files of a program with one kind, in a directory that is empty or not there. It returns their names.
func (p Project) Init(k Kind) ([]string, error) {
	if !modulePaths.MatchString(p.Module) {
		return nil, fmt.Errorf("%q is no path of a module: want one as example.com/sites (--module)", p.Module)
	}
	if err := k.Check(); err != nil {
		return nil, err
	}
	if there, err := os.ReadDir(p.Dir); err == nil && len(there) > 0 {
		return nil, fmt.Errorf("%s is not empty: name a new directory; nagi create kind NAME adds a kind to a project",
			p.Dir)
	}
	plan := planned{}
	if err := errors.Join(p.render(plan, "files/project", k), p.render(plan, "files/kind", k)); err != nil {
		return nil, err
	}
	return p.write(plan)
}

// AddKind adds a kind to a project that Init made. It returns the names of the files that it wrote.
func (p Project) AddKind(k Kind) ([]string, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	setup := filepath.Join("internal", "controllers", "setup.go")
	text, err := os.ReadFile(filepath.Join(p.Dir, setup))
	if err != nil {
		return nil, fmt.Errorf("%s is no project that nagi init made: %w", p.Dir, err)
	}
	before, after, ok := bytes.Cut(text, []byte(marker))
	if !ok {
		return nil, fmt.Errorf("%s lacks the line %q, before which a kind is added: put it back where the others are",
			setup, strings.TrimSpace(marker))
	}
	plan := planned{}
	if err := p.render(plan, "files/kind", k); err != nil {
		return nil, err
	}
	for name := range plan {
		if _, err := os.Stat(filepath.Join(p.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is there already: delete it, or choose another kind", name)
		}
	}
	plan[setup] = slices.Concat(before, []byte("add"+k.Kind+",\n\t\t"+marker), after)
	return p.write(plan)
}

const marker = "// More kinds come here: nagi create kind NAME."

// Module reads the path of the module in a directory.
func Module(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("%s is no project: %w", dir, err)
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(path), nil
		}
	}
	return "", fmt.Errorf("%s names no module", filepath.Join(dir, "go.mod"))
}

// render fills in the templates below a folder. "KIND" in a name is that of the kind.
func (p Project) render(plan planned, below string, k Kind) error {
	return fs.WalkDir(files, below, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		source, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		t, err := template.New(path).Delims("<<", ">>").Option("missingkey=error").Parse(string(source))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, struct {
			Project
			Kind   Kind
			Marker string
		}{p, k, marker}); err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimSuffix(path, ".tmpl"), below+"/")
		name = strings.NewReplacer("KIND", k.File(), "DOT", ".").Replace(name)
		text := b.Bytes()
		if strings.HasSuffix(name, ".go") {
			if text, err = format.Source(text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		plan[filepath.FromSlash(name)] = text
		return nil
	})
}

// write writes files, each as a whole. Those that were written before an error stay.
func (p Project) write(plan planned) (names []string, err error) {
	for name := range plan {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		path := filepath.Join(p.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, plan[name], 0o644); err != nil {
			return nil, err
		}
	}
	return names, nil
}
