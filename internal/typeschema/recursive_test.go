package typeschema

import (
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"github.com/nagi-runtime/nagi/entity"
)

// Types that a schema has an end for: each time there is a definition between.
type (
	itself   []itself
	lists    []*lists
	fixed    [1]*fixed
	tree     map[string]tree
	trees    map[string]*trees
	numbered map[int]numbered
	node1    struct {
		Next  *node2           `json:"next,omitempty"`
		Below map[string]node1 `json:"below,omitempty"`
	}
	node2 struct {
		Next **node1 `json:"next,omitempty"`
	}
	generic[V any] struct {
		Value V           `json:"value"`
		Next  *generic[V] `json:"next,omitempty"`
	}
	unnamed struct {
		Rows []struct {
			Sub *unnamed `json:"sub,omitempty"`
		} `json:"rows,omitempty"`
	}
	diamond struct {
		left
		right
	}
	left  struct{ bottom }
	right struct{ bottom }
	// bottom is embedded twice.
	bottom struct {
		X int      `json:"x"`
		D *diamond `json:"d,omitempty"`
	}
	toStruct *node1
	renamed  struct {
		X     int      `json:"x"`
		Inner *renamed `json:"inner,omitempty"`
		*skipped
	}
	skipped struct {
		Y    int      `json:"y"`
		Self *skipped `json:"-"`
	}
	byAlias struct{ X int }
)

func (byAlias) JSONSchemaAlias() any { return node1{} }

// Types that it has no end for.
type (
	self struct {
		X int `json:"x"`
		//lint:ignore U1000 the library for schemas reads it
		*self
	}
	mutual1 struct {
		X int `json:"x"`
		*mutual2
	}
	mutual2 struct {
		Y int `json:"y"`
		mutual3
	}
	mutual3 struct {
		*mutual1
	}
	selfOf[V any] struct {
		Value V `json:"value"`
		//lint:ignore U1000 the library for schemas reads it
		*selfOf[V]
	}
	inlined struct {
		X     int      `json:"x"`
		Inner *inlined `json:",inline"`
	}
	pointer         *pointer
	pointers        **pointers
	pointer1        *pointer2
	pointer2        *pointer1
	pointerToList   *[]pointerToList
	pointerToMap    *map[string]pointerToMap
	pointerToStruct *struct {
		Next pointerToStruct `json:"next"`
	}
	ownAlias    struct{ X int }
	ownAliasOf1 struct{ X int }
	ownAliasOf2 struct{ X int }
)

func (ownAlias) JSONSchemaAlias() any    { return &ownAlias{} }
func (ownAliasOf1) JSONSchemaAlias() any { return ownAliasOf2{} }
func (ownAliasOf2) JSONSchemaAlias() any { return []ownAliasOf1{} }

type holds[V any] struct {
	V V `json:"v"`
}

func inSpec[V any]() reflect.Type   { return reflect.TypeFor[*entity.Object[holds[V], int]]() }
func asSpec[V any]() reflect.Type   { return reflect.TypeFor[*entity.Object[V, int]]() }
func asStatus[V any]() reflect.Type { return reflect.TypeFor[*entity.Object[int, V]]() }
func everywhere[V any]() []reflect.Type {
	return []reflect.Type{
		inSpec[V](), inSpec[*V](), inSpec[**V](), inSpec[[]V](), inSpec[map[string]V](), inSpec[struct{ F *V }](),
		asSpec[V](), asStatus[*V](), asSpec[holds[holds[V]]](),
	}
}

// TestATypeThatHoldsItselfHasASchema if it has an end.
func TestATypeThatHoldsItselfHasASchema(t *testing.T) {
	for _, types := range [][]reflect.Type{
		everywhere[itself](), everywhere[lists](), everywhere[fixed](), everywhere[tree](), everywhere[trees](),
		everywhere[numbered](), everywhere[node1](), everywhere[node2](), everywhere[generic[int]](),
		everywhere[generic[generic[string]]](), everywhere[unnamed](), everywhere[diamond](), everywhere[toStruct](),
		everywhere[renamed](), everywhere[byAlias](),
	} {
		for _, of := range types {
			for _, o := range []Options{{}, {Strict: true, SecretFields: []string{"spec.v.next.next"}}} {
				if s := derived(t, of, o); at(t, s, "properties", "metadata") == nil {
					t.Errorf("the schema of %v is %v", of, s)
				}
			}
		}
	}
}

// TestATypeWhoseSchemaHasNoEndIsAnError that says which types make the circle. A stack that overflows ends the process.
func TestATypeWhoseSchemaHasNoEndIsAnError(t *testing.T) {
	for says, types := range map[string][]reflect.Type{
		"typeschema.self embeds itself":                   everywhere[self](),
		"typeschema.mutual1 → typeschema.mutual2":         everywhere[mutual1](),
		"typeschema.mutual3 → typeschema.mutual1":         everywhere[mutual2](),
		"typeschema.selfOf[int] embeds itself":            everywhere[selfOf[int]](),
		"typeschema.inlined embeds itself":                everywhere[inlined](),
		"typeschema.pointer leads to itself":              everywhere[pointer](),
		"typeschema.pointers → *typeschema.pointers":      everywhere[pointers](),
		"typeschema.pointer2 → typeschema.pointer1":       everywhere[pointer1](),
		"typeschema.pointerToList → []typeschema.pointer": everywhere[pointerToList](),
		"typeschema.pointerToMap → map[string]":           everywhere[pointerToMap](),
		"typeschema.pointerToStruct → struct":             everywhere[pointerToStruct](),
		"typeschema.ownAlias leads to itself":             everywhere[ownAlias](),
		"typeschema.ownAliasOf2 → []":                     everywhere[ownAliasOf1](),
	} {
		for _, of := range types {
			r, err := Of(of, Options{})
			if err == nil || r.Schema != nil || !strings.Contains(err.Error(), "no end") {
				t.Errorf("%v: %s, error %v", of, r.Schema, err)
				continue
			}
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v: %v, want %q", of, err, says)
			}
		}
	}
}

// describedBy has a field of which a method says what it is.
type describedBy struct {
	Next any     `json:"next"`
	P    pointer `json:"p"`
}

func (describedBy) JSONSchemaProperty(name string) any {
	if name == "next" {
		return &describedBy{}
	}
	return ""
}

// ownSchema says what it is, whatever it looks like.
type ownSchema struct{ *self }

func (ownSchema) JSONSchema() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }

// TestWhatDescribesItselfIsNotLookedInto: the schema does not go there either.
func TestWhatDescribesItselfIsNotLookedInto(t *testing.T) {
	for _, of := range []reflect.Type{asSpec[describedBy](), inSpec[ownSchema](), inSpec[[]*ownSchema]()} {
		if _, err := Of(of, Options{}); err != nil {
			t.Errorf("%v: %v", of, err)
		}
	}
}
