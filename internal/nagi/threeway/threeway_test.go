package threeway

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func object(t *testing.T, text string) (v map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestApplyDecidesWhatTheManifestNames(t *testing.T) {
	for name, c := range map[string]struct{ last, manifest, current, want string }{
		"what others wrote stays":        {`{}`, `{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`},
		"what is named no more goes":     {`{"a":1,"b":2}`, `{"a":1}`, `{"a":1,"b":2,"c":3}`, `{"a":1,"c":3}`},
		"deep":                           {`{"o":{"a":1,"b":2}}`, `{"o":{"a":1}}`, `{"o":{"a":0,"b":2,"c":3}}`, `{"o":{"a":1,"c":3}}`},
		"an object with others' members": {`{"o":{"a":1}}`, `{}`, `{"o":{"a":1,"c":3}}`, `{"o":{"c":3}}`},
		"an object without":              {`{"o":{"a":{"b":1}}}`, `{}`, `{"o":{"a":{"b":1}},"x":1}`, `{"x":1}`},
		"an empty object":                {`{"o":{}}`, `{}`, `{"o":{}}`, `{}`},
		"an object becomes text":         {`{"o":{"a":1}}`, `{"o":"x"}`, `{"o":{"a":1,"c":3}}`, `{"o":"x"}`},
		"text becomes an object":         {`{"o":"x"}`, `{"o":{"a":1}}`, `{"o":"x"}`, `{"o":{"a":1}}`},
		"null":                           {`{"a":1}`, `{"a":null,"o":{"b":null,"c":1}}`, `{"a":1,"o":{"b":1}}`, `{"o":{"c":1}}`},
		"lists as a whole":               {`{"l":[1,2]}`, `{"l":[3]}`, `{"l":[1,2,4]}`, `{"l":[3]}`},
		"numbers":                        {`{}`, `{"n":9007199254740993}`, `{"n":9007199254740992}`, `{"n":9007199254740993}`},
	} {
		got := Apply(Names(object(t, c.last)), object(t, c.manifest), object(t, c.current))
		if text(t, got) != c.want {
			t.Errorf("%s: %s, want %s", name, text(t, got), c.want)
		}
	}
}

func TestNamesHaveNoValues(t *testing.T) {
	const want = `{"a":true,"l":true,"o":{"b":true}}`
	if got := text(t, Names(object(t, `{"a":"s1","l":["s2",{"x":"s3"}],"o":{"b":"s4","n":null}}`))); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestDiffIsThePatchThatMakesTheOther(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":1}`, `{"a":1}`, `{}`},
		{`{"a":1,"b":{"c":1,"d":2}}`, `{"b":{"c":2,"d":2},"e":[1]}`, `{"a":null,"b":{"c":2},"e":[1]}`},
		{`{"a":null}`, `{}`, `{}`},
		{`{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":null}}`},
		{`{"a":1}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		{`{"n":1}`, `{"n":1.0}`, `{"n":1.0}`},
	} {
		from, to := object(t, c[0]), object(t, c[1])
		patch := Diff(from, to)
		if got := text(t, patch); got != c[2] {
			t.Errorf("from %s to %s: %s, want %s", c[0], c[1], got, c[2])
		}
		if again := Diff(Patch(from, patch), to); len(again) > 0 {
			t.Errorf("from %s to %s: %s leaves %v", c[0], c[1], text(t, patch), again)
		}
	}
}

func TestMergeNamesWhatBothHaveChanged(t *testing.T) {
	base := object(t, `{"a":1,"b":1,"c":1,"o":{"x":1,"y":1},"gone":1}`)
	mine := object(t, `{"a":2,"b":1,"c":2,"o":{"x":2,"y":1},"new":1}`)
	theirs := object(t, `{"a":1,"b":3,"c":3,"o":{"x":1,"y":3},"gone":2}`)
	merged, conflicts := Merge(base, mine, theirs)
	if got := text(t, merged); got != `{"a":2,"b":3,"c":2,"new":1,"o":{"x":2,"y":3}}` {
		t.Error(got)
	}
	if !reflect.DeepEqual(conflicts, []string{"c", "gone"}) {
		t.Error(conflicts)
	}
}
