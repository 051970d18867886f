// Package manifests reads and writes documents as people keep them: files of YAML and JSON, folders of them, and the
// standard input.
//
// The rule: what a file says is read as it is written. Numbers keep their digits, a member that stands twice is an
// error, and each error and each member knows its line and column.
package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// Stdin names the standard input among files.
const Stdin = "-"

// mostBytes bounds one file. A document of NATS is mostly below 1 MiB.
const mostBytes = 256 << 20

// Manifest is one document of a file.
type Manifest struct {
	File string // as it was named, or "standard input"
	Line int    // where the document begins, from 1
	// What says where the document goes. Each may be "".
	Kind, APIVersion, Namespace, Name string
	// Document is what the file says, with numbers as json.Number.
	Document map[string]any
	places   map[string]Place
}

// Place is a line and a column, both from 1; the zero value is no place.
type Place struct{ Line, Column int }

// Where is the file and the line of the document, for people.
func (m *Manifest) Where() string { return fmt.Sprintf("%s:%d", printable.Text(m.File), m.Line) }

// At is file, line and column of a member, such as spec.pages[2], or of the nearest above it that the file has.
func (m *Manifest) At(path string) string {
	for {
		if p, ok := m.places[path]; ok {
			return fmt.Sprintf("%s:%d:%d", printable.Text(m.File), p.Line, p.Column)
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return m.Where()
		}
		path = path[:cut]
	}
}

// Read reads files and folders in the order in which they are named, and the files of a folder in the order of the
// alphabet: *.yaml, *.yml and *.json, those of folders below only if recursive. It reads all before it returns, and the
// error is about the first that is wrong.
func Read(names []string, recursive bool, stdin io.Reader) ([]*Manifest, error) {
	var all []*Manifest
	for _, name := range names {
		if name == Stdin {
			found, err := readAll("standard input", stdin)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
			continue
		}
		files, err := expand(name, recursive)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := readFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// expand returns the files that a name means.
func expand(name string, recursive bool) ([]string, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file or folder %s", printable.Quote(name))
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var files []string
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != name && !recursive:
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			return nil
		}
		files = append(files, path)
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("folder %s has no *.yaml, *.yml or *.json: -R reads the folders below it, too",
			printable.Quote(name))
	}
	return files, err
}

func readFile(name string) ([]*Manifest, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(name, f)
}

func readAll(name string, r io.Reader) ([]*Manifest, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", printable.Text(name), err)
	}
	if len(text) > mostBytes {
		return nil, fmt.Errorf("%s has more than %d MiB: cut it into several files", printable.Text(name),
			mostBytes>>20)
	}
	return Parse(name, text)
}
