package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
	"go.yaml.in/yaml/v3"
)

// Parse reads the documents of a text. Empty ones are skipped, and of one of the kind List its items are read. Those of
// JSON may stand one after the other.
func Parse(file string, text []byte) ([]*Manifest, error) {
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		if all, isJSON, err := parseJSON(file, text); isJSON {
			return all, err
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var all []*Manifest
	for {
		var node yaml.Node
		err := d.Decode(&node)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, syntax(file, err)
		}
		root := content(&node)
		if root.Kind == 0 || root.ShortTag() == "!!null" {
			continue
		}
		r := reader{file: file, places: map[string]Place{}}
		value, err := r.value(root, "")
		if err == nil {
			all, err = r.documents(all, value)
		}
		if err != nil {
			return nil, err
		}
	}
}

func content(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		return n.Content[0]
	}
	return n
}

// parseJSON reads a text that is nothing but JSON. What YAML makes of it tells where the members are, and which stand
// there twice; the values are JSON's.
func parseJSON(file string, text []byte) (all []*Manifest, isJSON bool, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		start := int(d.InputOffset())
		start += len(text[start:]) - len(bytes.TrimLeft(text[start:], " \t\r\n"))
		var value any
		err := d.Decode(&value)
		if errors.Is(err, io.EOF) {
			return all, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		r := reader{file: file, places: map[string]Place{}, above: bytes.Count(text[:start], []byte("\n"))}
		r.places[""] = Place{1 + r.above, 1}
		var node yaml.Node
		one := bytes.ReplaceAll(text[start:d.InputOffset()], []byte("\t"), []byte(" "))
		if yaml.Unmarshal(one, &node) == nil {
			if _, err := r.value(content(&node), ""); err != nil {
				return nil, true, err
			}
		}
		if all, err = r.documents(all, value); err != nil {
			return nil, true, err
		}
	}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// syntax is an error about text that is no YAML, with the line where the decoder stopped.
func syntax(file string, err error) error {
	says := err.Error()
	at := ""
	if m := yamlLine.FindStringSubmatch(says); m != nil {
		at, says = ":"+m[1], strings.TrimPrefix(says, m[0])
	}
	return fmt.Errorf("%s%s: %s", printable.Text(file), at, printable.Message(strings.TrimPrefix(says, "yaml: ")))
}

// documents adds the manifests of a document.
func (r *reader) documents(all []*Manifest, value any) ([]*Manifest, error) {
	root := r.places[""]
	object, ok := value.(map[string]any)
	if !ok {
		return nil, r.wrongAt(root, "a document is an object, with members such as kind, metadata and spec")
	}
	items, isList := object["items"].([]any)
	if kind, _ := object["kind"].(string); kind != "List" || !isList {
		m, err := manifest(r.file, root.Line, object, r.places)
		return append(all, m), err
	}
	for i, item := range items {
		object, ok := item.(map[string]any)
		prefix := fmt.Sprintf("items[%d]", i)
		at := r.places[prefix]
		if !ok {
			return nil, r.wrongAt(at, "an item of a List is a document")
		}
		places := map[string]Place{"": at}
		for path, place := range r.places {
			if rest, ok := strings.CutPrefix(path, prefix+"."); ok {
				places[rest] = place
			}
		}
		m, err := manifest(r.file, at.Line, object, places)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// manifest reads where a document goes.
func manifest(file string, line int, object map[string]any, places map[string]Place) (*Manifest, error) {
	m := &Manifest{File: file, Line: line, Document: object, places: places}
	text := func(from map[string]any, name, path string, into *string) error {
		switch v := from[name].(type) {
		case nil:
		case string:
			*into = v
		default:
			return fmt.Errorf("%s: %s is text: put it in quotes", m.At(path), path)
		}
		return nil
	}
	meta, isObject := object["metadata"].(map[string]any)
	if object["metadata"] != nil && !isObject {
		return nil, fmt.Errorf("%s: metadata is an object, with members such as name", m.At("metadata"))
	}
	return m, errors.Join(
		text(object, "kind", "kind", &m.Kind),
		text(object, "apiVersion", "apiVersion", &m.APIVersion),
		text(meta, "name", "metadata.name", &m.Name),
		text(meta, "namespace", "metadata.namespace", &m.Namespace))
}

// JSON is a value as JSON, with numbers as they are written and nothing escaped that need not be.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// FromJSON reads a JSON object with numbers as they are written.
func FromJSON(text []byte) (object map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&object); err == nil && object == nil {
		err = errors.New("it is no JSON object")
	}
	return object, err
}
