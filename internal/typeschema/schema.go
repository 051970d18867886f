// Package typeschema derives the JSON Schema (draft 2020-12) of the documents of a Go type, as package entity decodes
// and encodes them: metadata is optional, unknown members are allowed unless they are refused, and a status is read
// only.
//
// The reflection is that of github.com/invopop/jsonschema. What is added here is what encoding/json and Kubernetes do
// otherwise: types that decode themselves, null where Go writes it, keys of maps, the ranges of integers, secrets, and
// what comments and markers of kubebuilder say.
package typeschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"

	"github.com/invopop/jsonschema"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/jsonshape"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// SecretExtension marks what is secret, beside writeOnly.
const SecretExtension = "x-nagi-secret"

// Options say what is known of the documents beside their type.
type Options struct {
	Kind, APIVersion string
	Strict           bool     // unknown members are refused
	SecretFields     []string // as in entity.Config
	Source           fs.FS    // the Go files of the types' packages; nil if they are not at hand
}

// Result is what is known of a type.
type Result struct {
	Schema  json.RawMessage // nil for types that are known at run time only
	Columns []Column        // that markers on the type name
}

// Column is a column that a marker of kubebuilder names.
type Column struct {
	Name, Type, Path, Description string
	Priority                      int
}

// Of derives the schema of the documents of a type, which is a struct or a pointer to one.
func Of(t reflect.Type, o Options) (r Result, err error) {
	err = guard.Call(func() error {
		r, err = of(jsonshape.PointedOr(t), o)
		return err
	})
	if p, ok := err.(*guard.Panic); ok { // the library's way to refuse a type; a stack would not help
		err = fmt.Errorf("%v", p.Value)
	}
	if err != nil {
		return Result{}, fmt.Errorf("the JSON Schema of %v: %w", t, err)
	}
	return r, nil
}

func of(t reflect.Type, o Options) (Result, error) {
	if t == reflect.TypeFor[unstructured.Unstructured]() {
		return Result{}, nil
	}
	source, err := readComments(o.Source)
	if err != nil {
		return Result{}, err
	}
	if err := checkEnds(t); err != nil {
		return Result{}, err
	}
	d := &deriver{Options: o, source: source, types: map[string]reflect.Type{}, names: map[reflect.Type]string{}}
	root, err := d.reflect(t)
	if err != nil {
		return Result{}, err
	}
	d.finish(root)
	said := source.root(t, o.Kind)
	if said.text != "" {
		root["description"] = said.text
	}
	schema, err := json.Marshal(root)
	return Result{Schema: schema, Columns: columns(said.markers)}, err
}

// node is a schema as JSON.
type node = map[string]any

// deriver derives one schema.
type deriver struct {
	Options
	source comments
	types  map[string]reflect.Type // of the definitions, by name
	names  map[reflect.Type]string
	defs   node
}

// reflect returns the schema with the definitions beside it.
func (d *deriver) reflect(t reflect.Type) (node, error) {
	reflector := jsonschema.Reflector{
		Anonymous: true, AllowAdditionalProperties: true, RequiredFromJSONSchemaTags: true,
		Mapper: mapped, Namer: d.name, LookupComment: d.comment, AdditionalFields: members,
	}
	data, err := json.Marshal(reflector.ReflectFromType(t))
	if err != nil {
		return nil, err
	}
	var root node
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Errorf("it is no object: %w", err)
	}
	d.defs, _ = root["$defs"].(node)
	for name, def := range d.defs {
		if def, ok := def.(node); ok {
			d.adapt(def, d.types[name])
		}
	}
	if root["$ref"] == nil {
		d.adapt(root, t)
		return root, nil
	}
	return d.hoist(root, d.names[t]), nil
}

// hoist makes the definition of the root the root, for readers who look for its properties there.
func (d *deriver) hoist(root node, name string) node {
	def, _ := d.defs[name].(node)
	delete(root, "$ref")
	for member, value := range copied(def).(node) {
		root[member] = value
	}
	return root // the definition stays for a type that holds itself
}

const refPrefix = "#/$defs/"

// copied is a deep copy of JSON.
func copied(value any) any {
	switch value := value.(type) {
	case node:
		out := make(node, len(value))
		for name, member := range value {
			out[name] = copied(member)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, element := range value {
			out[i] = copied(element)
		}
		return out
	}
	return value
}
