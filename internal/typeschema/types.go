package typeschema

import (
	"encoding"
	"encoding/json"
	"net/url"
	"reflect"

	"github.com/invopop/jsonschema"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Patterns of what types decode from a string.
const (
	durationPattern = `^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$` // time.ParseDuration
	quantityPattern = `^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)` +
		`([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$` // resource.ParseQuantity
	microTimePattern = `\.[0-9]{6}(Z|[-+][0-9]{2}:[0-9]{2})$` // the six digits of metav1.RFC3339Micro
	base64Pattern    = `^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
	integerPattern   = `^-?[0-9]+$`
	naturalPattern   = `^[0-9]+$`
)

// preserveUnknown is Kubernetes' extension for any JSON.
const preserveUnknown = "x-kubernetes-preserve-unknown-fields"

func typed(name string) *jsonschema.Schema { return &jsonschema.Schema{Type: name} }

// orNull is for types that take null as their zero value, and write it.
func orNull(s *jsonschema.Schema) *jsonschema.Schema {
	s.Extras = map[string]any{"type": []string{s.Type, "null"}}
	s.Type = ""
	return s
}

// known are the schemas of types whose Go structure says nothing of their JSON.
var known = map[reflect.Type]func() *jsonschema.Schema{
	reflect.TypeFor[metav1.ObjectMeta](): metadata,
	reflect.TypeFor[metav1.Time](): func() *jsonschema.Schema {
		return orNull(&jsonschema.Schema{Type: "string", Format: "date-time"})
	},
	reflect.TypeFor[metav1.MicroTime](): func() *jsonschema.Schema {
		return orNull(&jsonschema.Schema{Type: "string", Format: "date-time", Pattern: microTimePattern})
	},
	reflect.TypeFor[metav1.Duration](): func() *jsonschema.Schema {
		return &jsonschema.Schema{
			Type: "string", Pattern: durationPattern, Examples: []any{"1h30m"},
		}
	},
	reflect.TypeFor[resource.Quantity](): func() *jsonschema.Schema {
		return &jsonschema.Schema{
			AnyOf:   []*jsonschema.Schema{typed("number"), typed("string")},
			Pattern: quantityPattern, Examples: []any{"500m", "2Gi"},
		}
	},
	reflect.TypeFor[intstr.IntOrString](): func() *jsonschema.Schema {
		number := typed("integer")
		number.Minimum, number.Maximum = bounds(reflect.Int32)
		return &jsonschema.Schema{
			AnyOf:  []*jsonschema.Schema{number, typed("string")},
			Extras: map[string]any{"x-kubernetes-int-or-string": true},
		}
	},
	reflect.TypeFor[runtime.RawExtension](): anything,
	reflect.TypeFor[json.RawMessage]():      anything,
	reflect.TypeFor[json.Number]():          func() *jsonschema.Schema { return typed("number") },
	// It decodes from its fields, and has no text of its own.
	reflect.TypeFor[url.URL](): func() *jsonschema.Schema { return typed("object") },
}

func anything() *jsonschema.Schema {
	return &jsonschema.Schema{Extras: map[string]any{preserveUnknown: true}}
}

// metadata is what matters of metav1.ObjectMeta. All of it is optional: the key says name and namespace.
func metadata() *jsonschema.Schema {
	strings := func() *jsonschema.Schema {
		return orNull(&jsonschema.Schema{Type: "object", AdditionalProperties: typed("string")})
	}
	list := func(of *jsonschema.Schema, description string) *jsonschema.Schema {
		return orNull(&jsonschema.Schema{Type: "array", Items: of, Description: description})
	}
	properties := jsonschema.NewProperties()
	add := func(name string, s *jsonschema.Schema) { properties.Set(name, s) }
	described := func(s *jsonschema.Schema, description string) *jsonschema.Schema {
		s.Description = description
		return s
	}
	add("name", described(typed("string"), "The name that the key has. Leave it out, or make them equal."))
	add("namespace", described(typed("string"), "The namespace that the key has. Leave it out, or make them equal."))
	add("labels", strings())
	add("annotations", strings())
	add("finalizers", list(typed("string"), "Without effect in NATS."))
	add("ownerReferences", list(typed("object"), "Without effect in NATS."))
	const noMeaning = "It has no meaning in a document."
	for _, name := range []string{"generateName", "selfLink", "uid", "resourceVersion"} {
		add(name, readOnly(described(typed("string"), noMeaning)))
	}
	for _, name := range []string{"generation", "deletionGracePeriodSeconds"} {
		add(name, readOnly(described(typed("integer"), noMeaning)))
	}
	for _, name := range []string{"creationTimestamp", "deletionTimestamp"} {
		add(name, readOnly(described(orNull(&jsonschema.Schema{Type: "string", Format: "date-time"}), noMeaning)))
	}
	add("managedFields", readOnly(list(typed("object"), noMeaning)))
	return &jsonschema.Schema{Type: "object", Properties: properties}
}

func readOnly(s *jsonschema.Schema) *jsonschema.Schema {
	s.ReadOnly = true
	return s
}

// mapped is the schema of a type that is not what its Go structure looks like; nil for others. Each call returns a new
// one, to which tags of a field may be added.
func mapped(t reflect.Type) *jsonschema.Schema {
	if of, ok := known[t]; ok {
		return of()
	}
	if describesItself(t) || t == timeType {
		return nil
	}
	if s := openAPI(t); s != nil {
		return s
	}
	pointer := reflect.PointerTo(t)
	switch {
	case pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return &jsonschema.Schema{}
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return typed("string")
	}
	if low, high := bounds(t.Kind()); low != "" {
		return &jsonschema.Schema{Type: "integer", Minimum: low, Maximum: high}
	}
	return nil
}

// describesItself reports whether a type has methods that the library asks.
func describesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[interface{ JSONSchema() *jsonschema.Schema }]()) ||
		t.Implements(reflect.TypeFor[interface{ JSONSchemaAlias() any }]())
}

// openAPI is for types of Kubernetes that name their OpenAPI type; nil for others.
func openAPI(t reflect.Type) *jsonschema.Schema {
	if t.Kind() == reflect.Struct && t.NumField() > 0 && t.Field(0).Anonymous {
		return nil // the methods may be those of what is embedded
	}
	value := reflect.New(t).Interface()
	of, ok := value.(interface{ OpenAPISchemaType() []string })
	if !ok {
		return nil
	}
	s := &jsonschema.Schema{}
	if types := of.OpenAPISchemaType(); len(types) == 1 {
		s.Type = types[0]
	} else if len(types) > 1 {
		s.Extras = map[string]any{"type": types}
	}
	if of, ok := value.(interface{ OpenAPISchemaFormat() string }); ok {
		s.Format = of.OpenAPISchemaFormat()
	}
	return s
}

// bounds of the kinds of integers. The least and the largest of 64 bits are numbers that many JSON libraries round, so
// they are not told.
func bounds(kind reflect.Kind) (low, high json.Number) {
	switch kind {
	case reflect.Int8:
		return "-128", "127"
	case reflect.Int16:
		return "-32768", "32767"
	case reflect.Int32:
		return "-2147483648", "2147483647"
	case reflect.Uint8:
		return "0", "255"
	case reflect.Uint16:
		return "0", "65535"
	case reflect.Uint32:
		return "0", "4294967295"
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return "0", ""
	}
	return "", ""
}
