package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/nagi-runtime/nagi/internal/printable"
	"go.yaml.in/yaml/v3"
)

// mostNodes bounds what the aliases of a document may blow up to.
const mostNodes = 1 << 19

// reader makes values of nodes, and notes where the members are.
type reader struct {
	file   string
	places map[string]Place
	above  int // lines above what YAML was given
	nodes  int
	within []*yaml.Node // the anchors whose aliases are being read
}

func (r *reader) wrong(n *yaml.Node, format string, args ...any) error {
	return r.wrongAt(Place{n.Line + r.above, n.Column}, fmt.Sprintf(format, args...))
}

func (r *reader) wrongAt(at Place, says string) error {
	return fmt.Errorf("%s:%d:%d: %s", printable.Text(r.file), at.Line, at.Column, says)
}

func (r *reader) value(n *yaml.Node, path string) (any, error) {
	if r.nodes++; r.nodes > mostNodes {
		return nil, r.wrong(n, "the document has more than %d values", mostNodes)
	}
	if len(r.within) == 0 {
		r.places[path] = Place{n.Line + r.above, n.Column}
	}
	switch n.Kind {
	case yaml.AliasNode:
		if slices.Contains(r.within, n.Alias) {
			return nil, r.wrong(n, "the alias contains itself")
		}
		r.within = append(r.within, n.Alias)
		v, err := r.value(n.Alias, path)
		r.within = r.within[:len(r.within)-1]
		return v, err
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			v, err := r.value(item, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		return r.object(n, path)
	}
	return r.scalar(n)
}

func (r *reader) object(n *yaml.Node, path string) (map[string]any, error) {
	object := make(map[string]any, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return nil, r.wrong(key, "the name of a member is text")
		}
		name := key.Value
		if _, twice := object[name]; twice {
			return nil, r.wrong(key, "member %s stands there twice", printable.Quote(name))
		}
		below := name
		if path != "" {
			below = path + "." + name
		}
		v, err := r.value(value, below)
		if err != nil {
			return nil, err
		}
		object[name] = v
	}
	for _, from := range merged {
		if err := r.merge(object, from, path); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// merge adds what "<<" names and the object does not say itself.
func (r *reader) merge(object map[string]any, from *yaml.Node, path string) error {
	v, err := r.value(from, path)
	if err != nil {
		return err
	}
	all, isList := v.([]any)
	if !isList {
		all = []any{v}
	}
	for _, one := range all {
		members, ok := one.(map[string]any)
		if !ok {
			return r.wrong(from, "<< names an object")
		}
		for name, v := range members {
			if _, has := object[name]; !has {
				object[name] = v
			}
		}
	}
	return nil
}

func (r *reader) scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var v bool
		if err := n.Decode(&v); err != nil {
			return nil, r.wrong(n, "%s", printable.Message(err.Error()))
		}
		return v, nil
	case "!!int", "!!float":
		if isNumber(n.Value) {
			return json.Number(n.Value), nil
		}
		return r.number(n)
	}
	return n.Value, nil // text, a time as it is written, and binary as base64
}

// isNumber reports whether a text is a number of JSON.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid([]byte(text))
}

// number is one that YAML writes in other ways than JSON does: 0x10, +1, 1_000, .5.
func (r *reader) number(n *yaml.Node) (any, error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, r.wrong(n, "%s", printable.Message(err.Error()))
	}
	switch v := v.(type) {
	case int, int64, uint64:
		return json.Number(fmt.Sprint(v)), nil
	case float64:
		if text := strconv.FormatFloat(v, 'g', -1, 64); isNumber(text) {
			return json.Number(text), nil
		}
	}
	return nil, r.wrong(n, "%s is no number that a document can have", printable.Quote(n.Value))
}

// YAML is a value as YAML: members in the order of the alphabet, numbers as they are written.
func YAML(v any) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(node(v)); err != nil {
		return nil, err
	}
	err := e.Close()
	return b.Bytes(), err
}

func node(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			n.Content = append(n.Content, text(name), node(v[name]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range v {
			n.Content = append(n.Content, node(item))
		}
		return n
	case string:
		return text(v)
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()} // a tag would be shown of what no Go type holds
	}
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return text(fmt.Sprint(v))
	}
	return &n
}

// notText are texts that YAML 1.1, which Kubernetes reads, takes for a truth value or a number.
var notText = regexp.MustCompile(`^(?i:y|yes|on|n|no|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$`)

func text(s string) *yaml.Node {
	var n yaml.Node
	if n.SetString(s); notText.MatchString(s) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return &n
}
