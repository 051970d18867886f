package typeschema

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

type (
	shallow struct {
		Name  int    `json:"name"`
		Tied  string `json:"tied" jsonschema:"required"`
		Other string `json:"other"`
	}
	// Deeper has a name that is hidden, wherever it stands.
	Deeper struct {
		Deepest
		Below string `json:"below"`
	}
	Deepest struct {
		Name string `json:"name"`
	}
	tied struct {
		Tied string `json:"tied" jsonschema:"required"`
	}
)

// TestPropertiesAreTheMembersThatAreDecoded: each has the schema of the field that counts, and what no field takes is
// refused where unknown members are.
func TestPropertiesAreTheMembersThatAreDecoded(t *testing.T) {
	for name, test := range map[string]struct {
		of    reflect.Type
		names []string
		types map[string]string
	}{
		"the least depth counts": {reflect.TypeFor[struct {
			shallow
			Deeper
		}](), []string{"below", "name", "other", "tied"}, map[string]string{"name": "integer"}},
		"several at one depth": {reflect.StructOf([]reflect.StructField{ // which a compiler's checks would warn of
			{Name: "A", Type: reflect.TypeFor[shallow](), Anonymous: true},
			{Name: "B", Type: reflect.TypeFor[tied](), Anonymous: true},
		}), []string{"name", "other"}, nil},
		"inline has no meaning for a field with a name": {reflect.TypeFor[struct {
			In shallow `json:",inline"`
		}](), []string{"In"}, nil},
		"an option that does not fit": {reflect.TypeFor[struct {
			In     Deepest `json:"in,embed"`
			Number int     `json:",embed"`
		}](), []string{"Number", "in"}, map[string]string{"Number": "integer"}},
		"embedded by a tag": {reflect.TypeFor[struct {
			In Deepest `json:",embed"`
		}](), []string{"name"}, map[string]string{"name": "string"}},
	} {
		s := derived(t, test.of, Options{Strict: true})
		properties, _ := at(t, s, "properties").(map[string]any)
		if names := slices.Sorted(maps.Keys(properties)); !slices.Equal(names, test.names) {
			t.Errorf("%s: the properties are %q, want %q", name, names, test.names)
		}
		for member, want := range test.types {
			if got := at(t, s, "properties", member, "type"); got != want {
				t.Errorf("%s: %q is of type %v, want %s", name, member, got, want)
			}
		}
		required, _ := s["required"].([]any)
		for _, member := range required {
			if properties[member.(string)] == nil {
				t.Errorf("%s: %q is required, and no member", name, member)
			}
		}
		if s["additionalProperties"] != false {
			t.Errorf("%s: %v is open", name, s)
		}
	}
}
