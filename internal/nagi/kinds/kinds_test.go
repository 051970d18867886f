package kinds

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestANameMeansOneKind(t *testing.T) {
	all := []*registry.Entry{
		{Kind: "Website", APIVersion: "example.com/v1", Bucket: "websites"},
		{Kind: "Page", Bucket: "pages"},
		{Kind: "Page", APIVersion: "other.org/v1", Bucket: "leaves"},
	}
	for name, want := range map[string]string{
		"Website": "websites", "website": "websites", "websites": "websites", "WEBSITE.example.com": "websites",
		"Page": "pages", "leaves": "leaves", "page.other.org": "leaves", "pages": "pages",
	} {
		k, err := Of(all, name)
		if err != nil || k.Bucket != want {
			t.Errorf("%s: %v, %v; want %s", name, k, err, want)
		}
	}
	if _, err := Of(all, "page"); err != nil { // the key of one of the two, in another case
		t.Error(err)
	}
	_, err := Of(all, "them\x1be")
	if !apierrors.IsNotFound(err) || strings.Contains(err.Error(), "\x1b") || !strings.Contains(err.Error(), "Page.other.org") {
		t.Errorf("%v", err)
	}
	two := []*registry.Entry{{Kind: "Page", APIVersion: "a.org/v1", Bucket: "a"}, {Kind: "Page", APIVersion: "b.org/v1", Bucket: "b"}}
	if _, err := Of(two, "page"); err == nil || !strings.Contains(err.Error(), "Page.a.org, Page.b.org") {
		t.Errorf("%v", err)
	}
}

// Whoever publishes a kind must not have what users call another one mean documents of its own.
func TestAKindThatIsCalledAsABucketIsRefused(t *testing.T) {
	all := []*registry.Entry{
		{Kind: "Website", APIVersion: "example.com/v1", Bucket: "websites"},
		{Kind: "websites", Bucket: "customers"},
	}
	for _, name := range []string{"websites", "Websites"} {
		if k, err := Of(all, name); err == nil || !strings.Contains(err.Error(), "Website.example.com") {
			t.Errorf("%s: %v, %v", name, k, err)
		}
	}
	for name, want := range map[string]string{"customers": "customers", "website": "websites"} {
		if k, err := Of(all, name); err != nil || k.Bucket != want {
			t.Errorf("%s: %v, %v; want %s", name, k, err, want)
		}
	}
}

// secretKind has secrets by a path, by the schema, in a list, in a map, and in a type that refers to itself.
func secretKind() *Kind {
	return &Kind{Entry: &registry.Entry{Kind: "K", SecretFields: []string{"spec.password", "spec.users[].token"}, Schema: json.RawMessage(`{
		"properties": {"spec": {"properties": {
			"marked": {"writeOnly": true}, "by": {"additionalProperties": {"x-nagi-secret": true}},
			"tree": {"$ref": "#/$defs/Node"}, "either": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Node"}]}}}},
		"$defs": {"Node": {"properties": {"key": {"x-nagi-secret": true}, "below": {"items": {"$ref": "#/$defs/Node"}}}},
			"Loop": {"$ref": "#/$defs/Loop"}}}`)}}
}

func TestSecretsAreHiddenWhereverTheyAre(t *testing.T) {
	const document = `{"spec":{"Password":"s1","users":[{"token":"s2","name":"ann"}],"marked":{"deep":"s3"},"by":{"a":"s4"},
		"tree":{"KEY":"s5","below":[{"key":"s6","below":[{"key":"s7","name":"n"}]}]},"either":{"key":"s8"},"open":"o"}}`
	view := secretKind().View(Document{Key: "a", Value: []byte(document), Record: []byte(`{"lastDocument":` + document + `}`)})
	secretKind().Hide(view)
	text, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"} {
		if strings.Contains(string(text), `"`+secret+`"`) {
			t.Errorf("%s is shown: %s", secret, text)
		}
	}
	for _, open := range []string{`"ann"`, `"n"`, `"o"`} {
		if strings.Count(string(text), open) != 2 {
			t.Errorf("%s is not shown: %s", open, text)
		}
	}
}

// TestASchemaThatRefersToItselfInSeveralPlacesHidesAndEnds: whoever writes the registry keeps nobody from reading, and shows no secrets.
func TestASchemaThatRefersToItselfInSeveralPlacesHidesAndEnds(t *testing.T) {
	const grows = `"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}, {"$ref": "#"}]`
	for name, schema := range map[string]string{
		"below": `"properties": {"spec": {` + grows + `, "properties": {"password": {"writeOnly": true}}}}`,
		"above": grows + `, "properties": {"spec": {"properties": {"password": {"writeOnly": true}}}}`,
	} {
		k := &Kind{Entry: &registry.Entry{Kind: "Site", Schema: []byte(
			`{` + schema + `, "$defs": {"a": {` + grows + `}}}`)}}
		view := map[string]any{
			"metadata": map[string]any{"name": "home"}, "spec": map[string]any{"password": "hunter2"},
			"record": map[string]any{"lastDocument": map[string]any{"spec": map[string]any{"password": "hunter2"}}},
		}
		k.Hide(view)
		if shown := fmt.Sprint(view); strings.Contains(shown, "hunter2") || !strings.Contains(shown, "home") {
			t.Errorf("%s: it shows %s", name, shown)
		}
	}
}

func TestAColumnShowsWhatItsPathFinds(t *testing.T) {
	k := &Kind{Entry: &registry.Entry{Kind: "K", Namespaced: true, Columns: append(registry.DefaultColumns(),
		registry.Column{Name: "Size", Path: "$.spec.size", Type: "integer"},
		registry.Column{Name: "Broken", Path: "$[", Type: "string"})}}
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	view := k.View(Document{Key: "shop/a", Revision: 7, Value: []byte(`{"spec":{"size":9007199254740993},"status":"forged"}`),
		Record: []byte(`{"phase":"Synced","firstSeen":"2026-11-28T11:00:00Z","conditions":[{"type":"Reconciled","status":"True"}]}`)})
	got := map[string]string{}
	for _, c := range k.ColumnsOf(false) {
		got[c.Name] = c.Text(view, now)
	}
	want := map[string]string{"Reconciled": "True", "Phase": "Synced", "Revision": "7", "Age": "60m", "Size": "9007199254740993"}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %q, want %q", name, got[name], text)
		}
	}
	if len(got) != len(want) || view["status"] != nil {
		t.Errorf("columns %v, status %v", got, view["status"])
	}
}

func TestASchemaSaysWhereADocumentIsWrong(t *testing.T) {
	k := &Kind{Entry: &registry.Entry{Kind: "K", Schema: json.RawMessage(
		`{"type":"object","properties":{"spec":{"properties":{"pages":{"type":"array","items":{"type":"integer","minimum":1}}}}}}`)}}
	s, err := k.CompileSchema()
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Check([]byte(`{"spec":{"pages":[1,0,"x"]}}`))
	if err != nil || len(found) != 2 || found[0].Path != "spec.pages[1]" || found[1].Path != "spec.pages[2]" {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := s.Check([]byte(`{`)); err == nil {
		t.Error("what is no JSON is not refused")
	}
	none, err := (&Kind{Entry: &registry.Entry{}}).CompileSchema()
	if found, more := none.Check([]byte(`{}`)); err != nil || found != nil || more != nil {
		t.Errorf("without a schema: %v, %v, %v", err, found, more)
	}
}

func TestAViolationDoesNotQuoteASecret(t *testing.T) {
	k := &Kind{Entry: &registry.Entry{Kind: "K", SecretFields: []string{"spec.password"}, Schema: json.RawMessage(
		`{"properties":{"spec":{"properties":{"password":{"pattern":"^x"},"host":{"pattern":"^x"}}}}}`)}}
	schema, err := k.CompileSchema()
	if err != nil {
		t.Fatal(err)
	}
	found, err := schema.Check([]byte(`{"spec":{"password":"hunter2","host":"open"}}`))
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	for _, v := range found {
		if strings.Contains(v.String(), "hunter2") || v.Path == "spec.host" && !strings.Contains(v.String(), "open") {
			t.Error(v)
		}
	}
}
