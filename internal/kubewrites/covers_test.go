package kubewrites

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// TestWhatManagedFieldsCover tells drift for a process that did not apply the object itself.
func TestWhatManagedFieldsCover(t *testing.T) {
	const ports = `"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},"k:{\"containerPort\":53,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}`
	for name, test := range map[string]struct {
		managed, config string
		want            bool
	}{
		"all":      {`{"f:data":{"f:a":{},"f:b":{}}}`, `{"data":{"a":"1","b":"2"}}`, true},
		"one lost": {`{"f:data":{"f:a":{}}}`, `{"data":{"a":"1","b":"2"}}`, false},
		"all of a map lost": {`{"f:metadata":{"f:labels":{"f:x":{}}}}`,
			`{"metadata":{"labels":{"x":"1"}},"data":{"a":"1"}}`, false},
		"name and type are in none": {`{"f:data":{"f:a":{}}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"},"data":{"a":"1"}}`, true},
		"a label lost": {`{"f:metadata":{"f:labels":{"f:x":{}}}}`,
			`{"metadata":{"labels":{"x":"1","y":"1"}}}`, false},
		"atom": {`{"f:spec":{"f:selector":{},"f:args":{}}}`,
			`{"spec":{"selector":{"a":"b"},"args":["x","y"]}}`, true},
		"empty struct": {`{"f:spec":{"f:strategy":{},"f:list":{}}}`, `{"spec":{"strategy":{},"list":[]}}`,
			true},
		"empty struct that another filled and took": {`{"f:spec":{"f:strategy":{"f:type":{}}}}`,
			`{"spec":{"strategy":{}}}`, false},
		"list by key, key defaulted": {`{"f:spec":{` + ports + `}}`,
			`{"spec":{"ports":[{"containerPort":80},{"containerPort":53,"protocol":"UDP"}]}}`, true},
		"list by key, an item lost": {`{"f:spec":{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}`, `{"spec":{"ports":[{"containerPort":80},{"containerPort":53,"protocol":"UDP"}]}}`, false},
		"list by key, a field of an item lost": {`{"f:spec":{` + ports + `}}`,
			`{"spec":{"ports":[{"containerPort":80,"name":"web"},{"containerPort":53,"protocol":"UDP"}]}}`, false},
		"list by key, two may be meant": {`{"f:spec":{"f:ports":{"k:{\"containerPort\":53,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},"k:{\"containerPort\":53,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}}}`, `{"spec":{"ports":[{"containerPort":53},{"containerPort":53,"protocol":"UDP"}]}}`, false},
		"set": {`{"f:metadata":{"f:finalizers":{"v:\"a\"":{},"v:\"b\"":{}}}}`,
			`{"metadata":{"finalizers":["a","b"]}}`, true},
		"set, one lost": {`{"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}`,
			`{"metadata":{"finalizers":["a","b"]}}`, false},
	} {
		set := &fieldpath.Set{}
		if err := set.FromJSON(strings.NewReader(test.managed)); err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal([]byte(test.config), &config); err != nil {
			t.Fatal(err)
		}
		if got := CoverFields(set, config); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
