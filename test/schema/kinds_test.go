package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/schema/website"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/santhosh-tekuri/jsonschema/v6"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const kindsFile = "../../docs/kinds.schema.json"

var websites = entity.Config{
	Kind: "Website", APIVersion: "example.com/v1", Bucket: "websites", SecretFields: []string{"spec.password"},
}

var update = flag.Bool("update", false, "write the example of docs/kinds.md anew")

func server(t *testing.T) jetstream.JetStream {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	return js
}

// publishedEntry runs a controller until its kind is published, and returns the value of its key.
func publishedEntry[T entity.IEntity](
	t *testing.T, js jetstream.JetStream, client *entity.Client[T], o registry.Options, opts ...controller.Option,
) []byte {
	t.Helper()
	cfg := client.Config()
	nothing := func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }
	c, err := controller.New("kinds", client, controller.ReconcilerFunc(nothing), append(opts, registry.Publish(o))...)
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	defer func() {
		stop()
		must(t, <-ended)
	}()
	for {
		kv, err := js.KeyValue(ctx, registry.Bucket)
		if err == nil {
			entry, err := kv.Get(ctx, registry.Key(cfg.Kind, cfg.APIVersion))
			if err == nil {
				return entry.Value()
			}
		}
		if ctx.Err() != nil {
			t.Fatal("the kind is not published")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func clientOf[T entity.IEntity](t *testing.T, js jetstream.JetStream, cfg entity.Config) *entity.Client[T] {
	t.Helper()
	cfg.Storage = jetstream.MemoryStorage
	client, err := entity.NewClient[T](t.Context(), js, cfg)
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

// schemaOf compiles the schema of a published entry.
func schemaOf(t *testing.T, entry []byte) *jsonschema.Schema {
	t.Helper()
	var of struct{ Schema json.RawMessage }
	must(t, json.Unmarshal(entry, &of))
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	must(t, compiler.AddResource("kind.json", instance(t, of.Schema)))
	schema, err := compiler.Compile("kind.json")
	if err != nil {
		t.Fatalf("%v in %s", err, of.Schema)
	}
	return schema
}

// decodes reports how a document that is put as it is reads.
func decodes[T entity.IEntity](t *testing.T, js jetstream.JetStream, client *entity.Client[T], document string) error {
	t.Helper()
	_, err := js.Publish(t.Context(), "$KV."+client.Config().Bucket+".it", []byte(document))
	must(t, err)
	_, err = client.Get(t.Context(), "it")
	if err != nil && !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	return err
}

// TestDocumentsDecodeIfTheSchemaAllowsThem, and only then.
func TestDocumentsDecodeIfTheSchemaAllowsThem(t *testing.T) {
	for _, strictness := range []entity.Strictness{entity.StrictWarn, entity.StrictRefuse} {
		t.Run(fmt.Sprint(strictness), func(t *testing.T) {
			js := server(t)
			client := clientOf[*tricky](t, js, entity.Config{
				Kind: "Tricky", APIVersion: "example.com/v1", Bucket: "tricky", Strict: strictness,
			})
			schema := schemaOf(t, publishedEntry(t, js, client, registry.Options{}))
			check := func(want bool, documents ...string) {
				for _, document := range documents {
					err := schema.Validate(instance(t, []byte(document)))
					if (err == nil) != want {
						t.Errorf("%s: the schema says %v", document, err)
					}
					if err := decodes(t, js, client, document); (err == nil) != want {
						t.Errorf("%s: it decodes: %v", document, err)
					}
				}
			}
			for _, document := range valid {
				check(strictness != entity.StrictRefuse || !strings.Contains(document, "ownerReferences"), document)
			}
			check(strictness != entity.StrictRefuse, unknown...)
			check(false, invalid...)
		})
	}
}

// TestWhatGoWritesIsAsTheSchemaSays: documents that a client writes, of the zero value and of one that is full.
func TestWhatGoWritesIsAsTheSchemaSays(t *testing.T) {
	js := server(t)
	client := clientOf[*tricky](t, js, entity.Config{Kind: "Tricky", Bucket: "tricky", Strict: entity.StrictRefuse})
	schema := schemaOf(t, publishedEntry(t, js, client, registry.Options{}))
	kv, err := js.KeyValue(t.Context(), "tricky")
	must(t, err)
	for i, document := range append([]string{`{}`}, valid...) {
		if strings.Contains(document, "metadata") || strings.Contains(document, "apiVersion") {
			continue
		}
		obj := &tricky{}
		must(t, json.Unmarshal([]byte(document), obj))
		obj.Name = fmt.Sprintf("n%d", i)
		must(t, client.Create(t.Context(), obj))
		entry, err := kv.Get(t.Context(), obj.Name)
		must(t, err)
		if err := schema.Validate(instance(t, entry.Value())); err != nil {
			t.Errorf("%s is written, and the schema says %v", entry.Value(), err)
		}
	}
}

// TestMarkersAndSecretsAreInTheSchema of a kind whose sources are at hand.
func TestMarkersAndSecretsAreInTheSchema(t *testing.T) {
	js := server(t)
	client := clientOf[*website.Website](t, js, websites)
	entry := publishedEntry(t, js, client, registry.Options{Source: website.Source})
	schema := schemaOf(t, entry)
	for document, want := range map[string]bool{
		`{"spec":{"host":"shop.example.com"}}`: true, `{"spec":{"host":"Shop!"}}`: false, `{"spec":{}}`: false,
		`{"spec":{"host":"a","pages":0}}`: false, `{"spec":{"host":"a","pages":1000}}`: true,
		`{"spec":{"host":"a","theme":"dark"}}`: true, `{"spec":{"host":"a","theme":"pink"}}`: false,
		`{"spec":{"host":"a","aliases":["b"]}}`: true, `{"spec":{"host":"a","aliases":[""]}}`: false,
	} {
		if err := schema.Validate(instance(t, []byte(document))); (err == nil) != want {
			t.Errorf("%s: the schema says %v", document, err)
		}
	}
	var of struct {
		Schema struct {
			Properties struct {
				Spec struct {
					Ref        string `json:"$ref"`
					Properties map[string]map[string]any
				}
				Status struct{ ReadOnly bool }
			}
			Defs map[string]struct {
				Properties map[string]map[string]any
			} `json:"$defs"`
		}
		SecretFields []string
		Columns      []registry.Column
	}
	must(t, json.Unmarshal(entry, &of))
	spec := of.Schema.Properties.Spec.Properties
	if spec == nil {
		spec = of.Schema.Defs[strings.TrimPrefix(of.Schema.Properties.Spec.Ref, "#/$defs/")].Properties
	}
	for _, name := range []string{"token", "password"} {
		if spec[name]["writeOnly"] != true || spec[name]["x-nagi-secret"] != true {
			t.Errorf("%s is not marked as secret: %v", name, spec[name])
		}
	}
	if spec["host"]["writeOnly"] != nil || spec["host"]["description"] != "Host is where it is served." ||
		spec["pages"]["default"] != 1.0 {
		t.Errorf("spec says %v", spec)
	}
	if !of.Schema.Properties.Status.ReadOnly || !reflect.DeepEqual(of.SecretFields, []string{"spec.password"}) {
		t.Errorf("the status or the secrets are not as they should be: %s", entry)
	}
	if len(of.Columns) == 0 || of.Columns[0].Name != "Host" || of.Columns[0].Path != "$.spec.host" {
		t.Errorf("the columns are %v", of.Columns)
	}
}

func kindsSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	schema, err := compiler.Compile(kindsFile)
	must(t, err)
	return schema
}

// TestTheExampleInTheDocumentationIsWhatIsPublished, apart from the id and the time.
func TestTheExampleInTheDocumentationIsWhatIsPublished(t *testing.T) {
	js := server(t)
	client := clientOf[*website.Website](t, js, websites)
	pages := clientOf[*site](t, js, entity.Config{Kind: "Page", Bucket: "pages"})
	entry := publishedEntry(t, js, client, registry.Options{
		Version: "v1.4.0", Source: website.Source,
	}, controller.Owns(pages), controller.WithInstance("4cYj8RbDkG1PzVnQ"))
	if err := kindsSchema(t).Validate(instance(t, entry)); err != nil {
		t.Errorf("what is published is not as %s says: %v", kindsFile, err)
	}
	var published map[string]any
	must(t, json.Unmarshal(entry, &published))
	published["controllers"].([]any)[0].(map[string]any)["since"] = "2026-11-25T04:15:44Z"
	const page = "../../docs/kinds.md"
	text, err := os.ReadFile(page)
	must(t, err)
	before, rest, ok := strings.Cut(string(text), "```json\n")
	example, after, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		t.Fatalf("%s has no example", page)
	}
	if *update {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		must(t, encoder.Encode(published))
		must(t, os.WriteFile(page, []byte(before+"```json\n"+strings.TrimSpace(out.String())+"\n```"+after), 0o644))
		return
	}
	var documented map[string]any
	must(t, json.Unmarshal([]byte(example), &documented))
	if !reflect.DeepEqual(published, documented) {
		t.Errorf("published is\n%s\nwhich %s does not show: run this test with -update", entry, page)
	}
}

// TestTheSchemaOfEntriesHasEachMemberAndRefusesOthersThings, and the documentation explains each.
func TestTheSchemaOfEntriesHasEachMemberAndRefusesWhatIsNone(t *testing.T) {
	data, err := os.ReadFile(kindsFile)
	must(t, err)
	type members struct {
		Properties map[string]any `json:"properties"`
	}
	var schema struct {
		members
		Defs map[string]members `json:"$defs"`
	}
	must(t, json.Unmarshal(data, &schema))
	text, err := os.ReadFile("../../docs/kinds.md")
	must(t, err)
	for name, of := range map[string]struct {
		goType reflect.Type
		schema members
	}{
		"entry":      {reflect.TypeFor[registry.Entry](), schema.members},
		"controller": {reflect.TypeFor[registry.Controller](), schema.Defs["controller"]},
		"resource":   {reflect.TypeFor[registry.Resource](), schema.Defs["resource"]},
		"column":     {reflect.TypeFor[registry.Column](), schema.Defs["column"]},
		"shards":     {reflect.TypeFor[registry.Shards](), schema.Defs["shards"]},
		"member":     {reflect.TypeFor[registry.Member](), schema.Defs["member"]},
	} {
		want := membersOf(of.goType)
		compare(t, name, want, keys(of.schema.Properties))
		for _, member := range want {
			if !strings.Contains(string(text), "`"+member+"`") {
				t.Errorf("docs/kinds.md does not explain `%s` of a %s", member, name)
			}
		}
	}
	compiled := kindsSchema(t)
	for entry, want := range map[string]bool{
		`{"schemaVersion":1,"kind":"A","bucket":"a","namespaced":false,"describedBy":"c","controllers":[{"name":"c","since":"2026-01-02T03:04:05Z","more":1}],"more":1}`:                                                                       true,
		`{"schemaVersion":1,"kind":"A","bucket":"a","namespaced":false,"describedBy":"c","controllers":[{"name":"c","since":"2026-01-02T03:04:05Z","shards":{"slots":8,"members":[{"name":"a","weight":1}],"since":"2026-01-02T03:04:05Z"}}]}`: true,
		`{"schemaVersion":1,"kind":"A","bucket":"a","namespaced":false,"describedBy":"c","controllers":[{"name":"c","since":"2026-01-02T03:04:05Z","shards":{"members":[]}}]}`:                                                                 false,
		`{}`: false, `[]`: false,
		`{"schemaVersion":2,"kind":"A","bucket":"a","namespaced":false,"describedBy":"c","controllers":[]}`:             false,
		`{"schemaVersion":1,"kind":"A","bucket":"a.b","namespaced":false,"describedBy":"c","controllers":[]}`:           false,
		`{"schemaVersion":1,"kind":"A","bucket":"a","namespaced":false,"describedBy":"c","controllers":[{}]}`:           false,
		`{"schemaVersion":1,"kind":"A","bucket":"a","namespaced":"no","describedBy":"c","controllers":[]}`:              false,
		`{"schemaVersion":1,"kind":"A","bucket":"a","namespaced":false,"describedBy":"c","controllers":[],"schema":""}`: false,
	} {
		if err := compiled.Validate(instance(t, []byte(entry))); (err == nil) != want {
			t.Errorf("%s: the schema says %v", entry, err)
		}
	}
}
