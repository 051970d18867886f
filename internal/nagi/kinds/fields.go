package kinds

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Field is what the schema of a kind says of a member, or of the document itself. Its texts are as they are.
type Field struct {
	Path        string `json:"path,omitempty"` // spec.hosts; "" for the document
	Name        string `json:"name,omitempty"`
	Type        string `json:"type"` // string, []string, map[string]Object, Object, any
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
	ReadOnly    bool   `json:"readOnly,omitempty"`
	Secret      bool   `json:"secret,omitempty"`
	// Rules are what holds for its value, such as `enum: "light", "dark"`.
	Rules []string `json:"rules,omitempty"`
	// Fields are its members, those of its elements, or those of its values, in the order of their names.
	Fields []Field `json:"fields,omitempty"`
	// Recurs says that its members are not listed, because it is inside of one like itself.
	Recurs bool `json:"recurs,omitempty"`
}

// mostLevels bounds how deep a schema is followed.
const mostLevels = 32

// Field describes the member at a path, with its members: one level, or all with recursive. Steps into an array or a
// map need no word. apimachinery's IsNotFound holds for the error where there is no such member.
func (k *Kind) Field(path []string, recursive bool) (*Field, error) {
	root := k.schemaTree()
	if root == nil {
		return nil, notFound("the registry has no schema of %s: its controller knows it at run time only, or the kind "+
			"is not in the registry", printable.Text(k.Name()))
	}
	d := describer{secrets{root}}
	n := d.node(root)
	f := &Field{}
	d.describe(f, n)
	for _, name := range path {
		name = strings.TrimSuffix(name, "[]")
		inside := n.inside(d)
		of, required, ok := inside.member(name)
		if !ok {
			err := notFound("%s has no member %s%s", printable.Text(strings.TrimSuffix(k.Name()+"."+f.Path, ".")),
				printable.Quote(name), known(inside.names()))
			return nil, err
		}
		f = &Field{Path: strings.TrimPrefix(f.Path+"."+of, "."), Name: of, Required: required}
		n = d.node(inside.schemaOf(of))
		d.describe(f, n)
	}
	levels := 1
	if recursive {
		levels = mostLevels
	}
	d.members(f, n, levels, nil)
	return f, nil
}

func notFound(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound,
		Reason: metav1.StatusReasonNotFound, Message: fmt.Sprintf(format, args...)}}
}

func known(names []string) string {
	if len(names) == 0 {
		return ": it has none that the schema names"
	}
	for i := range names {
		names[i] = printable.Text(names[i])
	}
	return ": it has " + strings.Join(names, ", ")
}

// describer follows the references of one schema.
type describer struct{ secrets }

// node is a schema with what it refers to: a member is looked up in each, and the first that has it counts.
type node struct {
	all  []map[string]any
	refs []string
}

// node collects a schema, what it refers to, and its alternatives but null.
func (d describer) node(schema map[string]any) (n node) {
	var add func(s map[string]any, depth int)
	add = func(s map[string]any, depth int) {
		if s == nil || depth > mostRefs {
			return
		}
		n.all = append(n.all, s)
		if ref, ok := s["$ref"].(string); ok && !slices.Contains(n.refs, ref) {
			n.refs = append(n.refs, ref)
			add(d.resolve(ref), depth+1)
		}
		for _, word := range []string{"allOf", "anyOf", "oneOf"} {
			alternatives, _ := s[word].([]any)
			for _, one := range alternatives {
				if sub, ok := one.(map[string]any); ok && sub["type"] != "null" {
					add(sub, depth+1)
				}
			}
		}
	}
	add(schema, 0)
	return n
}

// word is what the first schema says that has it.
func (n node) word(name string) any {
	for _, s := range n.all {
		if v, ok := s[name]; ok {
			return v
		}
	}
	return nil
}

func (n node) sub(name string) map[string]any {
	s, _ := n.word(name).(map[string]any)
	return s
}

// inside is the element of an array or the value of a map, however deep, and else the node itself.
func (n node) inside(d describer) node {
	for range mostLevels {
		switch {
		case n.sub("items") != nil:
			n = d.node(n.sub("items"))
		case n.sub("properties") == nil && n.sub("additionalProperties") != nil:
			n = d.node(n.sub("additionalProperties"))
		default:
			return n
		}
	}
	return n
}

func (n node) names() (names []string) {
	for _, s := range n.all {
		properties, _ := s["properties"].(map[string]any)
		names = slices.AppendSeq(names, maps.Keys(properties))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// member finds a member by its name, or by one that differs in case alone.
func (n node) member(name string) (exact string, required, ok bool) {
	names := n.names()
	i := slices.Index(names, name)
	if i < 0 {
		i = slices.IndexFunc(names, func(s string) bool { return strings.EqualFold(s, name) })
	}
	if i < 0 {
		return "", false, false
	}
	return names[i], n.requires(names[i]), true
}

func (n node) requires(name string) bool {
	return slices.ContainsFunc(n.all, func(s map[string]any) bool {
		required, _ := s["required"].([]any)
		return slices.Contains(required, any(name))
	})
}

func (n node) schemaOf(member string) map[string]any {
	for _, s := range n.all {
		properties, _ := s["properties"].(map[string]any)
		if of, ok := properties[member].(map[string]any); ok {
			return of
		}
	}
	return nil
}

// rules are the words of a schema that say what holds for a value.
var rules = []string{
	"enum", "const", "default", "format", "pattern", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum",
	"multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
	"deprecated",
}

// describe fills in what a schema says of the member itself.
func (d describer) describe(f *Field, n node) {
	f.Type = d.typeOf(n, 0)
	f.Description, _ = n.word("description").(string)
	f.ReadOnly = n.word("readOnly") == true
	f.Secret = n.word("x-nagi-secret") == true || n.word("writeOnly") == true
	for _, word := range rules {
		v := n.word(word)
		if v == nil || v == false {
			continue
		}
		f.Rules = append(f.Rules, word+": "+ruleText(v))
	}
}

func ruleText(v any) string {
	switch v := v.(type) {
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, ruleText(one))
		}
		return strings.Join(all, ", ")
	case json.Number:
		return v.String()
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// typeOf is the type as Go would write it, with Object for a struct.
func (d describer) typeOf(n node, depth int) string {
	if depth > mostLevels {
		return "any"
	}
	if items := n.sub("items"); items != nil {
		return "[]" + d.typeOf(d.node(items), depth+1)
	}
	if n.sub("properties") != nil {
		return "Object"
	}
	if values := n.sub("additionalProperties"); values != nil {
		return "map[string]" + d.typeOf(d.node(values), depth+1)
	}
	var types []string
	switch t := n.word("type").(type) {
	case string:
		types = append(types, t)
	case []any:
		for _, one := range t {
			if s, ok := one.(string); ok && s != "null" {
				types = append(types, s)
			}
		}
	}
	if len(types) == 0 {
		return "any"
	}
	for i, t := range types {
		types[i] = map[string]string{"object": "Object", "array": "[]any"}[t]
		if types[i] == "" {
			types[i] = t
		}
	}
	return strings.Join(types, " or ")
}

// members lists those of a member for so many levels. within are the references that it is inside of.
func (d describer) members(f *Field, n node, levels int, within []string) {
	inside := n.inside(d)
	refs := append(slices.Clone(n.refs), inside.refs...)
	for _, ref := range refs {
		if slices.Contains(within, ref) {
			f.Recurs = true
			return
		}
	}
	if levels == 0 {
		return
	}
	within = append(slices.Clone(within), refs...)
	for _, name := range inside.names() {
		member := Field{Path: strings.TrimPrefix(f.Path+"."+name, "."), Name: name, Required: inside.requires(name)}
		of := d.node(inside.schemaOf(name))
		d.describe(&member, of)
		if levels > 1 {
			d.members(&member, of, levels-1, within)
		}
		f.Fields = append(f.Fields, member)
	}
}
