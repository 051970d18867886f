package typeschema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type backend struct {
	Key  string   `json:"key,omitempty"`
	Next *backend `json:"next,omitempty"`
}

type spec struct {
	Main     backend            `json:"main,omitzero"`
	Backends map[string]backend `json:"backends,omitempty"`
	Users    []struct {
		Token string `json:"token,omitempty"`
	} `json:"users,omitempty"`
	Conditions []metav1.Condition `json:"conditions"`
	Rest       map[string]any     `json:",embed"`
}

type site = entity.Object[spec, entity.Object[string, int]] // a status of the same generic type

func derived(t *testing.T, of reflect.Type, o Options) node {
	t.Helper()
	r, err := Of(of, o)
	if err != nil {
		t.Fatal(err)
	}
	var schema node
	if err := json.Unmarshal(r.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// at follows a path of members.
func at(t *testing.T, value any, path ...string) any {
	t.Helper()
	for _, name := range path {
		value = value.(node)[name]
	}
	return value
}

func TestAPathMarksOneUseOfATypeAndNotTheOthers(t *testing.T) {
	s := derived(t, reflect.TypeFor[*site](), Options{SecretFields: []string{
		"spec.backends.*.key", "spec.users[].TOKEN", "spec.nothing.there",
	}})
	inSpec := func(path ...string) any {
		return at(t, s, append([]string{"properties", "spec", "properties"}, path...)...)
	}
	for _, path := range [][]string{
		{"backends", "additionalProperties", "properties", "key", SecretExtension},
		{"users", "items", "properties", "token", SecretExtension},
		{"users", "items", "properties", "token", "writeOnly"},
	} {
		if inSpec(path...) != true {
			t.Errorf("%v is %v", path, inSpec(path...))
		}
	}
	if inSpec("main", "$ref") != "#/$defs/backend" || at(t, s, "$defs", "backend", "properties", "key", SecretExtension) != nil {
		t.Errorf("the path marks what others use: %v", s)
	}
}

// TestASecretIsMarkedWhicheverFieldOfItsNameCounts: those who show documents go by the schema.
func TestASecretIsMarkedWhicheverFieldOfItsNameCounts(t *testing.T) {
	type below struct {
		Token string `json:"token"`
		Plain string `json:"plain"`
	}
	type deep struct{ below }
	type marked struct {
		Token string `json:"token" nagi:"secret"`
	}
	type document struct {
		deep
		marked
	}
	s := derived(t, reflect.TypeFor[*entity.Object[document, struct{}]](), Options{})
	members := at(t, s, "$defs", "document", "properties").(node)
	if at(t, members, "token", SecretExtension) != true || at(t, members, "token", "writeOnly") != true ||
		at(t, members, "plain", SecretExtension) != nil {
		t.Errorf("the schema is %v", members)
	}
}

func TestTypesOfOneNameHaveDefinitionsOfTheirOwn(t *testing.T) {
	s := derived(t, reflect.TypeFor[*site](), Options{Kind: "Site"})
	ref := at(t, s, "properties", "status", "$ref").(string)
	if ref == "#/$defs/Object" || strings.ContainsAny(ref[len(refPrefix):], "[]/.") {
		t.Errorf("the status refers to %s", ref)
	}
	if at(t, s, "properties", "spec", "$ref") != "#/$defs/spec" || at(t, s, "$defs", "Object") != nil {
		t.Errorf("the schema is %v", s)
	}
}

func TestATypeThatTakesTheRestIsOpenWhereOthersAreClosed(t *testing.T) {
	s := derived(t, reflect.TypeFor[*site](), Options{Strict: true})
	if at(t, s, "$defs", "spec", "additionalProperties") != true || s["additionalProperties"] != false ||
		at(t, s, "$defs", "backend", "additionalProperties") != false || at(t, s, "$defs", "spec", "properties", "Rest") != nil {
		t.Errorf("the schema is %v", s)
	}
}

func TestTypesOfKubernetesDescribeThemselves(t *testing.T) {
	s := derived(t, reflect.TypeFor[*site](), Options{})
	reason := at(t, s, "$defs", "Condition", "properties", "reason")
	if text, _ := at(t, reason, "description").(string); !strings.HasPrefix(text, "reason contains") {
		t.Errorf("no description of a condition's reason: %v", reason)
	}
	types, _ := at(t, s, "$defs", "spec", "properties", "conditions", "type").([]any)
	if !slices.Equal(types, []any{"array", "null"}) {
		t.Errorf("a list that Go writes as null is a %v", types)
	}
}

func TestWhatHasNoSchemaIsAnErrorAndNoPanic(t *testing.T) {
	if _, err := Of(reflect.TypeFor[*entity.Object[chan int, int]](), Options{}); err == nil ||
		!strings.Contains(err.Error(), "chan int") || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("a channel: %v", err)
	}
	if _, err := Of(reflect.TypeFor[*site](), Options{Source: fstest.MapFS{"x.go": {Data: []byte("packag x")}}}); err == nil ||
		!strings.Contains(err.Error(), "x.go") {
		t.Errorf("a file that is not Go: %v", err)
	}
	if r, err := Of(reflect.TypeFor[*unstructured.Unstructured](), Options{}); err != nil || r.Schema != nil {
		t.Errorf("unstructured: %v, %v", r, err)
	}
}

func TestEachMarkerIsAKeyword(t *testing.T) {
	source := fstest.MapFS{"x.go": {Data: []byte("package typeschema\n\ntype backend struct {\n" + `
	// Key is it.
	// +kubebuilder:validation:MinLength:=2
	// +kubebuilder:validation:Pattern=` + "`^a,b$`" + `
	// +kubebuilder:validation:Enum={"a","b"}
	// +kubebuilder:validation:Maximum=text
	// +kubebuilder:validation:Unheard=1
	// +optional
	// +kubebuilder:default:="a"
	Key string
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:ExclusiveMinimum=true
	Next int
}
`)}}
	s := derived(t, reflect.TypeFor[*site](), Options{Source: source})
	want := node{
		"description": "Key is it.", "type": "string", "minLength": 2.0, "pattern": "^a,b$", "enum": []any{"a", "b"},
		"default": "a",
	}
	if got := at(t, s, "$defs", "backend", "properties", "key"); !reflect.DeepEqual(got, want) {
		t.Errorf("the key is %v, want %v", got, want)
	}
	next := at(t, s, "$defs", "backend", "properties", "next")
	if at(t, next, "exclusiveMinimum") != 1.0 || at(t, next, "minimum") != nil ||
		!reflect.DeepEqual(at(t, s, "$defs", "backend", "required"), []any{"next"}) {
		t.Errorf("next is %v in %v", next, s)
	}
}

func TestColumnsOfMarkers(t *testing.T) {
	source := fstest.MapFS{"x.go": {Data: []byte(`package any

import "fmt"

// +kubebuilder:printcolumn:name="A, b",type=string,JSONPath=".spec.a",priority=2
// +kubebuilder:printcolumn:name=C,type="date",JSONPath=` + "`.status.c`" + `,description='x=y'

// Site is one.
type Site = fmt.Stringer
`)}}
	r, err := Of(reflect.TypeFor[*site](), Options{Kind: "Site", Source: source})
	if err != nil {
		t.Fatal(err)
	}
	want := []Column{
		{Name: "A, b", Type: "string", Path: "$.spec.a", Priority: 2},
		{Name: "C", Type: "date", Path: "$.status.c", Description: "x=y"},
	}
	if !slices.Equal(r.Columns, want) || !strings.Contains(string(r.Schema), `"description":"Site is one."`) {
		t.Errorf("the columns are %+v, the schema is %s", r.Columns, r.Schema)
	}
}

// TestOfTwoTypesWithOneNameTheSameIsTakenEachTime: an entry of the registry is written when it changes.
func TestOfTwoTypesWithOneNameTheSameIsTakenEachTime(t *testing.T) {
	source := comments{}
	for _, pkg := range []string{"b", "a", "c", "d", "e"} {
		source[pkg+".Site"] = comment{text: pkg}
	}
	for range 100 {
		if of := source.root(reflect.TypeFor[struct{ X int }](), "Site"); of.text != "a" {
			t.Fatalf("it takes the one of package %q", of.text)
		}
	}
}
