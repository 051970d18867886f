package jsonshape

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

type linked struct {
	Name string             `json:"name"`
	Pw   string             `json:"pw,omitempty" nagi:"secret"`
	Next map[string]*linked `json:"next,omitempty"`
	List peers              `json:"list,omitempty"`
}

type peers []*linked

type base struct {
	Token string `json:"token,omitempty" nagi:"secret"`
	Both  string `json:"both"`
}

type outerOfSecrets struct {
	base
	*Hidden `nagi:"secret"`
	Both    *linked `json:"both,omitempty"` // not base's
	Tree    linked  `json:"tree"`
	Untold  string  `nagi:"secret"`
	Out     string  `json:"-" nagi:"secret"`
	Any     any     `json:"any,omitempty"`
}

type Hidden struct {
	A, B string `json:",omitempty"`
	c    string
}

func drop(t *testing.T, f *Secrets, document string) string {
	t.Helper()
	out, err := f.Drop([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTaggedFieldsAreDroppedAtAnyDepth(t *testing.T) {
	deep := linked{Name: "n", Pw: "x", List: peers{{Name: "m", Pw: "x"}}}
	document, err := json.Marshal(outerOfSecrets{
		base: base{Token: "x"}, Hidden: &Hidden{A: "x", B: "x", c: "x"}, Untold: "x", Out: "x", Both: &deep,
		Tree: linked{Name: "o", Next: map[string]*linked{"p": &deep}}, Any: []any{"y"},
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := SecretsOf(reflect.TypeFor[*outerOfSecrets]())
	if err != nil {
		t.Fatal(err)
	}
	const kept = `{"name":"n","list":[{"name":"m"}]}`
	want := `{"both":` + kept + `,"tree":{"name":"o","next":{"p":` + kept + `}},"any":["y"]}`
	if got := drop(t, f, string(document)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if again, _ := SecretsOf(reflect.TypeFor[*outerOfSecrets]()); again != f {
		t.Error("the type was read again")
	}
}

// Another reader of the document takes these for the field, too.
func TestNamesAreComparedWithoutRegardToCase(t *testing.T) {
	f, err := SecretsOf(reflect.TypeFor[base]())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{`TOKEN`, `\u0074oken`, "to\u212aen"} {
		if got := drop(t, f, `{"`+name+`":"x", "token":{"deep":"x"},"both":"y"}`); got != `{"both":"y"}` {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestPathsAndTagsAddUp(t *testing.T) {
	f, err := SecretsOf(reflect.TypeFor[outerOfSecrets]())
	if err != nil {
		t.Fatal(err)
	}
	f, err = f.With([]string{"tree.name", "any.users[].key", "any.all.*.key", "any.list[]"}, reflect.TypeFor[outerOfSecrets]())
	if err != nil {
		t.Fatal(err)
	}
	got := drop(t, f, `{"token":"x","tree":{"name":"x","pw":"x"},`+
		`"any":{"users":[{"key":"x","a":1},3],"all":{"o":{"key":"x"},"p":[]},"list":["x",["x"]],"key":"y"}}`)
	want := `{"tree":{},"any":{"users":[{"a":1},3],"all":{"o":{},"p":[]},"list":[null,null],"key":"y"}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !f.Has("Token") || !f.Has("any") || f.Has("both2") {
		t.Error("Has is wrong")
	}
}

// TestATagThatOnlySomePackagesKnowCounts for documents of all, whichever is built in.
func TestATagThatOnlySomePackagesKnowCounts(t *testing.T) {
	type secret struct {
		Pw   string `json:"pw" nagi:"secret"`
		Note string `json:"note"`
	}
	type document struct {
		Embed   secret            `json:",embed"`
		Pointer *secret           `json:",inline"`
		Rest    map[string]secret `json:",unknown"`
		Odd     string
	}
	of := slices.Collect(reflect.TypeFor[document]().Fields())
	of[3].Tag = `json:"'it''s'" nagi:"secret"` // a compiler's checks would say that it is wrong
	all := reflect.StructOf(of)
	f, err := SecretsOf(all)
	if err != nil {
		t.Fatal(err)
	}
	for document, want := range map[string]string{
		`{"pw":"x","note":"n"}`:                `{"note":"n"}`,
		`{"Embed":{"pw":"x","note":"n"}}`:      `{"Embed":{"note":"n"}}`,
		`{"Pointer":{"pw":"x","note":"n"}}`:    `{"Pointer":{"note":"n"}}`,
		`{"Rest":{"k":{"pw":"x","note":"n"}}}`: `{"Rest":{"k":{"note":"n"}}}`,
		`{"k":{"pw":"x","note":"n"}}`:          `{"k":{"note":"n"}}`,
		`{"Odd":"x","it":"x"}`:                 `{}`,
	} {
		if got := drop(t, f, document); got != want {
			t.Errorf("%s becomes %s, want %s", document, got, want)
		}
	}
	for _, path := range []string{"pw", "Embed.pw", "Pointer.note", "Rest.k.pw", "k.pw"} {
		if _, err := (*Secrets)(nil).With([]string{path}, all); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := f.Within([]string{"k", "pw", "x"}); got != 2 {
		t.Errorf("%d steps lead to a secret, want 2", got)
	}
}

// TestPathsOfAllMembersHoldForThoseWithAPathOfTheirOwn.
func TestPathsOfAllMembersHoldForThoseWithAPathOfTheirOwn(t *testing.T) {
	f, err := (*Secrets)(nil).With([]string{"spec.main.token", "spec.*.key", "spec.*.*.deep", "spec.main.auth.pw"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := drop(t, f, `{"spec":{"main":{"token":"x","key":"x","auth":{"pw":"x","deep":"x","a":1}},`+
		`"MAIN":{"key":"x","token":"x","b":1},"other":{"key":"x","token":2}}}`)
	want := `{"spec":{"main":{"auth":{"a":1}},"MAIN":{"b":1},"other":{"token":2}}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAPathThatATypeCannotHaveNamesWhatWasMeant(t *testing.T) {
	for path, says := range map[string]string{
		"tree.nmae":        `is it "name"?`,
		"tree.list.pw":     `write "[]" after the array's name`,
		"tree.next[].pw":   `"*" for all`,
		"tree.next.a.zzzz": "it has list, name, next, pw",
		"token.a":          "nothing below a string",
		"":                 "a path is written as",
		"tree..name":       "a path is written as",
		"[]":               "a path is written as",
	} {
		_, err := (*Secrets)(nil).With([]string{path}, reflect.TypeFor[outerOfSecrets]())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := (*Secrets)(nil).With([]string{"spec.any[].thing"}, nil); err != nil {
		t.Error(err)
	}
}

func TestAMisspeltTagIsAnError(t *testing.T) {
	type wrong struct {
		A string `nagi:"secrets"`
	}
	if _, err := SecretsOf(reflect.TypeFor[[]wrong]()); err == nil || !strings.Contains(err.Error(), `only nagi:"secret"`) {
		t.Error(err)
	}
	type Inside struct {
		Name string `json:"-" nagi:"secrets"`
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[struct{ Inside }](), reflect.TypeFor[struct{ In []struct{ *Inside } }](),
	} {
		if _, err := SecretsOf(of); err == nil || !strings.Contains(err.Error(), "Name") {
			t.Errorf("%v: %v", of, err)
		}
	}
}

func TestWhatHasNoSecretsCostsNothing(t *testing.T) {
	f, err := SecretsOf(reflect.TypeFor[struct{ A []string }]())
	if f != nil || err != nil {
		t.Fatal(f, err)
	}
	document := []byte(`{"A":["a"]}`)
	if n := testing.AllocsPerRun(100, func() { _, _ = f.Drop(document) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheErrorOfABrokenDocumentHoldsNothingOfIt(t *testing.T) {
	f, err := SecretsOf(reflect.TypeFor[base]())
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{`{"token":"s3cr3t`, `{"both":s3cr3t}`, `{"token":"a"]`, `{"both":[s3cr3t]}`, `[s`} {
		if _, err := f.Drop([]byte(document)); err == nil || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", document, err)
		}
	}
}
