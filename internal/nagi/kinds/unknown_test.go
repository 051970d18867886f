package kinds

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/registry"
)

func TestMembersThatASchemaLeavesOpenAreKnown(t *testing.T) {
	for _, c := range []struct{ schema, document, want string }{
		{`{"properties":{"spec":{"properties":{"host":{}}}}}`, `{"spec":{"host":1,"HOST":2,"hsot":3}}`, "spec.hsot→spec.host"},
		{`{"properties":{"spec":{"properties":{"a":{}},"additionalProperties":true}}}`, `{"spec":{"b":1}}`, ""},
		{`{"properties":{"spec":{"properties":{"a":{}},"additionalProperties":{"properties":{"x":{}}}}}}`,
			`{"spec":{"b":{"y":1}}}`, "spec.b.y"},
		{`{"properties":{"spec":{"properties":{"a":{}},"additionalProperties":false}}}`, `{"spec":{"longer":1}}`, "spec.longer"},
		{`{"properties":{"spec":{"properties":{"a":{}},"patternProperties":{"^x-":{}}}}}`, `{"spec":{"x-b":1,"ybcd":1}}`, "spec.ybcd"},
		{`{"properties":{"spec":{"type":"object"}}}`, `{"spec":{"b":1}}`, ""},
		{`{"properties":{"spec":true}}`, `{"spec":{"b":1}}`, ""},
		{`{}`, `{"spec":{"b":1},"metadata":{"lables":{}}}`, "metadata.lables→metadata.labels"},
		{``, `{"spek":{"b":1},"metadata":{"labels":{"any":"x"}}}`, ""},
		{`{"properties":{"spec":{}}}`, `{"spek":1,"kind":"K","apiVersion":"v1","status":{"x":1},"record":{}}`, "spek→spec"},
		{`{"$defs":{"H":{"properties":{"name":{},"below":{"items":{"$ref":"#/$defs/H"}}}}},
			"properties":{"spec":{"anyOf":[{"$ref":"#/$defs/H"},{"type":"null"}]}}}`,
			`{"spec":{"below":[{"name":1},{"below":[{"nane":1}]}]}}`, "spec.below[1].below[0].nane→spec.below[1].below[0].name"},
		{`{"properties":{"spec":{"oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}}}`, `{"spec":{"a":1,"b":1,"long":1}}`,
			"spec.long"},
		{`{"properties":{"spec":{"anyOf":[{"properties":{"a":{}}},{"type":"object"}]}}}`, `{"spec":{"long":1}}`, ""},
		{`{"properties":{"spec":{"properties":{"a":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}}}`, `{"spec":{"long":1}}`,
			"spec.long"},
		{`{"properties":{"spec":{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}}}`, `{"spec":{"a":1,"b":2}}`, ""},
		{`{"properties":{"spec":{"properties":{"a":{}},"then":{"properties":{"b":{}}}}}}`, `{"spec":{"b":2}}`, ""},
		{`{"properties":{"spec":{"$ref":"https://elsewhere/x"}}}`, `{"spec":{"b":2}}`, ""},
		{`{"$ref":"#"}`, `{"spec":{"b":2}}`, ""},
		{`{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`, `{"spec":{"b":2}}`, ""}, // it ends
		{`{"properties":{"spec":{"properties":{"a.b":{}}}}}`, `{"spec":{"a.c":2}}`, "spec.a.c→spec.a.b"},
	} {
		k := &Kind{Entry: &registry.Entry{Kind: "K", Schema: json.RawMessage(c.schema)}}
		document, err := decodeJSON([]byte(c.document))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, u := range k.Unknown(document) {
			found = append(found, strings.TrimSuffix(u.Path+"→"+u.Meant, "→"))
		}
		if got := strings.Join(found, " "); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.document, c.schema, got, c.want)
		}
	}
}

func TestANameIsMeantThatDiffersInAKeyOrTwo(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"hots", "host"}, {"hos", "host"}, {"hostt", "host"}, {"hxxt", ""}, {"passwrod", "password"}, {"pasword", "password"},
		{"pages", "page"}, {"p", ""}, {"x", ""}, {"replicaCount", ""}, {"Hots", "host"},
	} {
		if got := nearest(c.name, []string{"host", "page", "password", "replicas"}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
