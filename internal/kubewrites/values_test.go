package kubewrites

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func setOf(t *testing.T, text string) *fieldpath.Set {
	t.Helper()
	set := &fieldpath.Set{}
	if err := set.FromJSON(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return set
}

func fieldsOf(t *testing.T, text string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// TestValues: what differs in the manager's fields differs, and nothing else does.
func TestValues(t *testing.T) {
	const ports = `{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}`
	for name, test := range map[string]struct {
		set, one, other string
		equal           bool
	}{
		"another value":       {`{"f:a":{}}`, `{"a":1}`, `{"a":2}`, false},
		"another's field":     {`{"f:a":{}}`, `{"a":1,"b":1}`, `{"a":1,"b":2}`, true},
		"nothing":             {`{"f:a":{}}`, `{"a":1}`, `{}`, false},
		"empty in many ways":  {`{"f:a":{},"f:b":{},"f:c":{}}`, `{"a":0,"b":"","c":{}}`, `{"c":null}`, true},
		"true for nothing":    {`{"f:a":{}}`, `{"a":false}`, `{"a":true}`, false},
		"deeper":              {`{"f:a":{"f:b":{}}}`, `{"a":{"b":1,"c":1}}`, `{"a":{"b":2,"c":1}}`, false},
		"another's deeper":    {`{"f:a":{"f:b":{}}}`, `{"a":{"b":1,"c":1}}`, `{"a":{"b":1,"c":2}}`, true},
		"an atom":             {`{"f:a":{}}`, `{"a":{"b":[1,2]}}`, `{"a":{"b":[2,1]}}`, false},
		"members in an order": {`{"f:a":{}}`, `{"a":{"b":1,"c":2}}`, `{"a":{"c":2,"b":1}}`, true},
		"items in an order": {ports, `{"ports":[{"port":80,"protocol":"TCP","name":"a"},{"port":1,"protocol":"TCP"}]}`,
			`{"ports":[{"port":1,"protocol":"TCP"},{"port":80,"protocol":"TCP","name":"a"}]}`, true},
		"another's field of an item": {ports, `{"ports":[{"port":80,"protocol":"TCP","name":"a","nodePort":1}]}`,
			`{"ports":[{"port":80,"protocol":"TCP","name":"a","nodePort":2}]}`, true},
		"a field of an item": {ports, `{"ports":[{"port":80,"protocol":"TCP","name":"a"}]}`,
			`{"ports":[{"port":80,"protocol":"TCP","name":"b"}]}`, false},
		"an item gone":          {ports, `{"ports":[{"port":80,"protocol":"TCP","name":"a"}]}`, `{"ports":[]}`, false},
		"a value of a set gone": {`{"f:a":{"v:1":{},"v:2":{}}}`, `{"a":[1,2]}`, `{"a":[1]}`, false},
		"an item by its place":  {`{"f:a":{"i:1":{}}}`, `{"a":[1,2]}`, `{"a":[1,3]}`, false},
		"not what the set says": {`{"f:a":{"f:b":{}}}`, `{"a":{"b":1}}`, `{"a":"text"}`, false},
	} {
		set, one, other := setOf(t, test.set), fieldsOf(t, test.one), fieldsOf(t, test.other)
		if equal := FieldValues(set, one) == FieldValues(set, other); equal != test.equal {
			t.Errorf("%s: %v, want %v", name, equal, test.equal)
		}
		if have := HaveFields(set, one, other); have && !test.equal {
			t.Errorf("%s: Have says so", name)
		}
	}
	// A field that somebody took out of the set.
	fields := fieldsOf(t, `{"a":1}`)
	if FieldValues(setOf(t, `{"f:a":{}}`), fields) == FieldValues(setOf(t, `{}`), fields) {
		t.Error("a set without a field has the digest of one with it")
	}
}

// TestInDoubtAConfigurationIsNotWhatIsThere.
func TestInDoubtAConfigurationIsNotWhatIsThere(t *testing.T) {
	for name, test := range map[string]struct {
		set, live, configured string
		have                  bool
	}{
		"a key with a default": {`{"f:keys":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}`,
			`{"keys":[{"port":80,"protocol":"TCP"}]}`, `{"keys":[{"port":80}]}`, true},
		"maybe others' in an empty struct, maybe ours": {`{"f:podSelector":{}}`,
			`{"podSelector":{"matchLabels":{"only":"this"}}}`, `{"podSelector":{}}`, false},
		"an empty value of ours that is not wanted": {`{"f:data":{"f:a":{},"f:b":{}}}`,
			`{"data":{"a":"1","b":""}}`, `{"data":{"a":"1"}}`, false},
		"an empty value that is wanted": {`{"f:data":{"f:a":{}}}`, `{"data":{"a":""}}`, `{"data":{"a":""}}`, true},
	} {
		if have := HaveFields(setOf(t, test.set), fieldsOf(t, test.live), fieldsOf(t, test.configured)); have != test.have {
			t.Errorf("%s: %v, want %v", name, have, test.have)
		}
	}
}
